/* trial.h: how many units make a sample, and how long a plan will take. */
#ifndef FLEET_BURST_TRIAL_H
#define FLEET_BURST_TRIAL_H

#include "burst/burst.h"
#include "machine/clocks.h"

enum {
	TRIAL_SAMPLES = 6,     /* the first is thrown away */
	TRIAL_SAMPLES_FEW = 2, /* where a sample may be long */
	TRIAL_QUANTA = 100,    /* a stretch shorter than this says too little */
	SAMPLE_US_LEAST = 100, /* the shortest that any benchmark wants */
	SAMPLE_US_MOST = 1000, /* a sample longer than this catches a timer tick each time */
};

/* Result of the short trial of a visit. */
struct trial {
	double grain_ticks;  /* of the units that are done together */
	int64_t overhead_ns; /* of a burst, beside its samples */
	int64_t spent_ns;
};

/*
 * Tries a visit by short bursts of which nothing is kept. `order` says how; its samples and
 * iterations are left aside.
 */
enum burst_outcome trial_take(const struct burst_order *order, const struct clock_facts *clock,
			      struct random *random, void (*idle)(void),
			      struct burst_result *result, struct trial *trial);

/* Ticks a sample should last: long enough to be worth a burst, and long against the clock's step.
 */
double trial_wanted_ticks(uint32_t sample_us, const struct clock_facts *clock);

/* How many grains last as long as is wanted: a multiple of the benchmark's least, and not none. */
uint32_t trial_iterations(const struct trial *trial, const struct benchmark *benchmark,
			  const struct clock_facts *clock);

/* Does a single grain take so long that few samples must do? */
/* Is a sample of so many ticks too short for the steps of the clock? */
bool trial_is_short(double ticks, const struct clock_facts *clock);

bool trial_is_slow(const struct trial *trial, const struct clock_facts *clock);

#endif
