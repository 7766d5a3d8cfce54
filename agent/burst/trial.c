/* trial.c: evaluates the short samples of a trial. */
#include "burst/trial.h"

#include "base/interval.h"

enum {
	SAMPLE_QUANTA = 1000,
	SLOW_US = 5000,
	ITERATIONS_MOST = 1000000000,
	PREPARED_MOST = 100, /* grains of a sample, where each is prepared */
};

/* The first samples of a hand-off are odd; where threads only work, one sample is like the next. */
uint32_t trial_sample_count(const struct benchmark *benchmark)
{
	return benchmark->add_points && !benchmark->single ? TRIAL_SAMPLES_FEW : TRIAL_SAMPLES;
}

static double median_ticks(const uint64_t *stamps, uint32_t samples)
{
	double values[TRIAL_SAMPLES];

	for (uint32_t i = 1; i < samples; i++)
		values[i - 1] = (double)(stamps[i + 1] - stamps[i]);
	return median(values, samples - 1);
}

double trial_least_sample_ticks(uint32_t sample_us, const struct clock_facts *clock)
{
	double by_time = (double)clock->clock.ticks_per_second / 1e6 * sample_us;
	double by_step = (double)clock->clock.quantum_ticks * SAMPLE_QUANTA;

	return by_time > by_step ? by_time : by_step;
}

/* Returns how many grains make a sample long enough: a positive multiple of the benchmark's
 * least. */
static uint32_t choose_grains(double grain_ticks, const struct benchmark *benchmark,
			      const struct clock_facts *clock)
{
	double wanted =
		trial_least_sample_ticks(benchmark->single ? 0 : benchmark->sample_us, clock);
	double multiple = wanted / grain_ticks / benchmark->least;

	if (benchmark->single && multiple >= PREPARED_MOST)
		return PREPARED_MOST;
	if (multiple * benchmark->least >= ITERATIONS_MOST)
		return ITERATIONS_MOST;
	return ((uint32_t)multiple + 1) * benchmark->least;
}

bool trial_is_sample_short(double ticks, const struct clock_facts *clock)
{
	return ticks < (double)clock->clock.quantum_ticks * SAMPLE_QUANTA / 2;
}

bool trial_evaluate(const struct benchmark *benchmark, const struct clock_facts *clock,
		    const uint64_t *stamps, uint32_t grains, struct trial *trial)
{
	double slow_ticks = (double)clock->clock.ticks_per_second / 1e6 * SLOW_US;
	double typical = median_ticks(stamps, trial_sample_count(benchmark));

	trial->grain_ticks = typical > 0 ? typical / grains : 1;
	trial->grains = choose_grains(trial->grain_ticks, benchmark, clock);
	trial->slow = trial->grain_ticks > slow_ticks;
	return benchmark->single || grains >= ITERATIONS_MOST / 10 ||
	       typical >= (double)clock->least_ticks * TRIAL_QUANTA;
}
