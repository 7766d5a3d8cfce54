/* trial.h: how many units make a sample, by a few short samples at the start of a burst. */
#ifndef FLEET_BURST_TRIAL_H
#define FLEET_BURST_TRIAL_H

#include "bench/bench.h"
#include "machine/clocks.h"

enum {
	TRIAL_SAMPLES = 4,     /* the first is thrown away */
	TRIAL_SAMPLES_FEW = 2, /* where a sample may be long */
	TRIAL_QUANTA = 100,    /* a stretch shorter than this says too little */
	SAMPLE_US_LEAST = 50,  /* the shortest that any benchmark wants */
	SAMPLE_US_MOST = 1000, /* a sample longer than this catches a timer tick each time */
};

struct trial {
	double grain_ticks; /* ticks of a grain; 0: nothing was tried */
	uint32_t grains;    /* grains in a sample */
	bool slow;          /* a single grain takes long: few samples are enough */
	int64_t spent_ns;
};

/* Returns how many samples a trial has. */
uint32_t trial_sample_count(const struct benchmark *benchmark);

/* Evaluates samples of so many grains, by the clock's reading before the first and after each.
 * Returns false if they were too short for the clock: try ones of ten times as many grains. */
bool trial_evaluate(const struct benchmark *benchmark, const struct clock_facts *clock,
		    const uint64_t *stamps, uint32_t grains, struct trial *trial);

/* Returns the least ticks of a sample: worth a burst, and long against the clock's step. */
double trial_least_sample_ticks(uint32_t sample_us, const struct clock_facts *clock);

/* Reports whether a sample of so many ticks is too short for the steps of the clock. */
bool trial_is_sample_short(double ticks, const struct clock_facts *clock);

#endif
