/* refuse.c: filling in a refusal. */
#include "refuse.h"

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
