/*
 * simulated.c: in the place of base/stop.c and burst/burst.c, so that the agent plans, paces and
 * reports in a time of the test's own: only waits and bursts take any, and each burst takes what
 * the test says. Variables of the environment, each 0 unless set:
 *
 *	BURST_MS    of every burst, trials too
 *	UNIT_US     of every unit of its samples
 *	SCATTER     a unit takes up to so much more or less, as a share; one draw for a burst
 *	SLOW_BURST  the number of the burst that takes SLOW_MS more; the first is 1
 *	SLOW_MS
 *	TWO_LEVELS  a unit takes so many times as long in four bursts of eight
 *	FAILS_ON    a burst with this CPU fails, but on CPU 0
 *	DISTURBED   so many bursts are disturbed, trials too, of
 *	DISTURBED_OF so many, the last ones
 */
#include <poll.h>
#include <stdatomic.h>
#include <stdint.h>
#include <time.h>

static _Atomic int64_t time_ns = INT64_C(1000000000);

/* A reading takes 1 us, so that whoever spins until a moment gets there. */
static int read_clock(clockid_t clock, struct timespec *now)
{
	int64_t ns = atomic_fetch_add(&time_ns, 1000);

	(void)clock;
	*now = (struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
	return 0;
}

/* Who reads our stdout lives in real time: the simulated one stands still until he does. */
static int wait_for(struct pollfd *polled, nfds_t count, int timeout_ms)
{
	int ready = poll(polled, count, polled[count - 1].fd < 0 ? 0 : -1);

	if (!ready)
		atomic_fetch_add(&time_ns, (int64_t)timeout_ms * 1000000);
	return ready;
}

#define clock_gettime read_clock
#define poll          wait_for
#include "base/stop.c"
#undef clock_gettime
#undef poll

#include "burst/burst.h"

#include <stdlib.h>

static double setting(const char *name)
{
	const char *text = getenv(name);

	return text ? atof(text) : 0;
}

int burst_init(void)
{
	return 0;
}

static bool fails(const struct burst_order *order)
{
	for (size_t i = 0; i < order->cpu_count; i++)
		if (order->cpus[i] && order->cpus[i] == (int)setting("FAILS_ON"))
			return true;
	return false;
}

/* From -1 to 1, the same in each run. */
static double draw(void)
{
	static uint32_t state = 1;

	state = state * 1664525 + 1013904223;
	return state / (double)UINT32_MAX * 2 - 1;
}

/* The trial of an order, which then is that of the samples to keep. */
static void try_out(struct burst_order *order, double unit_ns, struct trial *trial)
{
	double ticks_per_ns = (double)order->clock->ticks_per_second / 1e9;
	uint64_t stamps[TRIAL_SAMPLES + 1], grain = bench_units_in_grain(order->benchmark, order->point);
	uint32_t samples = trial_sample_count(order->benchmark), grains = order->benchmark->least / 10;
	double spent_ns = 0, sample_ns;

	do {
		grains = grains ? 10 * grains : 1;
		sample_ns = unit_ns * (double)(grains * grain);
		spent_ns += sample_ns * samples;
		for (uint32_t i = 0; i <= samples; i++)
			stamps[i] = (uint64_t)(i * sample_ns * ticks_per_ns);
	} while (!trial_evaluate(order->benchmark, order->clock_facts, stamps, grains, trial));
	trial->spent_ns = (int64_t)spent_ns;
	order->iterations = trial->grains * grain;
	if (trial->slow)
		order->samples = order->samples_slow;
}

enum burst_outcome burst_run(const struct burst_order *order, struct random *random,
			      void (*idle)(void), struct burst_result *result)
{
	static int number;
	double unit_ns = setting("UNIT_US") * 1e3 * (1 + setting("SCATTER") * draw());

	if (setting("TWO_LEVELS") > 0 && number / 4 % 2)
		unit_ns *= setting("TWO_LEVELS");
	struct burst_order kept = *order;

	result->trial = (struct trial){0};
	if (!order->iterations)
		try_out(&kept, unit_ns, &result->trial);
	double sample_ns = unit_ns * (double)kept.iterations;
	double burst_ns = setting("BURST_MS") * 1e6 + sample_ns * kept.samples +
			  (double)result->trial.spent_ns;
	uint64_t ticks = (uint64_t)(sample_ns / 1e9 * (double)order->clock->ticks_per_second);

	(void)random;
	if (++number == (int)setting("SLOW_BURST"))
		burst_ns += setting("SLOW_MS") * 1e6;
	snprintf(result->failed, sizeof result->failed, "%s", fails(order) ? "it was to fail" : "");
	int of = (int)setting("DISTURBED_OF");

	result->samples = 0;
	result->disturbed = of && number % of >= of - (int)setting("DISTURBED");
	if (result->disturbed)
		snprintf(result->failed, sizeof result->failed, "other work held it");
	result->start_ns = now_ns();
	if (stop_wait(-1, 0, result->start_ns + (int64_t)burst_ns) == WAIT_STOP)
		return BURST_STOPPED;
	idle();
	if (*result->failed && !result->disturbed)
		return BURST_FAILED;
	result->samples = kept.samples;
	result->iterations = kept.iterations;
	result->timed = order->benchmark->all_timed ? order->cpu_count : 1;
	for (size_t i = 0; i < result->timed * kept.samples; i++)
		result->ticks[i] = ticks;
	if (result->disturbed)
		return BURST_FAILED;
	for (size_t i = 0; i < result->timed; i++)
		result->begin_ns[i] = 0;
	for (int i = 0; i < 2; i++) {
		result->ping_cpus[i] = order->cpus[0];
		result->pong_cpus[i] = order->cpus[order->cpu_count - 1];
	}
	return BURST_TAKEN;
}
