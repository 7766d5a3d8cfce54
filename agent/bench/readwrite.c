/* readwrite.c: two lines, one writer each: ping stores k & 1 in turn k, and pong repeats it. */
#include "bench/bench.h"

static void set_up_turns(struct side *sides, size_t count, struct random *random)
{
	(void)random;
	for (size_t i = 0; i < count; i++) {
		sides[i].turn.written = sides[i].lines[i];
		sides[i].turn.watched = sides[i].lines[count - 1 - i];
		sides[i].turn.from = i == 0 ? 0 : 1;
		sides[i].turn.to = 1;
		sides[i].first = 1;
	}
}

static void take_turns(struct side *side, uint32_t n)
{
	side->variant->readwrite(side->turn.watched, side->turn.written, side->turn.from,
				 side->turn.to, n);
	side->turn.from ^= n & 1;
	side->turn.to ^= n & 1;
}

/* A line holds only 0 and 1, so one flip of each lets a waiting thread do its next turn. */
static void release_waiting(struct side *sides, size_t count)
{
	for (size_t i = 0; i < count; i++)
		__atomic_fetch_xor(sides[i].turn.written, 1, __ATOMIC_RELAXED);
}

PARAMETERS(PARAMETER_NODE);

const struct benchmark bench_readwrite = {
	.name = "readwrite",
	.question =
		"How long a store takes to be seen by another CPU, on lines with one writer each",
	.unit = "round_trip",
	.two_ways = true,
	.heading = "one-way latency in ns",
	.view = "matrix",
	.parameters = parameters,
	.shape = SHAPE_PAIR,
	.lines = 2,
	.least = 100,
	.chunk = 1 << 14,
	.sample_us = 50,
	.native_variants = arch_readwrite,
	.generic_variants = generic_readwrite,
	.set_up = set_up_turns,
	.do_units = take_turns,
	.release_waiting = release_waiting,
};
