/* clock.c: back-to-back readings of a clock: of that in use, or of the operating system's. */
#include "bench/bench.h"

#include <string.h>

static struct clock system_clock;
static struct variant clocks[3];

void bench_use_clock(const struct clock *clock)
{
	os_get_clock(&system_clock);
	clocks[0].name = clock->name;
	clocks[1].name = strcmp(clock->name, system_clock.name) ? system_clock.name : NULL;
}

static void set_up_reader(struct side *sides, size_t count, struct random *random)
{
	(void)count;
	(void)random;
	sides[0].first = 1;
}

static void read_clock(struct side *side, uint32_t n)
{
	uint64_t (*ticks)(void) = side->variant == clocks ? side->clock->ticks : system_clock.ticks;

	while (n--)
		ticks();
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
	.native_variants = clocks,
	.set_up = set_up_reader,
	.do_units = read_clock,
};
