/* clock.c: back-to-back readings of the clock; the only variant is the clock in use. */
#include "bench/bench.h"

static struct variant in_use[2];

void bench_clock_use(const struct clock *clock)
{
	in_use[0].name = clock->name;
}

static void lay(struct side *sides, size_t count, struct random *random)
{
	(void)count;
	(void)random;
	sides[0].first = 1;
}

static void work(struct side *side, uint32_t n)
{
	while (n--)
		side->clock->ticks();
}

const struct benchmark bench_clock = {
	.name = "clock",
	.question = "What a reading of the clock costs",
	.unit = "reading",
	.heading = "cost of one clock reading in ns",
	.view = "matrix",
	.shape = SHAPE_CPU,
	.least = 100,
	.chunk = 1 << 14,
	.sample_us = 100,
	.native_variants = in_use,
	.lay = lay,
	.work = work,
};
