/* calibrate.h: how many round trips make a sample, and how long a plan will take. */
#ifndef FLEET_CALIBRATE_H
#define FLEET_CALIBRATE_H

#include "burst.h"
#include "clock.h"

enum {
	TRIAL_QUANTA = 100,    /* a stretch shorter than this says too little */
	SAMPLE_US_MOST = 1000, /* a sample longer than this catches a timer tick each time */
};

/* What a short trial of a pair told. */
struct trial {
	double round_trip_ticks;
	int64_t overhead_ns; /* of a burst, beside its samples */
	int64_t spent_ns;
};

/*
 * Tries a pair by short bursts of which nothing is kept. `order` says how; its samples and
 * iterations are left aside.
 */
enum burst_outcome calibrate(const struct burst_order *order, const struct clock_facts *clock,
			     struct random *random, void (*idle)(void), struct burst_result *result,
			     struct trial *trial);

/* Ticks a sample should last: long enough to be worth a burst, and long against the clock's step.
 */
double calibrate_wanted_ticks(const struct clock_facts *clock);

/* The least multiple of 100 round trips, and not none, that lasts as long as is wanted. */
uint32_t calibrate_iterations(const struct trial *trial, const struct clock_facts *clock);

#endif
