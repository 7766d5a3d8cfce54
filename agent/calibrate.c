/* calibrate.c: short trials before a pair's first burst. */
#include "calibrate.h"

#include "precision.h"
#include "stop.h"

enum {
	TRIAL_SAMPLES = 6, /* the first is thrown away */
	TRIAL_ITERATIONS = 100,
	SAMPLE_ITERATIONS = 100,
	SAMPLE_QUANTA = 1000,
	SAMPLE_US = 100,
	ITERATIONS_MOST = 1000000000,
};

static double typical_ticks(const uint64_t *ticks, size_t count)
{
	double values[TRIAL_SAMPLES];

	for (size_t i = 0; i < count; i++)
		values[i] = (double)ticks[i];
	return median(values, count);
}

double calibrate_wanted_ticks(const struct clock_facts *clock)
{
	double by_time = (double)clock->clock.ticks_per_second / 1e6 * SAMPLE_US;
	double by_step = (double)clock->quantum_ticks * SAMPLE_QUANTA;

	return by_time > by_step ? by_time : by_step;
}

uint32_t calibrate_iterations(const struct trial *trial, const struct clock_facts *clock)
{
	double round_trip = trial->round_trip_ticks;
	double multiple = calibrate_wanted_ticks(clock) / round_trip / SAMPLE_ITERATIONS;

	if (multiple * SAMPLE_ITERATIONS >= ITERATIONS_MOST)
		return ITERATIONS_MOST;
	return ((uint32_t)multiple + 1) * SAMPLE_ITERATIONS;
}

static int64_t samples_ns(double ticks, const struct clock_facts *clock)
{
	return (int64_t)(ticks * TRIAL_SAMPLES * 1e9 / (double)clock->clock.ticks_per_second);
}

enum burst_outcome calibrate(const struct burst_order *wanted, const struct clock_facts *clock,
			     struct random *random, void (*idle)(void), struct burst_result *result,
			     struct trial *trial)
{
	uint64_t ticks[TRIAL_SAMPLES] = {0}, *kept = result->ticks;
	struct burst_order order = *wanted;
	int64_t start_ns = now_ns(), last_ns;
	enum burst_outcome outcome;
	double typical = 0;

	order.samples = TRIAL_SAMPLES;
	result->ticks = ticks;
	for (order.iterations = TRIAL_ITERATIONS;; order.iterations *= 10) {
		last_ns = now_ns();
		outcome = burst_take(&order, random, idle, result);
		typical = typical_ticks(ticks + 1, TRIAL_SAMPLES - 1);
		if (outcome != BURST_TAKEN || order.iterations >= ITERATIONS_MOST / 10 ||
		    typical >= (double)clock->quantum_ticks * TRIAL_QUANTA)
			break;
	}
	int64_t end_ns = now_ns(), rest_ns = end_ns - last_ns - samples_ns(typical, clock);

	result->ticks = kept;
	*trial = (struct trial){.round_trip_ticks = typical > 0 ? typical / order.iterations : 1,
				.overhead_ns = rest_ns > 0 ? rest_ns : 0,
				.spent_ns = end_ns - start_ns};
	return outcome;
}
