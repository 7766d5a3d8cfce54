/* run.h: carrying out a plan. */
#ifndef FLEET_RUN_H
#define FLEET_RUN_H

#include "clock.h"
#include "counters.h"
#include "plan.h"

struct format;

/* What does not change during a run. */
struct run {
	struct plan *plan;
	const struct clock_facts *clock;
	const struct format *format;
	uint32_t features;
	const char *governor, *boost; /* set for the time of the run; null: left as they were */
	int priority;                 /* realtime priority of the workers; 0: none */
	const struct notes *notes;    /* to be passed on after hello */
	int64_t stuck_ns;
	int64_t start_ns;
	const struct counters *counters; /* asked for; null: none */
	uint32_t *core_mhz; /* of the plan's CPUs, before the first burst; 0: not known */
};

/* One visit as it was carried out. */
struct report {
	const struct visit *visit;
	uint32_t round;
	int ping, pong;  /* the first of its CPUs and the last */
	const int *cpus; /* of all threads */
	size_t cpu_count;
	const struct burst_result *result;
};

/* What a run came to. */
struct totals {
	uint64_t taken, failed;          /* bursts */
	uint64_t converged, unconverged; /* visits; where a precision is wanted */
	uint64_t several_levels;         /* of both */
	uint32_t reached_ppm;            /* half the widest interval; UINT32_MAX: one has none */
};

/* Measures the whole plan, or until an order to end comes, and emits what it finds. */
enum exit_code run_all(struct run *run);

#endif
