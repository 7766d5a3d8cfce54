/* text.h: a string that grows, for building one record before it is written at once. */
#ifndef FLEET_BASE_TEXT_H
#define FLEET_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct text {
	char *data;
	size_t length;
	size_t room;
	bool failed; /* out of memory: something is missing, and the text must not be used */
};

/* Empty the text, keeping its memory; and add to it as printf() does. Failures set text->failed. */
void text_clear(struct text *text);
void text_add(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Adds numbers the way the kernel lists CPUs: 0-3,8. They must ascend. */
void text_add_cpus(struct text *text, const int *cpus, size_t count);

void text_free(struct text *text);

/* Reads the whole number at the start of a text; returns the text after it, or null if there is no
 * number or it is above `most`. */
const char *text_read_number(const char *text, uint64_t most, uint64_t *number);

#endif
