/* refuse.h: messages before a run: why it is refused, or what to know about it. */
#ifndef FLEET_BASE_REFUSE_H
#define FLEET_BASE_REFUSE_H

#include <stdbool.h>
#include <stddef.h>

enum exit_code {
	EXIT_DONE = 0,
	EXIT_OTHER = 1,
	EXIT_OPTIONS = 2,      /* an option that makes no sense, or not here */
	EXIT_TOO_FEW_CPUS = 3, /* fewer CPUs usable than the benchmark needs */
	EXIT_CPU = 4,          /* a CPU asked for cannot be used */
	EXIT_VARIANT = 5,      /* this CPU or build lacks the variant */
	EXIT_UNFINISHED = 6,   /* ended before the plan was done */
	EXIT_LOCKED = 7,       /* another agent measures on this machine */
};

struct refusal {
	enum exit_code exit_code;
	char text[1024];
};

/* Fills in the refusal; returns -1, so that a caller can say `return refuse(...)`. */
int refuse(struct refusal *refusal, enum exit_code exit_code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Passes each line of the file that an option names to `read_line`, with `context`, up to the line
 * `end`. Returns 0; or -1, and a refusal, if the file cannot be read, has no line `end`, or has a
 * line for which `read_line` returns false. */
typedef bool read_line_fn(char *line, void *context);
int read_option_lines(struct refusal *refusal, const char *option, const char *path,
		      read_line_fn *read_line, void *context);

/* Sentences written before there is a record to put them in. */
enum { NOTES_MAX = 8, NOTE_ROOM = 900 };

struct notes {
	size_t count;
	char text[NOTES_MAX][NOTE_ROOM];
};

/* Adds a sentence; drops it if the list is full. */
void notes_add(struct notes *notes, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
