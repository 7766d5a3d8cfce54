/* samples.c: how the threads of a burst meet, work, and take its samples. */
#include "burst/samples.h"

#include "base/stop.h"
#include "machine/account.h"

#include <string.h>

bool burst_is_given_up(const struct burst *burst)
{
	return __atomic_load_n(&burst->give_up, __ATOMIC_RELAXED);
}

/* Each thread stores its arrival on a line of its own; ping waits for them all and then opens. */
bool worker_wait_for_all(struct worker *worker)
{
	struct burst *burst = worker->burst;
	const struct worker *workers = burst->workers;
	uint32_t gate = worker->arrived + 1;

	__atomic_store_n(&worker->arrived, gate, __ATOMIC_RELEASE);
	for (size_t i = 1; worker == workers && i < burst->count; i++)
		while (__atomic_load_n(&workers[i].arrived, __ATOMIC_ACQUIRE) != gate)
			if (burst_is_given_up(burst))
				return false;
	if (worker == workers)
		__atomic_store_n(&burst->open, gate, __ATOMIC_RELEASE);
	while (__atomic_load_n(&burst->open, __ATOMIC_ACQUIRE) != gate)
		if (burst_is_given_up(burst))
			return false;
	return true;
}

bool worker_do_units(struct worker *worker, uint64_t n)
{
	const struct benchmark *benchmark = worker->burst->order.benchmark;

	while (n && !burst_is_given_up(worker->burst)) {
		uint32_t chunk = n < benchmark->chunk ? (uint32_t)n : benchmark->chunk;

		benchmark->do_units(worker->side, chunk);
		n -= chunk;
		bench_report_progress(worker->side);
	}
	return n == 0;
}

/* Where threads take turns, makes one that is not timed. Whatever ping does between two turns gives
 * the others the time to answer, so that half of its next turn is over before it begins. */
static bool take_untimed_turn(struct worker *worker)
{
	return !worker->burst->order.benchmark->release_waiting ||
	       worker_do_units(worker, worker->side->first);
}

/* Stamps the clock before the first sample and after each. A unit of ping's work ends with its last
 * store or load, so the stretch between two stamps holds `iterations` whole units. */
static bool stamp_samples(struct worker *worker)
{
	const struct burst_order *order = &worker->burst->order;

	worker->begin_ns = now_ns();
	if (!take_untimed_turn(worker))
		return false;
	worker->stamps[0] = order->clock->ticks();
	for (uint32_t i = 1; i <= order->samples; i++) {
		if (!worker_do_units(worker, order->iterations))
			return false;
		worker->stamps[i] = order->clock->ticks();
	}
	return true;
}

/* Stamps each sample, and measures the core's frequency after it, in time outside all samples. */
static bool stamp_samples_and_frequency(struct worker *worker)
{
	const struct burst_order *order = &worker->burst->order;

	worker->begin_ns = now_ns();
	for (uint32_t i = 1; i <= order->samples; i++) {
		uint64_t start = order->clock->ticks();

		if (!worker_do_units(worker, order->iterations))
			return false;
		worker->stamps[i] = worker->stamps[i - 1] + order->clock->ticks() - start;
		worker->sample_mhz[i - 1] = frequency_measure_brief(order->clock, &worker->behind);
	}
	return true;
}

/* Reads the units that each other thread has done, right after a stamp. */
static void read_units_of_others(const struct worker *worker, uint32_t *done)
{
	const struct burst *burst = worker->burst;

	for (size_t i = 1; i < burst->count; i++)
		*done++ = __atomic_load_n(&burst->sides[i].done, __ATOMIC_RELAXED);
}

/* Waits until each of the others is at work. */
static bool wait_for_others_at_work(const struct worker *worker)
{
	const struct burst *burst = worker->burst;

	for (size_t i = 1; i < burst->count; i++) {
		const uint32_t *done = &burst->workers[i].progress;
		uint32_t first = __atomic_load_n(done, __ATOMIC_RELAXED);

		while (__atomic_load_n(done, __ATOMIC_RELAXED) == first)
			if (burst_is_given_up(burst))
				return false;
	}
	return true;
}

/* Reads the CPU time that each other thread has had. Its own readings would not do: it works on
 * until it sees that ping has ended, for as long as a unit of its work takes. */
static void read_cpu_time_of_others(const struct burst *burst, struct cpu_time *times)
{
	for (size_t i = 1; i < burst->count; i++, times++) {
		times->at_ns = now_ns();
		times->ran_ns = worker_read_cpu_ns(&burst->workers[i]);
	}
}

/* Stamps each sample and reads the other threads' counts at each stamp. Reading them is part of
 * every sample, so it contains what they do meanwhile. */
static bool stamp_samples_and_others(struct worker *worker)
{
	struct burst *burst = worker->burst;
	const struct burst_order *order = &burst->order;
	size_t others = burst->count - 1;

	if (!order->point->by_turns && !wait_for_others_at_work(worker))
		return false;
	worker->begin_ns = now_ns();
	read_cpu_time_of_others(burst, worker->beside);
	if (!take_untimed_turn(worker))
		return false;
	worker->stamps[0] = order->clock->ticks();
	read_units_of_others(worker, worker->done);
	for (uint32_t i = 1; i <= order->samples; i++) {
		if (!worker_do_units(worker, order->iterations))
			return false;
		worker->stamps[i] = order->clock->ticks();
		read_units_of_others(worker, worker->done + i * others);
	}
	read_cpu_time_of_others(burst, worker->beside + others);
	__atomic_add_fetch(&burst->finished, 1, __ATOMIC_RELEASE);
	return true;
}

/* Works until ping has all its samples. */
static bool work_beside_ping(struct worker *worker)
{
	struct burst *burst = worker->burst;

	worker->takes++;
	while (__atomic_load_n(&burst->finished, __ATOMIC_ACQUIRE) < worker->takes)
		if (!worker_do_units(worker, burst->order.benchmark->chunk))
			return false;
	return true;
}

/* Takes the samples that a benchmark computes itself. A value of 0 or less counts as no time. */
static bool stamp_computed_samples(struct worker *worker)
{
	const struct burst_order *order = &worker->burst->order;
	double ns_per_tick = 1e9 / (double)order->clock->ticks_per_second;

	for (uint32_t i = 1; i <= order->samples; i++) {
		if (!worker_do_units(worker, order->iterations))
			return false;
		int64_t value = order->benchmark->sample_ticks(worker->side);
		uint64_t ticks = value > 0 ? (uint64_t)value : 0;
		double share = order->benchmark->sample_lost_share(worker->side);

		worker->stamps[i] = worker->stamps[i - 1] + ticks;
		worker->lost_ns[i - 1] = (int64_t)(share * (double)ticks * ns_per_tick);
	}
	return true;
}

/* All threads prepare a grain and meet; then ping works and is timed. */
static bool time_prepared_units(struct worker *worker, struct account *account, uint64_t units,
				uint64_t *ticks)
{
	const struct burst_order *order = &worker->burst->order;

	for (unsigned phase = 0; phase < order->benchmark->phases; phase++) {
		order->benchmark->make_ready(worker->side, phase);
		bench_report_progress(worker->side);
		if (!worker_wait_for_all(worker))
			return false;
	}
	if (worker->stamps) {
		bool counts = worker->counting && !worker->burst->trying;

		if (counts)
			os_counters_start();
		uint64_t start = order->clock->ticks();

		if (!worker_do_units(worker, units))
			return false;
		*ticks = order->clock->ticks() - start;
		if (counts)
			os_counters_stop();
	}
	worker->grain_lost_ns = account_measure_lost_ns(account);
	return worker_wait_for_all(worker);
}

/* Returns the time lost by all threads in a grain, at most the grain itself. */
static int64_t sum_lost_ns_in_grain(const struct burst *burst, uint64_t ticks)
{
	double ns = (double)ticks * 1e9 / (double)burst->order.clock->ticks_per_second;
	int64_t lost = 0;

	for (size_t i = 0; i < burst->count; i++)
		lost += burst->workers[i].grain_lost_ns;
	return lost < (int64_t)ns ? lost : (int64_t)ns;
}

/* Makes as many turns as the thread that times them. */
static bool take_turns_with_ping(struct worker *worker)
{
	const struct burst_order *order = &worker->burst->order;

	return take_untimed_turn(worker) &&
	       worker_do_units(worker, order->samples * order->iterations);
}

/* Takes samples of grains that are each prepared; threads that take no times wait for ping. */
static bool stamp_prepared_samples(struct worker *worker)
{
	const struct burst_order *order = &worker->burst->order;
	uint64_t grain = bench_units_in_grain(order->benchmark, order->point), ticks = 0;
	struct account account = {0};

	account_measure_lost_ns(&account);
	for (uint32_t i = 0; i < order->samples; i++) {
		if (worker->stamps)
			worker->stamps[i + 1] = worker->stamps[i];
		for (uint64_t done = 0; done < order->iterations; done += grain) {
			if (!time_prepared_units(worker, &account, grain, &ticks))
				return false;
			if (!worker->stamps)
				continue;
			worker->stamps[i + 1] += ticks;
			worker->lost_ns[i] += sum_lost_ns_in_grain(worker->burst, ticks);
		}
	}
	return true;
}

bool worker_take_samples(struct worker *worker)
{
	const struct burst_order *order = &worker->burst->order;
	const struct benchmark *benchmark = order->benchmark;

	if (benchmark->make_ready)
		return stamp_prepared_samples(worker);
	if (worker->done)
		return stamp_samples_and_others(worker);
	if (benchmark->all_counted && !order->point->by_turns)
		return work_beside_ping(worker);
	if (!worker->stamps)
		return take_turns_with_ping(worker);
	if (benchmark->sample_ticks)
		return stamp_computed_samples(worker);
	if (worker->clocked)
		return stamp_samples_and_frequency(worker);
	return stamp_samples(worker);
}

/* Evaluates a trial: sets the order to the samples to keep, or to a longer trial if it was too
 * short. */
static void judge_trial(struct burst *burst, const uint64_t *stamps)
{
	struct burst_order *order = &burst->order;
	struct trial *trial = &burst->trial;
	uint32_t grains = trial->grains;

	burst->trying =
		!trial_evaluate(order->benchmark, order->clock_facts, stamps, grains, trial);
	if (burst->trying)
		trial->grains = 10 * grains;
	else
		order->samples = trial->slow ? order->samples_slow : burst->samples;
	order->iterations = trial->grains * bench_units_in_grain(order->benchmark, order->point);
}

bool worker_run_trial(struct worker *worker)
{
	struct burst *burst = worker->burst;
	bool tried = burst->trying, is_ping = worker == burst->workers;
	int64_t start_ns = now_ns();

	while (burst->trying) {
		if (!worker_take_samples(worker) || !worker_wait_for_all(worker))
			return false;
		if (is_ping)
			judge_trial(burst, worker->stamps);
		if (!worker_wait_for_all(worker))
			return false;
	}
	if (is_ping)
		burst->trial.spent_ns = now_ns() - start_ns;
	if (tried && worker->lost_ns)
		memset(worker->lost_ns, 0, burst->samples_most * sizeof *worker->lost_ns);
	return true;
}
