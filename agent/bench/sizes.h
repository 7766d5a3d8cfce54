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

bool points_has_name(const struct points *points, const char *name);

/* Adds a point. Returns 0, or -1 and a refusal. */
int points_add(struct points *points, const struct point *point, struct refusal *refusal);

/* Reads --sizes; auto: 1/4, 1/2, 3/4, 2 and 4 times each data cache, up to `most` or 4 times the
 * last one, whichever is less. */
int read_sizes(const char *text, const struct cpu_facts *facts, uint64_t most, struct sizes *sizes,
	       struct refusal *refusal);

/* Returns a size well outside all caches: 4 times a thread's share of the caches of so many
 * threads. */
uint64_t size_outside_caches(const struct point_context *context, uint32_t threads, uint64_t most);

/* Reports whether the points lie in huge pages. */
bool points_have_huge_pages(const struct point_context *context);

/* Reads the value of an option, a list of words, into a mask of what they stand for. */
int read_words_as_mask(const char *option, const char *list, const char *(*word)(unsigned value),
		       unsigned count, uint32_t *mask, struct refusal *refusal);

/* Reads the value of --op into a mask of operations. */
int read_operations(const char *list, uint32_t *mask, struct refusal *refusal);

/* Reads an item of a list and moves past it: "512K", or a range "16K..2M", of sizes that `is_size`
 * accepts; false if there is no such item. */
bool read_size_range(const char **next, bool (*is_size)(uint64_t bytes), uint64_t *first,
		     uint64_t *last);

/* Writes 524288 as "512K". */
void format_size(uint64_t bytes, char name[SIZE_ROOM]);

/* Returns a number that identifies a cycle: its size, stride and order. */
uint64_t chase_cycle_key(const struct point *point);

/* Callbacks of chase, for other benchmarks that chase: all lines of an arena. */
void chase_set_up(struct side *sides, size_t count, struct random *random);
int chase_link_lines(struct side *side);
void chase_do_loads(struct side *side, uint32_t n);
bool chase_check_position(const struct side *sides, size_t count, char *words, size_t room);
void chase_try_loop(const struct variant *variant);

/* Returns the last data cache on the way to memory; null if none is known. */
const struct cpu_cache *last_data_cache(const struct cpu_facts *facts);

#endif
