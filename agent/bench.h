/* bench.h: what a benchmark is. One file per benchmark; bench.c lists them. */
#ifndef FLEET_BENCH_H
#define FLEET_BENCH_H

#include "native/native.h"

/* One thread's part in a benchmark. */
struct side {
	const struct variant *variant;
	const struct clock *clock;
	uint32_t *watched; /* the line it waits on */
	uint32_t *written; /* the line it stores to; may be the same */
	uint32_t from;     /* what it waits for next */
	uint32_t to;       /* what it then stores */
};

struct benchmark {
	const char *name;
	const char *summary;
	size_t lines; /* cache lines in play; 0: one thread on one CPU is all it takes */
	const struct variant *native_variants, *generic_variants; /* null: none */

	/* Fills in what is watched and written; all lines hold 0, and ping begins. */
	void (*lay)(struct side *ping, struct side *pong, uint32_t *const *lines);

	/* Does n turns: waits for the other thread and answers it, n times. */
	void (*turn)(struct side *side, uint32_t n);
};

extern const struct benchmark bench_cas, bench_readwrite, bench_clock;

/* All benchmarks; ends with a null pointer. */
extern const struct benchmark *const bench_all[];

/* Gives the variants of `clock` their names: those of the clock in use. */
void bench_clock_use(const struct clock *clock);

/* Visits a benchmark's variants, best first: the i-th one, or null. */
const struct variant *bench_variant(const struct benchmark *benchmark, size_t i);

#endif
