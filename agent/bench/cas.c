/* cas.c: one line, handed over by compare-and-swap. Ping turns 0 into 1, pong 1 into 0. */
#include "bench/bench.h"

static void set_up_turns(struct side *sides, size_t count, struct random *random)
{
	(void)random;
	for (size_t i = 0; i < count; i++) {
		sides[i].turn.watched = sides[i].turn.written = sides[i].lines[0];
		sides[i].turn.from = i == 0 ? 0 : 1;
		sides[i].turn.to = i == 0 ? 1 : 0;
		sides[i].first = 1;
	}
}

static void take_turns(struct side *side, uint32_t n)
{
	side->variant->cas(side->turn.watched, side->turn.from, side->turn.to, n);
}

/* A line holds only 0 and 1, so one flip lets a waiting thread do its next turn. */
static void release_waiting(struct side *sides, size_t count)
{
	(void)count;
	__atomic_fetch_xor(sides[0].turn.written, 1, __ATOMIC_RELAXED);
}

PARAMETERS(PARAMETER_NODE);

const struct benchmark bench_cas = {
	.name = "cas",
	.question = "How long a line takes to another CPU, handed over by compare-and-swap",
	.unit = "round_trip",
	.two_ways = true,
	.heading = "one-way latency in ns",
	.view = "matrix",
	.parameters = parameters,
	.shape = SHAPE_PAIR,
	.lines = 1,
	.least = 100,
	.chunk = 1 << 14,
	.sample_us = 50,
	.native_variants = arch_cas,
	.generic_variants = generic_cas,
	.set_up = set_up_turns,
	.do_units = take_turns,
	.release_waiting = release_waiting,
};
