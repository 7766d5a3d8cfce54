/* notes.c: see notes.h. */
#include "notes.h"

#include <stdarg.h>
#include <stdio.h>

void notes_add(struct notes *notes, const char *format, ...)
{
	va_list args;

	if (notes->count == NOTES_MAX)
		return;
	va_start(args, format);
	vsnprintf(notes->text[notes->count++], NOTE_ROOM, format, args);
	va_end(args);
}
