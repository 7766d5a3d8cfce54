/* bench_clock.c: back-to-back readings of the clock; the only variant is the clock in use. */
#include "bench.h"

static struct variant in_use[2];

void bench_clock_use(const struct clock *clock)
{
	in_use[0].name = clock->name;
}

static void turn(struct side *side, uint32_t n)
{
	while (n--)
		side->clock->ticks();
}

const struct benchmark bench_clock = {
	.name = "clock",
	.summary = "one CPU, back-to-back readings of the clock",
	.native_variants = in_use,
	.turn = turn,
};
