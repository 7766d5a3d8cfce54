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
	const struct clock_facts *clock_facts; /* facts of that clock */
	const int *cpus; /* CPUs of the threads, ping's first; need not outlive burst_run() */
	size_t cpu_count;
	uint32_t samples;      /* warm-ups included */
	uint32_t samples_slow; /* samples where a trial shows that a unit takes long */
	uint32_t warmup;       /* how many of the first samples are warm-ups */
	uint64_t iterations;   /* units in a sample; 0: as a trial chooses */
	int priority;          /* realtime; 0: none */
	int64_t stuck_ns;      /* a burst without progress for so long is given up */
	struct placement placement;
	const struct counters *counters; /* null: nothing is counted */
};

struct burst_result {
	struct trial trial;
	uint64_t *ticks; /* by thread that takes times, ping's first: ticks of each sample; the
			    caller's memory */
	uint64_t *other_units; /* by other thread: its units in each of ping's samples; the caller's
				  memory */
	size_t counted_others; /* other threads whose units were counted */
	uint32_t samples;      /* samples of each thread; 0: the burst did not end */
	size_t timed;          /* threads that took times */
	int ping_cpus[2], pong_cpus[2]; /* found before and after; pong is the last thread */
	bool switches_known;
	int64_t switches[4]; /* voluntary, involuntary of ping, then of all others */
	int64_t start_ns;    /* by now_ns() */
	int64_t *begin_ns;   /* by thread that takes times: ns after the first began; the caller's
				memory */
	bool ran_known;
	uint32_t
		ran_ppm[2]; /* share of the burst in which ping ran, and the other that ran least */
	bool steal_known;
	uint32_t steal_ppm[2]; /* share taken by a hypervisor: from ping, and from the other that
				  lost most */
	uint32_t core_mhz[2];  /* of ping's core, before and after; 0: not known */
	uint32_t sample_mhz;   /* of ping's core, median after its samples; 0: not known */
	struct event_count *
		counts; /* by thread and counter; the caller's memory; null: none is ever counted */
	bool counted;
	size_t line_count;
	struct line_place lines[LINES_MAX]; /* the lines, or the start of ping's arena */
	char failed[160];                   /* why there are no numbers */
	bool disturbed;      /* because of other work; its samples, if it has any, are whole */
	uint64_t iterations; /* units in each of these samples */
};

enum burst_outcome { BURST_TAKEN, BURST_FAILED, BURST_STOPPED };

/* Prepares bursts; called once before the first. Returns 0 or -errno. */
int burst_init(void);

/* Runs one burst, calling `idle` now and then. BURST_STOPPED: an order to end came; its threads may
 * still run, and end with the process. */
enum burst_outcome burst_run(const struct burst_order *order, struct random *random,
			     void (*idle)(void), struct burst_result *result);

#endif
