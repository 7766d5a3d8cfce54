/* sizes.h: lists of points, and the sizes of memory they go through. */
#ifndef FLEET_BENCH_SIZES_H
#define FLEET_BENCH_SIZES_H

#include "bench/bench.h"

enum { SIZES_MAX = 128, SIZE_ROOM = 24 };

/* Ascending, each once. */
struct sizes {
	uint64_t bytes[SIZES_MAX];
	size_t count;
};

bool points_have(const struct points *points, const char *name);

/* Adds a point. */
int points_add(struct points *points, const struct point *point, struct refusal *refusal);

/* Reads --sizes; auto: 1/4, 1/2, 3/4, 2 and 4 times each data cache, up to `most` or 4 times the
 * last one, whichever is less. */
int sizes_read(const char *text, const struct cpu_facts *facts, uint64_t most, struct sizes *sizes,
	       struct refusal *refusal);

/* Well outside all caches: 4 times those of so many threads, of which each has its part. */
uint64_t size_outside(const struct point_context *context, uint32_t threads, uint64_t most);

/* Do the points lie in huge pages? */
bool points_huge(const struct point_context *context);

/* Reads the value of an option, a list of words, into a mask of what they stand for. */
int words_read(const char *option, const char *list, const char *(*word)(unsigned value),
	       unsigned count, uint32_t *mask, struct refusal *refusal);

/* The same of --op. */
int operations_read(const char *list, uint32_t *mask, struct refusal *refusal);

/* Reads an item of a list at *at and moves past it: "512K", or a range "16K..2M", of sizes that
 * may be; false if that is not what stands there. */
bool size_range_read(const char **at, bool (*is_size)(uint64_t bytes), uint64_t *first,
		     uint64_t *last);

/* Writes 524288 as "512K". */
void size_name(uint64_t bytes, char name[SIZE_ROOM]);

/* What a cycle over such memory is told apart by: size, stride and order. */
uint64_t chase_cycle(const struct point *point);

/* Parts of chase, for who chases, too: all lines of an arena. */
void chase_lay(struct side *sides, size_t count, struct random *random);
int chase_prepare(struct side *side);
void chase_work(struct side *side, uint32_t n);
bool chase_check(const struct side *sides, size_t count, char *words, size_t room);
void chase_attempt(const struct variant *variant);

/* The last cache for data on the way to memory; null where none is known. */
const struct cpu_cache *last_cache(const struct cpu_facts *facts);

#endif
