/* burst.h: taking the few samples of one visit, with fresh threads on fresh lines. */
#ifndef FLEET_BURST_H
#define FLEET_BURST_H

#include "base/random.h"
#include "bench/bench.h"
#include "burst/trial.h"
#include "machine/counters.h"
#include "machine/lines.h"

#include <stdbool.h>

struct burst_order {
	const struct benchmark *benchmark;
	const struct variant *variant;
	const struct point *point;
	const struct clock *clock;
	const struct clock_facts *clock_facts; /* of it */
	const int *cpus; /* of the threads, ping's first; need not outlive burst_run() */
	size_t cpu_count;
	uint32_t samples;      /* warm-ups included */
	uint32_t samples_slow; /* likewise, where a trial says that a unit takes long */
	uint32_t warmup;       /* of these, the first so many */
	uint64_t iterations;   /* units in a sample; 0: as many as a trial says */
	int priority;          /* realtime; 0: none */
	int64_t stuck_ns;      /* given up when this long without progress */
	struct placement placement;
	const struct counters *counters; /* null: nothing is counted */
};

struct burst_result {
	struct trial trial;
	uint64_t *ticks;       /* of ping, then of each other that takes times: the caller's room */
	uint64_t *other_units; /* likewise what each of the others did in each of ping's samples */
	size_t counted_others; /* how many others' units were counted */
	uint32_t samples;      /* of each */
	size_t timed;          /* threads that took times */
	int ping_cpus[2], pong_cpus[2]; /* found before and after; pong is the last thread */
	bool switches_known;
	int64_t switches[4]; /* voluntary, involuntary of ping, then of all others */
	int64_t start_ns;    /* of now_ns() */
	int64_t *begin_ns;   /* of each thread that takes times, after the first: likewise */
	bool ran_known;
	uint32_t ran_ppm[2]; /* share of the burst in which ping ran, and the least of the others */
	bool steal_known;
	uint32_t
		steal_ppm[2]; /* in which its CPU was taken from ping, and the most of the others */
	uint32_t core_mhz[2]; /* of ping's core, before and after; 0: not known */
	uint32_t sample_mhz;  /* of ping's core, median behind its samples; likewise */
	struct event_count *counts; /* of each thread, by counter: likewise; null: none ever */
	bool counted;
	size_t line_count;
	struct line_place lines[LINES_MAX]; /* or where ping's arena begins */
	char failed[160];                   /* why there are no numbers */
};

enum burst_outcome { BURST_TAKEN, BURST_FAILED, BURST_STOPPED };

/* To be called once, before the first burst. */
int burst_init(void);

/* Takes one burst. `idle` is called now and then while it lasts. BURST_STOPPED: an order to end has
 * come; the threads may still be running and end with the process. */
enum burst_outcome burst_run(const struct burst_order *order, struct random *random,
			     void (*idle)(void), struct burst_result *result);

#endif
