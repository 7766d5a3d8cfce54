/* result.c: what the threads of a burst left, and whether it may be trusted. */
#include "burst/worker.h"

#include "base/interval.h"
#include "base/stop.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Reports whether a step of the worker failed; if so, says in result->failed which and why. */
static bool describe_error(const struct worker *worker, struct burst_result *result)
{
	bool elsewhere = worker->error == -EXDEV;
	const char *problem = elsewhere ? "found " : strerror(-worker->error);

	if (!worker->error)
		return false;
	snprintf(result->failed, sizeof result->failed, "%s %s %s %d: %s%s", worker->doing,
		 worker->name, worker->cpus[0] < 0 ? "to" : "on", worker->cpu, problem,
		 elsewhere ? worker->place : "");
	return true;
}

static bool describe_shared_cpu(const struct burst *burst, struct burst_result *result)
{
	const struct worker *workers = burst->workers;

	if (burst->count != 2 || workers[0].cpus[0] != workers[1].cpus[0])
		return false;
	snprintf(result->failed, sizeof result->failed, "ping and pong are both on CPU %d",
		 workers[0].cpus[0]);
	return true;
}

static bool describe_move(const struct worker *worker, struct burst_result *result)
{
	if (!worker->started || (worker->cpus[0] == worker->cpu && worker->cpus[1] == worker->cpu))
		return false;
	snprintf(result->failed, sizeof result->failed, "%s was on CPU %d before and %d after",
		 worker->name, worker->cpus[0], worker->cpus[1]);
	return true;
}

/* Returns a thread's CPU time as a share of elapsed time, in millionths: from before its samples
 * until after it yielded. The readings of CPU time enclose those of the clock, so that a thread
 * that never left its CPU has 1000000. */
static uint32_t compute_ran_ppm(const struct worker *worker)
{
	int64_t ran_ns = worker->ran_ns[2] - worker->ran_ns[0];
	int64_t elapsed_ns = worker->at_ns[2] - worker->at_ns[0];

	return ran_ns < elapsed_ns ? (uint32_t)(1e6 * (double)ran_ns / (double)elapsed_ns)
				   : 1000000;
}

/* Reports whether time that a thread neither had nor waited for was taken by a hypervisor: it was,
 * unless the thread slept or was stopped. */
static bool is_steal_known(const struct worker *worker)
{
	return worker->waits >= 0 && worker->ran_known && worker->switches_known &&
	       worker->switches[2][0] == worker->switches[0][0];
}

/* Returns the share of the same time that a hypervisor took, in millionths. The readings enclose
 * those of the clock, so that an interruption between them makes it less, never more. */
static uint32_t compute_steal_ppm(const struct worker *worker)
{
	int64_t elapsed_ns = worker->at_ns[2] - worker->at_ns[0];
	int64_t taken_ns = elapsed_ns - (worker->ran_ns[2] - worker->ran_ns[0]) -
			   (worker->waited_ns[1] - worker->waited_ns[0]);

	return taken_ns > 0 ? (uint32_t)(1e6 * (double)taken_ns / (double)elapsed_ns) : 0;
}

static bool check_placement(const struct burst *burst, struct burst_result *result)
{
	const struct placement *placement = &burst->order.placement;

	for (size_t i = 0; i < burst->count; i++)
		if (burst->workers[i].arena &&
		    !arena_check_placement(burst->workers[i].arena, result->failed,
					   sizeof result->failed))
			return false;
	if (*burst->astray)
		snprintf(result->failed, sizeof result->failed, "%s", burst->astray);
	return !*burst->astray && lines_check_placement(&burst->lines, placement, result->failed,
							sizeof result->failed);
}

/* Reports whether every worker did its part, on its CPU and memory; if not, says why in
 * result->failed. */
static bool check_workers(const struct burst *burst, struct burst_result *result)
{
	const struct benchmark *benchmark = burst->order.benchmark;

	for (size_t i = 0; i < burst->count; i++)
		if (describe_error(&burst->workers[i], result))
			return false;
	if (describe_shared_cpu(burst, result))
		return false;
	for (size_t i = 0; i < burst->count; i++)
		if (describe_move(&burst->workers[i], result))
			return false;
	for (size_t i = 0; i < burst->count; i++)
		if (burst->sides[i].odd) {
			snprintf(result->failed, sizeof result->failed,
				 "a loop did not go through the memory it was given");
			return false;
		}
	return check_placement(burst, result) &&
	       (!benchmark->check_results ||
		benchmark->check_results(burst->sides, burst->count, result->failed,
					 sizeof result->failed));
}

/* Explains why a sample took no time, or less. */
static const char *explain_standstill(const struct burst *burst)
{
	return burst->order.benchmark->sample_ticks
		       ? "the clocks of the two CPUs are further apart than a message takes"
		       : "the clock went backwards";
}

static bool read_ticks(const struct burst *burst, struct burst_result *result)
{
	bool still = burst->order.benchmark->sample_ticks != NULL; /* then each must be above 0 */
	uint64_t *ticks = result->ticks;

	result->trial = burst->trial;
	result->samples = burst->order.samples;
	result->iterations = burst->order.iterations;
	result->timed = 0;
	for (size_t w = 0; w < burst->count; w++) {
		const uint64_t *stamps = burst->workers[w].stamps;

		result->timed += stamps != NULL;
		for (uint32_t i = 0; stamps && i < burst->order.samples; i++) {
			if (stamps[i + 1] < stamps[i] + still) {
				snprintf(result->failed, sizeof result->failed, "%s",
					 explain_standstill(burst));
				return false;
			}
			*ticks++ = stamps[i + 1] - stamps[i];
		}
	}
	return true;
}

static void read_other_units(const struct burst *burst, struct burst_result *result)
{
	const uint32_t *done = burst->workers[0].done;
	uint64_t *units = result->other_units;

	result->counted_others = done ? burst->count - 1 : 0;
	for (size_t w = 0; w < result->counted_others; w++)
		for (uint32_t i = 0; i < burst->order.samples; i++) {
			size_t place = i * result->counted_others + w;

			*units++ = done[place + result->counted_others] - done[place];
		}
}

static void read_line_places(const struct burst *burst, struct burst_result *result)
{
	const struct arena *arena = burst->workers[0].arena;

	result->line_count = burst->lines.count;
	for (size_t i = 0; i < burst->lines.count; i++)
		result->lines[i] = line_locate(burst->lines.line[i]);
	if (arena) {
		result->line_count = 1;
		result->lines[0] = line_locate(arena->start);
	}
}

/* Summarizes the threads other than ping; a single thread stands for them. */
static void summarize_other_threads(const struct burst *burst, struct burst_result *result)
{
	size_t first = burst->count > 1 ? 1 : 0;
	const struct worker *last = &burst->workers[burst->count - 1];

	for (int i = 0; i < 2; i++)
		result->pong_cpus[i] = last->cpus[i];
	result->ran_ppm[1] = 1000000;
	result->steal_ppm[1] = 0;
	result->switches[2] = result->switches[3] = 0;
	for (size_t w = first; w < burst->count; w++) {
		const struct worker *worker = &burst->workers[w];

		for (int i = 0; i < 2; i++)
			result->switches[2 + i] += worker->switches[1][i] - worker->switches[0][i];
		if (compute_ran_ppm(worker) < result->ran_ppm[1])
			result->ran_ppm[1] = compute_ran_ppm(worker);
		if (compute_steal_ppm(worker) > result->steal_ppm[1])
			result->steal_ppm[1] = compute_steal_ppm(worker);
		result->switches_known &= worker->switches_known;
		result->ran_known &= worker->ran_known;
		result->steal_known &= is_steal_known(worker);
	}
}

/* Reads how long after the first thread each other one that takes times began. */
static void read_begin_offsets(const struct burst *burst, struct burst_result *result)
{
	int64_t first = burst_find_first_begin_ns(burst);

	for (size_t i = 0; i < result->timed; i++)
		result->begin_ns[i] = burst->workers[i].begin_ns - first;
}

static void read_event_counts(const struct burst *burst, struct burst_result *result)
{
	const struct counters *counters = burst->order.counters;
	struct event_count *count = result->counts;

	result->counted = counters != NULL;
	for (size_t w = 0; counters && w < burst->count; w++) {
		const struct counting *counting = burst->workers[w].counting;

		for (size_t i = 0; i < counters->count; i++)
			*count++ = counting ? counting->counts[i] : (struct event_count){0};
	}
}

bool burst_read_result(const struct burst *burst, struct burst_result *result)
{
	const struct worker *ping = &burst->workers[0];

	if (!check_workers(burst, result) || !read_ticks(burst, result))
		return false;
	read_other_units(burst, result);
	if (burst_is_disturbed(burst, result))
		return false;
	result->switches_known = ping->switches_known;
	result->ran_known = ping->ran_known;
	result->ran_ppm[0] = compute_ran_ppm(ping);
	result->steal_known = is_steal_known(ping);
	result->steal_ppm[0] = compute_steal_ppm(ping);
	for (int i = 0; i < 2; i++) {
		result->ping_cpus[i] = ping->cpus[i];
		result->switches[i] = ping->switches[1][i] - ping->switches[0][i];
		result->core_mhz[i] = ping->core_mhz[i];
	}
	result->sample_mhz =
		ping->clocked ? (uint32_t)(median(ping->sample_mhz, result->samples) + 0.5) : 0;
	summarize_other_threads(burst, result);
	read_begin_offsets(burst, result);
	read_line_places(burst, result);
	read_event_counts(burst, result);
	return true;
}
