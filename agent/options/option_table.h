/* option_table.h: the options, one row each: read by options.c, printed by --help. */
#ifndef FLEET_OPTIONS_OPTION_TABLE_H
#define FLEET_OPTIONS_OPTION_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How a value is read; the type of the member of struct options it goes to. */
enum kind {
	FLAG,          /* bool */
	TEXT,          /* const char *, checked later */
	WORD,          /* const char *, one of `words` */
	PRESET,        /* const char *, and more: a row of `presets` */
	COUNT,         /* uint64_t from `least` to `most` */
	COUNTS,        /* const char *, a list of counts from `least` to `most` */
	COUNT_OR_AUTO, /* a whole number, or auto: 0 */
	SHARE_PPM,     /* int64_t: 1% or 0.01; off: 0 */
	SECONDS,       /* int64_t nanoseconds; its limits are milliseconds */
};

struct option {
	const char *heading; /* heading of the options from here on in --help; null: unchanged */
	char letter;         /* 0: none */
	const char *name;
	enum kind kind;
	size_t offset; /* in struct options */
	uint64_t least, most;
	uint64_t multiple;       /* that the count is of; 0: of any */
	const char *words;       /* separated by | */
	const char *allowed;     /* of a text: which values, in words for people */
	const char *value;       /* as shown in --help; null for a flag */
	const char *usual;       /* the value where none is given; null: none, or it depends */
	const char *with_rounds; /* the usual value beside --rounds; null: the same */
	const char *usual_words; /* when that is another, in words */
	bool has_benchmarks;     /* the help begins with the benchmarks that take the option */
	const char *help;        /* a sentence; fleet shows it, too */
	const char *more;        /* for --help */
};

extern const struct option option_table[];
extern const size_t option_count;

/* Two options that exclude one another; or of which one, where it is given, needs the other, a
 * share, to be on. */
struct rule {
	const char *name;
	enum relation { EXCLUDES, NEEDS } relation;
	const char *other;
	const char *why; /* and what to do */
};

/* Ends with a null name. */
extern const struct rule rules[];

/* How another program measures, as far as its samples and its estimator go. */
struct preset {
	const char *name, *estimator;
	const char *arguments[8]; /* that it stands for; ends with a null pointer */
};

/* Ends with a null name. */
extern const struct preset presets[];

#endif
