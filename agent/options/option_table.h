/* option_table.h: the options, one row each: read by options.c, printed by --help. */
#ifndef FLEET_OPTIONS_OPTION_TABLE_H
#define FLEET_OPTIONS_OPTION_TABLE_H

#include <stddef.h>
#include <stdint.h>

/* How a value is read; the type of the member of struct options it goes to. */
enum kind {
	FLAG,            /* bool */
	TEXT,            /* const char *, checked later */
	WORD,            /* const char *, one of `words` */
	PRESET,          /* const char *, and more: a row of `presets` */
	COUNT,           /* uint64_t from `least` to `most` */
	COUNT_OR_AUTO,   /* a whole number, or auto: 0 */
	SHARE_PPM,       /* int64_t: 1% or 0.01; off: 0 */
	SECONDS,         /* int64_t nanoseconds, above 0 */
	SECONDS_OR_ZERO, /* a number of seconds, or 0 */
};

struct option {
	const char *heading; /* heading of the options from here on in --help; null: unchanged */
	char letter;         /* 0: none */
	const char *name;
	enum kind kind;
	size_t offset; /* in struct options */
	uint64_t least, most;
	const char *words; /* separated by | */
	const char *value; /* as shown in --help; null for a flag */
	const char *help;
};

extern const struct option option_table[];
extern const size_t option_count;

/* How another program measures, as far as its samples and its estimator go. */
struct preset {
	const char *name;
	uint64_t samples, warmup, iterations;
	const char *pairs, *estimator;
};

/* Ends with a null name. */
extern const struct preset presets[];

#endif
