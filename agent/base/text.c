/* text.c: the growing string of text.h. */
#include "base/text.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void text_clear(struct text *text)
{
	text->length = 0;
	text->failed = false;
}

static bool make_room(struct text *text, size_t more)
{
	size_t needed = text->length + more + 1;

	if (needed <= text->room)
		return true;
	char *data = realloc(text->data, needed * 2);
	if (!data) {
		text->failed = true;
		return false;
	}
	text->data = data;
	text->room = needed * 2;
	return true;
}

void text_add(struct text *text, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	int length = vsnprintf(NULL, 0, format, args);
	va_end(args);
	if (length < 0 || !make_room(text, (size_t)length))
		return;
	va_start(args, format);
	vsnprintf(text->data + text->length, (size_t)length + 1, format, args);
	va_end(args);
	text->length += (size_t)length;
}

void text_add_cpus(struct text *text, const int *cpus, size_t count)
{
	for (size_t first = 0, last; first < count; first = last + 1) {
		for (last = first; last + 1 < count && cpus[last + 1] == cpus[last] + 1;)
			last++;
		text_add(text, first ? ",%d" : "%d", cpus[first]);
		if (last > first)
			text_add(text, "-%d", cpus[last]);
	}
}

void text_free(struct text *text)
{
	free(text->data);
	*text = (struct text){0};
}

const char *text_read_number(const char *text, uint64_t most, uint64_t *number)
{
	char *end;

	errno = 0;
	*number = strtoull(text, &end, 10);
	return text[0] < '0' || text[0] > '9' || errno || *number > most ? NULL : end;
}
