/* points.h: lists of points, and the sizes of memory they go through. */
#ifndef FLEET_POINTS_H
#define FLEET_POINTS_H

#include "bench.h"

enum { SIZES_MAX = 128, SIZE_ROOM = 24 };

/* Ascending, each once. */
struct sizes {
	uint64_t bytes[SIZES_MAX];
	size_t count;
};

/* Adds a point. */
int points_add(struct points *points, const struct point *point, struct refusal *refusal);

/*
 * Reads --sizes; auto: 1/4, 1/2, 3/4, 2 and 4 times each data cache, up to `most` or 4 times the
 * last one, whichever is less.
 */
int sizes_read(const char *text, const struct cpu_facts *facts, uint64_t most, struct sizes *sizes,
	       struct refusal *refusal);

/* Do a benchmark's points lie in huge pages? */
bool points_huge(const struct point_context *context, const struct benchmark *benchmark);

/*
 * Reads the value of an option, a list of names, into a mask of their places among `names`, of
 * which some may be null.
 */
int names_read(const char *option, const char *list, const char *const *names, size_t count,
	       uint32_t *mask, struct refusal *refusal);

/* The same of --op. */
int operations_read(const char *list, uint32_t *mask, struct refusal *refusal);

/* Reads "512K" at *at and moves past it; false if that is not what stands there. */
bool size_read(const char **at, uint64_t *bytes);

/* Writes 524288 as "512K". */
void size_name(uint64_t bytes, char name[SIZE_ROOM]);

/* The last cache for data on the way to memory; null where none is known. */
const struct cpu_cache *last_cache(const struct cpu_facts *facts);

#endif
