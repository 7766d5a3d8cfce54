/* trial.c: short trials before a visit's first burst. */
#include "burst/trial.h"

#include "base/interval.h"
#include "base/stop.h"

enum {
	SAMPLE_QUANTA = 1000,
	SLOW_US = 5000,
	ITERATIONS_MOST = 1000000000,
	PREPARED_MOST = 100, /* grains of a sample, where each is prepared */
};

static double typical_ticks(const uint64_t *ticks, size_t count)
{
	double values[TRIAL_SAMPLES];

	for (size_t i = 0; i < count; i++)
		values[i] = (double)ticks[i];
	return median(values, count);
}

double trial_wanted_ticks(uint32_t sample_us, const struct clock_facts *clock)
{
	double by_time = (double)clock->clock.ticks_per_second / 1e6 * sample_us;
	double by_step = (double)clock->clock.quantum_ticks * SAMPLE_QUANTA;

	return by_time > by_step ? by_time : by_step;
}

uint32_t trial_iterations(const struct trial *trial, const struct benchmark *benchmark,
			  const struct clock_facts *clock)
{
	double wanted = trial_wanted_ticks(benchmark->single ? 0 : benchmark->sample_us, clock);
	double multiple = wanted / trial->grain_ticks / benchmark->least;

	if (benchmark->single && multiple >= PREPARED_MOST)
		return PREPARED_MOST;
	if (multiple * benchmark->least >= ITERATIONS_MOST)
		return ITERATIONS_MOST;
	return ((uint32_t)multiple + 1) * benchmark->least;
}

bool trial_is_short(double ticks, const struct clock_facts *clock)
{
	return ticks < (double)clock->clock.quantum_ticks * SAMPLE_QUANTA / 2;
}

bool trial_is_slow(const struct trial *trial, const struct clock_facts *clock)
{
	return trial->grain_ticks > (double)clock->clock.ticks_per_second / 1e6 * SLOW_US;
}

static int64_t samples_ns(double ticks, uint32_t samples, const struct clock_facts *clock)
{
	return (int64_t)(ticks * samples * 1e9 / (double)clock->clock.ticks_per_second);
}

/* Of hand-offs the first samples are odd; of what only works one is like the next. */
enum burst_outcome trial_take(const struct burst_order *wanted, const struct clock_facts *clock,
			      struct random *random, void (*idle)(void),
			      struct burst_result *result, struct trial *trial)
{
	uint64_t grain = bench_grain(wanted->benchmark, wanted->point);
	uint64_t grains = wanted->benchmark->least;
	struct burst_order order = *wanted;
	int64_t start_ns = now_ns(), last_ns;
	enum burst_outcome outcome;
	double typical = 0;

	order.samples = wanted->benchmark->points && !wanted->benchmark->single ? TRIAL_SAMPLES_FEW
										: TRIAL_SAMPLES;
	order.warmup = 1;
	for (;; grains *= 10) {
		order.iterations = grains * grain;
		last_ns = now_ns();
		outcome = burst_take(&order, random, idle, result);
		if (outcome == BURST_TAKEN)
			typical = typical_ticks(result->ticks + 1, order.samples - 1);
		if (outcome != BURST_TAKEN || grains >= ITERATIONS_MOST / 10 ||
		    wanted->benchmark->single ||
		    typical >= (double)clock->least_ticks * TRIAL_QUANTA)
			break;
	}
	int64_t end_ns = now_ns();
	int64_t rest_ns = end_ns - last_ns - samples_ns(typical, order.samples, clock);

	*trial = (struct trial){.grain_ticks = typical > 0 ? typical / (double)grains : 1,
				.overhead_ns = rest_ns > 0 ? rest_ns : 0,
				.spent_ns = end_ns - start_ns};
	return outcome;
}
