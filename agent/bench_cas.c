/* bench_cas.c: one line, handed over by compare-and-swap. Ping turns 0 into 1, pong 1 into 0. */
#include "bench.h"

static void lay(struct side *ping, struct side *pong, uint32_t *const *lines)
{
	ping->watched = ping->written = pong->watched = pong->written = lines[0];
	ping->from = 0;
	ping->to = 1;
	pong->from = 1;
	pong->to = 0;
}

static void turn(struct side *side, uint32_t n)
{
	side->variant->cas(side->watched, side->from, side->to, n);
}

const struct benchmark bench_cas = {
	.name = "cas",
	.summary = "one line, handed over by compare-and-swap",
	.lines = 1,
	.native_variants = arch_cas,
	.generic_variants = generic_cas,
	.lay = lay,
	.turn = turn,
};
