/* burst.h: taking the few samples of one pair, with two fresh threads on fresh lines. */
#ifndef FLEET_BURST_H
#define FLEET_BURST_H

#include "bench.h"
#include "lines.h"
#include "random.h"

#include <stdbool.h>

struct burst_order {
	const struct benchmark *benchmark;
	const struct variant *variant;
	const struct clock *clock;
	int ping, pong;      /* CPUs; the same where one is all it takes */
	uint32_t samples;    /* warm-ups included */
	uint32_t iterations; /* round trips in a sample */
	int priority;        /* realtime; 0: none */
	int64_t stuck_ns;    /* given up when this long without progress */
	struct placement placement;
};

struct burst_result {
	uint64_t *ticks;                /* room for order.samples, the caller's */
	int ping_cpus[2], pong_cpus[2]; /* found before and after */
	bool switches_known;
	int64_t switches[4]; /* voluntary, involuntary of ping, then of pong */
	int64_t start_ns;    /* of now_ns() */
	bool ran_known;
	uint32_t ran_ppm[2]; /* share of the burst in which ping, and pong, ran */
	size_t line_count;
	struct line_place lines[LINES_MAX];
	char failed[160]; /* why there are no numbers */
};

enum burst_outcome { BURST_TAKEN, BURST_FAILED, BURST_STOPPED };

/* To be called once, before the first burst. */
int burst_start(void);

/*
 * Takes one burst. `idle` is called now and then while it lasts. BURST_STOPPED: an order to end has
 * come; the threads may still be running and end with the process.
 */
enum burst_outcome burst_take(const struct burst_order *order, struct random *random,
			      void (*idle)(void), struct burst_result *result);

#endif
