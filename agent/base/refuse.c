/* refuse.c: filling in refusals and notes. */
#include "base/refuse.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int refuse(struct refusal *refusal, enum exit_code exit_code, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(refusal->text, sizeof refusal->text, format, args);
	va_end(args);
	refusal->exit_code = exit_code;
	return -1;
}

int read_option_lines(struct refusal *refusal, const char *option, const char *path,
		      read_line_fn *read_line, void *context)
{
	FILE *file = fopen(path, "r");
	char *line = NULL;
	size_t room = 0, number = 0;
	bool ended = false, good = true;

	if (!file)
		return refuse(refusal, EXIT_OPTIONS, "%s: cannot read %s: %s", option, path,
			      strerror(errno));
	while (good && !ended && getline(&line, &room, file) >= 0) {
		number++;
		ended = !strcmp(line, "end\n");
		good = ended || read_line(line, context);
	}
	free(line);
	fclose(file);
	if (!good)
		return refuse(refusal, EXIT_OPTIONS, "%s: line %zu of %s makes no sense here",
			      option, number, path);
	return ended ? 0 : refuse(refusal, EXIT_OPTIONS, "%s: %s has no end", option, path);
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
