/* contended.h: what contend and sharing have in common: a word that all threads want, and on a line
 * of its own what each has done. */
#ifndef FLEET_BENCH_CONTENDED_H
#define FLEET_BENCH_CONTENDED_H

#include "bench/bench.h"

#include <string.h>

enum {
	BATCH = 32, /* operations, writes or looks of a thread between two stores of its count */
	TURNS = 8,  /* units between two stores where one thread waits for another */
	CONTENDED_ARENA = 4096,
};

#define CONTENDED                                                                                  \
	.shape = SHAPE_GROUP, .threads = "2,all", .all_counted = true, .lines = 1, .least = 128,   \
	.chunk = 512, .sample_us = 200, .prepare = clear_own_line

/* Clears the first line of a thread's own memory. */
static inline int clear_own_line(struct side *side)
{
	memset(side->arena, 0, LINE_BYTES);
	return 0;
}

/* Adds up `count` values, of which each is one more than the one before. */
static inline uint32_t sum_upwards(uint32_t first, uint32_t count)
{
	return (uint32_t)((uint64_t)first * count + (uint64_t)count * (count - 1) / 2);
}

#endif
