/* report.h: what a run reports: once, for each visit, and at its end. */
#ifndef FLEET_EMIT_REPORT_H
#define FLEET_EMIT_REPORT_H

#include "base/level.h"
#include "burst/burst.h"
#include "machine/clocks.h"
#include "plan/plan.h"

/* The parts of a run that do not change. */
struct run {
	const struct plan *plan;
	const struct clock_facts *clock;
	const struct format *format;
	struct history *histories; /* of the plan's visits */
	struct again *again;       /* bursts that other work disturbed, to be taken again */
	float *ns;                 /* a row of visits per round: a burst's median, or NO_VALUE */
	uint32_t rounds;           /* rows of ns */
	uint64_t done;             /* bursts that an earlier agent has made, in all rounds */
	uint64_t done_minimum;     /* of those bursts: in the minimum rounds, or given up */
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
	uint32_t attempt; /* how many bursts of this visit and round were disturbed before */
	uint64_t units;   /* in a sample */
	int ping, pong;   /* the first of its CPUs and the last */
	const int *cpus;  /* of all threads */
	size_t cpu_count;
	const struct burst_result *result;
};

/* Returns the ns of a unit in a sample, one way for a hand-off. Warm-ups count as samples. */
double report_sample_ns(const struct run *run, const struct report *report, uint32_t sample);

/* The totals of a run. */
struct totals {
	uint64_t taken, failed;          /* bursts */
	uint64_t again;                  /* of these, bursts taken again */
	uint64_t converged, unconverged; /* visits; where a precision is wanted */
	uint32_t reached_ppm;            /* half the widest interval; UINT32_MAX: one has none */
	struct level *levels;            /* of the plan's visits, in ns */
};

#endif
