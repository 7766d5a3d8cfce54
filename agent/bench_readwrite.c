/*
 * bench_readwrite.c: two lines, one writer each, plain loads and stores. Ping announces turn k on
 * its line by the value k & 1, pong repeats that value on the other.
 */
#include "bench.h"

static void lay(struct side *ping, struct side *pong, uint32_t *const *lines)
{
	ping->written = pong->watched = lines[0];
	ping->watched = pong->written = lines[1];
	ping->from = 0;
	ping->to = 1;
	pong->from = 1;
	pong->to = 1;
}

static void turn(struct side *side, uint32_t n)
{
	side->variant->readwrite(side->watched, side->written, side->from, side->to, n);
	side->from ^= n & 1;
	side->to ^= n & 1;
}

const struct benchmark bench_readwrite = {
	.name = "readwrite",
	.summary = "two lines, one writer each, loads and stores",
	.lines = 2,
	.native_variants = arch_readwrite,
	.generic_variants = generic_readwrite,
	.lay = lay,
	.turn = turn,
};
