/* starved.c: whether other work kept the threads of a burst from running. */
#include "burst/worker.h"

#include "base/interval.h"
#include "base/stop.h"

#include <stdio.h>
#include <time.h>

/* A burst is given up once it has lasted HOPELESS times the CPU time of one of its threads. */
enum { HOPELESS = 10 };

/* A thread that did not do so many parts of its load in a sample was held. */
enum { PARTS_DUE = 4 };

/* A burst is disturbed if a larger share of a typical sample was lost. */
static const double LOST_MOST = 0.1;

static void describe_disturbed(const struct worker *worker, double lost, const char *of,
			       struct burst_result *result)
{
	result->disturbed = true;
	snprintf(result->failed, sizeof result->failed,
		 "%s did not have CPU %d for %.0f %% of %s: other work held it, or a quota of CPU "
		 "time was used up",
		 worker->name, worker->cpu, 100 * lost, of);
}

static double ns_per_tick(const struct burst *burst)
{
	return 1e9 / (double)burst->order.clock->ticks_per_second;
}

/* Returns how long a sample of a thread's took. */
static double sample_ns(const struct burst *burst, const struct worker *worker, uint32_t i)
{
	return (double)(worker->stamps[i + 1] - worker->stamps[i]) * ns_per_tick(burst);
}

int64_t burst_find_first_begin_ns(const struct burst *burst)
{
	int64_t first_ns = burst->workers[0].begin_ns;

	for (size_t w = 1; w < burst->count && burst->workers[w].stamps; w++)
		if (burst->workers[w].begin_ns < first_ns)
			first_ns = burst->workers[w].begin_ns;
	return first_ns;
}

/* Returns how long the others took samples before a thread began its own. Threads that wait for
 * each other, or for ping, cannot begin late. */
static int64_t find_late_ns(const struct burst *burst, const struct worker *worker)
{
	const struct benchmark *benchmark = burst->order.benchmark;

	if (!benchmark->all_timed || benchmark->release_waiting)
		return 0;
	return worker->begin_ns - burst_find_first_begin_ns(burst);
}

/* Reports whether ping has read when a thread beside it ran. */
static bool is_watched_by_ping(const struct burst *burst, size_t w)
{
	const struct cpu_time *beside = burst->workers[0].beside;

	return beside && w && !burst->order.point->by_turns && beside[w - 1].ran_ns >= 0 &&
	       beside[burst->count - 1 + w - 1].ran_ns >= 0;
}

/* Returns the time in which a thread should have worked, and the CPU time it had in it: its own
 * samples, or those of a ping that counts what the others do meanwhile. */
static struct cpu_time read_working_time(const struct burst *burst, size_t w)
{
	const struct worker *worker = &burst->workers[w];

	if (is_watched_by_ping(burst, w)) {
		const struct cpu_time *begin = &burst->workers[0].beside[w - 1];
		const struct cpu_time *end = begin + burst->count - 1;

		return (struct cpu_time){.ran_ns = end->ran_ns - begin->ran_ns,
					 .at_ns = end->at_ns - begin->at_ns};
	}
	return (struct cpu_time){.ran_ns = worker->ran_ns[1] - worker->ran_ns[0],
				 .at_ns = worker->at_ns[1] - worker->at_ns[0]};
}

/* Reports whether a thread beside ping had several parts of its load to do in a time. Full speed
 * counts as the least that may be asked for. */
static bool has_load_due(const struct burst *burst, size_t w, double time_ns)
{
	uint32_t mbps = burst->order.point->load_mbps;
	double bytes_per_ns = (mbps == LOAD_FULL ? MBPS_LEAST : mbps) / 1e3;

	return mbps && bytes_per_ns * time_ns >= PARTS_DUE * (double)burst->sides[w].load.grain;
}

/* Reports whether a thread beside ping did nothing in half of ping's samples or more because it
 * lost its CPU, for half of their time or more, or though its load was due in each: then a
 * hypervisor held its CPU, which no CPU time shows. Any other thread that ran and yet did nothing,
 * as where many wait for one line, is no disturbance: it belongs to the number. */
static bool was_away_from_ping(const struct burst *burst, size_t w, double lost_ns)
{
	uint32_t first = burst->order.warmup, samples = burst->order.samples, idle = 0;
	size_t others = burst->count - 1;
	double idle_ns = 0;

	if (!is_watched_by_ping(burst, w))
		return false;
	const uint32_t *done = burst->workers[0].done + w - 1;

	for (uint32_t i = first; i < samples; i++) {
		if (done[(i + 1) * others] != done[i * others])
			continue;
		idle++;
		idle_ns += sample_ns(burst, &burst->workers[0], i);
	}
	if (!idle || 2 * idle < samples - first)
		return false;
	return 2 * lost_ns >= idle_ns || has_load_due(burst, w, idle_ns / idle);
}

/* Returns the time of a typical sample of a thread's. */
static double typical_sample_ns(const struct burst *burst, const struct worker *worker)
{
	static double values[SAMPLES_MAX];
	uint32_t first = burst->order.warmup, samples = burst->order.samples;

	for (uint32_t i = first; i < samples; i++)
		values[i - first] = sample_ns(burst, worker, i);
	return median(values, samples - first);
}

/* Returns when a sample of a thread's began; that after the last: when the last one ended. */
static double sample_begin_ns(const struct burst *burst, const struct worker *worker, uint32_t i)
{
	return (double)worker->begin_ns +
	       (double)(worker->stamps[i] - worker->stamps[0]) * ns_per_tick(burst);
}

/* Returns how many samples of a thread fell into those of another that lasted twice as long as is
 * typical, as where that one was without its CPU. */
static uint32_t count_samples_alone(const struct burst *burst, const struct worker *worker,
				    const struct worker *other)
{
	double long_ns = 2 * typical_sample_ns(burst, other);
	uint32_t samples = burst->order.samples, alone = 0, k = 0;

	for (uint32_t i = burst->order.warmup; i < samples; i++) {
		double begin_ns = sample_begin_ns(burst, worker, i);
		double middle_ns = (begin_ns + sample_begin_ns(burst, worker, i + 1)) / 2;

		while (k < samples && sample_begin_ns(burst, other, k + 1) <= middle_ns)
			k++; /* the other's sample at that time */
		if (k < samples && sample_begin_ns(burst, other, k) <= middle_ns)
			alone += sample_ns(burst, other, k) > long_ns;
	}
	return alone;
}

/* Reports whether another thread took half of its samples or more while this one was without its
 * CPU. Where threads wait for each other, or work until ping ends, they cannot. */
static bool was_away_from_others(const struct burst *burst, size_t w, double lost_ns, double all_ns)
{
	const struct benchmark *benchmark = burst->order.benchmark;
	uint32_t counted = burst->order.samples - burst->order.warmup;

	if (!benchmark->all_timed || benchmark->release_waiting || 2 * lost_ns < all_ns)
		return false;
	for (size_t i = 0; i < burst->count; i++)
		if (i != w &&
		    2 * count_samples_alone(burst, &burst->workers[i], &burst->workers[w]) >=
			    counted)
			return true;
	return false;
}

/* For samples without pauses: returns the share of a typical sample in which a thread was without
 * its CPU. A few samples that take longer for it do not move the median: only what the thread lacks
 * to have run through all typical samples counts, and what it was late. */
static double lost_share_of_thread(const struct burst *burst, size_t w, double typical_ns)
{
	double all_ns = typical_ns * burst->order.samples;
	struct cpu_time worked = read_working_time(burst, w);
	double lost_ns = (double)(worked.at_ns - worked.ran_ns);
	double lacked_ns = all_ns - (double)worked.ran_ns;

	if (was_away_from_ping(burst, w, lost_ns) ||
	    was_away_from_others(burst, w, lost_ns, all_ns))
		return 1;
	if (lost_ns < lacked_ns)
		lacked_ns = lost_ns;
	if (lacked_ns < 0)
		lacked_ns = 0;
	lacked_ns += (double)find_late_ns(burst, &burst->workers[w]);
	return all_ns > 0 ? lacked_ns / all_ns : 0;
}

/* For samples whose losses are known one by one: returns the share of a typical one. */
static double lost_share_of_samples(const struct burst *burst, const struct worker *worker)
{
	static double shares[SAMPLES_MAX];
	uint32_t first = burst->order.warmup, samples = burst->order.samples;

	for (uint32_t i = first; i < samples; i++) {
		double took_ns = sample_ns(burst, worker, i);

		shares[i - first] = took_ns > 0 ? (double)worker->lost_ns[i] / took_ns : 0;
	}
	return median(shares, samples - first);
}

/* The losses of the threads of a burst. */
struct losses {
	const struct worker *worst;
	double most, sum; /* shares of a typical sample: the worst thread's, and all threads' */
};

static void add_loss(struct losses *losses, const struct worker *worker, double share)
{
	if (!losses->worst || share > losses->most) {
		losses->worst = worker;
		losses->most = share;
	}
	losses->sum += share;
}

static struct losses find_losses(const struct burst *burst)
{
	double typical_ns = typical_sample_ns(burst, &burst->workers[0]);
	struct losses losses = {0};

	for (size_t w = 0; w < burst->count; w++) {
		const struct worker *worker = &burst->workers[w];

		if (w && burst->order.point->operation == OPERATION_IDLE)
			break; /* the others only wait */
		if (!burst->workers[0].lost_ns)
			add_loss(&losses, worker, lost_share_of_thread(burst, w, typical_ns));
		else if (worker->stamps)
			add_loss(&losses, worker, lost_share_of_samples(burst, worker));
	}
	return losses;
}

bool burst_is_disturbed(const struct burst *burst, struct burst_result *result)
{
	for (size_t w = 0; w < burst->count; w++)
		if (!burst->workers[w].ran_known || burst->order.clock->is_rate_wrong)
			return false;
	struct losses losses = find_losses(burst);

	/* The two threads of a pair wait for each other. */
	double lost = burst->order.benchmark->shape == SHAPE_PAIR ? losses.sum : losses.most;

	if (!losses.worst || lost <= LOST_MOST)
		return false;
	describe_disturbed(losses.worst, losses.most, "a typical sample", result);
	return true;
}

/* The thread itself has named its clock: worker->thread may not be written yet when it begins. */
int64_t worker_read_cpu_ns(const struct worker *worker)
{
	bool is_bound = __atomic_load_n(&worker->bound, __ATOMIC_ACQUIRE);
	struct timespec ran;
	int64_t own_ns;

	if (!is_bound || !worker->has_cpu_clock || os_thread_cpu_ns(&own_ns) ||
	    clock_gettime(worker->cpu_clock, &ran))
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
				      : worker_read_cpu_ns(worker);

		if (ran < 0 || ran >= watched_ns / HOPELESS)
			continue;
		describe_disturbed(worker, 1 - (double)ran / (double)watched_ns, "its burst",
				   result);
		return true;
	}
	return false;
}
