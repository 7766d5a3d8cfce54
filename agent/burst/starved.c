/* starved.c: whether other work kept the threads of a burst from running. */
#include "burst/worker.h"

#include "base/interval.h"
#include "base/stop.h"

#include <stdio.h>
#include <time.h>

/* A sample starves if it takes STARVED times the CPU time that its threads had; a burst is given up
 * once it has lasted HOPELESS times the CPU time of one of its threads. */
enum { STARVED = 5, HOPELESS = 10 };

static void describe_starved(const struct worker *worker, struct burst_result *result)
{
	snprintf(result->failed, sizeof result->failed,
		 "%s did not have CPU %d for most of a typical sample: other work held it, or a "
		 "quota of CPU time was used up",
		 worker->name, worker->cpu);
}

/* Reports whether most samples of a thread are mostly time that was lost in them. */
static bool are_samples_starved(const struct burst *burst, const struct worker *worker,
				const uint64_t *ticks, double ns_per_tick)
{
	uint32_t first = burst->order.warmup, samples = burst->order.samples, starved = 0;

	for (uint32_t i = first; i < samples; i++) {
		double lost_ns = (double)worker->lost_ns[i];

		starved += lost_ns > 0 &&
			   lost_ns * STARVED >= (double)ticks[i] * ns_per_tick * (STARVED - 1);
	}
	return starved && 2 * starved >= samples - first;
}

/* For samples without pauses: reports whether a thread lacked most of the time that typical samples
 * take. The two threads of a pair wait for each other, so theirs is added up. */
static bool is_burst_starved(const struct burst *burst, double typical_ns)
{
	bool pair = burst->order.benchmark->shape == SHAPE_PAIR;
	double all_ns = typical_ns * burst->order.samples, lacked_ns = 0;

	for (size_t w = 0; w < burst->count; w++) {
		int64_t ran_ns = burst->workers[w].ran_ns[1] - burst->workers[w].ran_ns[0];
		double rest_ns = all_ns - (double)(ran_ns + NS_PER_MS / 100);

		if (rest_ns > 0 && (pair || rest_ns > lacked_ns))
			lacked_ns = pair ? lacked_ns + rest_ns : rest_ns;
	}
	return lacked_ns * STARVED >= all_ns * (STARVED - 1);
}

/* Returns how long a thread was without its CPU in the burst, its samples counted twice. */
static int64_t sum_lost_ns(const struct burst *burst, const struct worker *worker)
{
	int64_t lost_ns =
		worker->at_ns[1] - worker->at_ns[0] - worker->ran_ns[1] + worker->ran_ns[0];

	for (uint32_t i = 0; worker->lost_ns && i < burst->order.samples; i++)
		lost_ns += worker->lost_ns[i];
	return lost_ns;
}

bool burst_describe_starvation(const struct burst *burst, struct burst_result *result)
{
	static double values[SAMPLES_MAX];
	const struct burst_order *order = &burst->order;
	double ns_per_tick = 1e9 / (double)order->clock->ticks_per_second;
	const struct worker *worst = burst->workers;
	bool starved = false;

	for (size_t w = 0; w < burst->count; w++) {
		const struct worker *worker = &burst->workers[w];

		if (!worker->ran_known || order->clock->is_rate_wrong)
			return false;
		if (sum_lost_ns(burst, worker) > sum_lost_ns(burst, worst))
			worst = worker;
	}
	for (uint32_t i = 0; i < order->samples; i++)
		values[i] = (double)result->ticks[i] * ns_per_tick;
	if (!worst->lost_ns)
		starved = is_burst_starved(
			burst, median(values + order->warmup, order->samples - order->warmup));
	for (size_t t = 0; worst->lost_ns && t < result->timed; t++)
		starved |= are_samples_starved(burst, &burst->workers[t],
					       result->ticks + t * order->samples, ns_per_tick);
	if (starved)
		describe_starved(worst, result);
	return starved;
}

/* Returns the CPU time a thread has had so far; negative: not known. */
static int64_t read_cpu_ns(const struct worker *worker)
{
	struct timespec ran;
	clockid_t clock;
	int64_t own_ns;

	if (os_thread_cpu_ns(&own_ns) || pthread_getcpuclockid(worker->thread, &clock) ||
	    clock_gettime(clock, &ran))
		return -1;
	return ran.tv_sec * NS_PER_S + ran.tv_nsec;
}

bool burst_is_starving(const struct burst *burst, int64_t watched_ns, struct burst_result *result)
{
	bool long_enough = watched_ns >= burst->order.stuck_ns && watched_ns >= NS_PER_S;

	for (size_t i = 0; long_enough && i < burst->count; i++) {
		const struct worker *worker = &burst->workers[i];
		int64_t ran = !worker->started || __atomic_load_n(&worker->out, __ATOMIC_ACQUIRE)
				      ? -1
				      : read_cpu_ns(worker);

		if (ran < 0 || ran >= watched_ns / HOPELESS)
			continue;
		describe_starved(worker, result);
		return true;
	}
	return false;
}
