/* options.h: the command line, checked word by word but not yet against this machine. */
#ifndef FLEET_OPTIONS_H
#define FLEET_OPTIONS_H

#include "base/refuse.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Samples in a record at most: 20 digits and a comma each stay well below the 1 MiB of a line. */
enum { SAMPLES_MAX = 40000 };

enum { MESSAGE_LINES_MOST = 64 };
enum { BLOCK_LEAST = 64, BLOCK_MOST = 64 << 10 };
enum { SIDE_MOST = 4096 }; /* of a matrix */
enum { MBPS_LEAST = 100, MBPS_MOST = 64000 };
enum { SIZE_STEP = 4096 };
#define SIZE_MOST (UINT64_C(1) << 40)

enum { NOT_GIVEN = -1, SECONDS_MOST = 1000000000 };
enum { PRIORITY_USUAL = 1000 }; /* higher than any: stands for os_priority_usual */

struct options {
	const char *benchmarks;    /* comma-separated names, or "all" */
	const char *variant;       /* a name, "auto", "all", or a list like cas=lse,readwrite=all */
	const char *cpus;          /* a CPU list; null: all that may be used */
	const char *pairs;         /* "half", "ordered", or a list like 0-1,0-4 */
	const char *order;         /* "shuffled" or "sequential" */
	const char *format;        /* "matrix", "csv", "jsonl" or the name of another program */
	const char *estimator;     /* "median", "mean" or "min" */
	const char *preset;        /* null: none */
	const char *line;          /* "fresh" or "fixed" */
	const char *owner;         /* "ping" or "pong" */
	const char *governor;      /* null: left as it is */
	const char *boost;         /* "on", "off"; null: left as it is */
	const char *done;          /* file of what is measured already; null: nothing */
	const char *lock;          /* for which run and whom the machine is locked; null: not */
	const char *sizes;         /* "auto", or a list like 16K,1M..64M */
	const char *operations;    /* a list; null: the usual ones */
	const char *share;         /* a list; null: the benchmark's usual */
	const char *threads;       /* a list of llc, cores, package, all and numbers */
	const char *load;          /* a list of GB/s and full; null: the usual ones */
	const char *reads;         /* a list of per cents; null: the usual mix */
	const char *pages;         /* "huge" or "base"; null: as is usual for the benchmark */
	const char *message_lines; /* a list of numbers */
	const char *shape;         /* "auto", or like 256x256x256 */
	const char *states;        /* a list; null: the usual ones */
	const char *blocks;        /* a list like 64,256..64K */
	const char *few_pairs; /* pairs of benchmarks with many points, a list; null: as pairs */
	const char *counters;  /* a list of NAME=TYPE:CONFIG; null: none */
	uint64_t stride;       /* bytes; 0: the usual one */
	uint64_t given;        /* a bit for each row of the table */
	uint64_t samples, warmup;
	bool samples_given;
	uint64_t rounds;     /* the minimum */
	uint64_t iterations; /* 0: chosen per pair */
	uint64_t seed;
	uint64_t priority;      /* 0: none */
	int64_t precision_ppm;  /* 0: none wanted */
	int64_t time_budget_ns; /* 0: the usual one */
	bool rounds_given;
	bool budget_ends; /* the time budget may end the first round too */
	int64_t spread_ns;
	int64_t node;        /* NOT_GIVEN: none asked for */
	const char *nodes;   /* "all", or a list of numbers; null: memory is not placed */
	uint64_t separation; /* bytes; 0: none asked for */
	int64_t deadline_ns; /* 0: none */
	int64_t stuck_ns;    /* a burst without progress for this long is given up */
	bool until_eof;
	const char *facts; /* file of another machine; null: this one */
	bool forecast;
	bool help, version, build_id, list, machine, describe;
};

/* Reads the command line over the defaults, from left to right: options after --preset override it.
 * A seed not given is drawn from the clock. Checks nothing against the machine. Returns 0, or -1
 * and a refusal. */
int options_parse(struct options *options, int argc, char **argv, struct refusal *refusal);

/* Adds what benchmarks have to do with an option. */
typedef void add_words_fn(struct text *text, const char *option);

/* Prints the page of --help. add_benchmarks: those that take an option, before its sentence.
 * add_words: what the words of its list mean, behind all. */
void options_print_help(FILE *out, add_words_fn *add_benchmarks, add_words_fn *add_words);

/* Refuses an option's value; says which are allowed. Returns -1. */
int options_refuse_value(const char *name, const char *value, struct refusal *refusal);

/* Reports whether a word is one of those that the table lists for the option. */
bool options_has_word(const char *name, const char *word);

/* Reports whether this kind of pages is asked for: "huge" or "base". */
bool options_has_pages(const struct options *options, const char *kind);

#endif
