/* refuse.c: filling in refusals and notes. */
#include "base/refuse.h"

#include <stdarg.h>
#include <stdio.h>

int refuse(struct refusal *refusal, enum exit_code exit_code, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(refusal->text, sizeof refusal->text, format, args);
	va_end(args);
	refusal->exit_code = exit_code;
	return -1;
}

void notes_add(struct notes *notes, const char *format, ...)
{
	va_list args;

	if (notes->count == NOTES_MAX)
		return;
	va_start(args, format);
	vsnprintf(notes->text[notes->count++], NOTE_ROOM, format, args);
	va_end(args);
}
