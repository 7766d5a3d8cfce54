/* burst.c: makes a burst, and watches its threads, worker.c.
 *
 * Whoever waits in a hot loop for a partner that never answers cannot leave by itself. The
 * supervisor releases it: it takes the absent partner's part, as the benchmark knows how. */
#include "burst/burst.h"

#include "base/stop.h"
#include "burst/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	STACK_BYTES = 256 << 10,
	STUCK_LOOKS = 5,   /* at least so many looks without progress before a burst is stuck */
	PROBES = 40,       /* times a line is looked at, 1 ms apart, to see it move */
	RELEASE_MS = 1000, /* for which a stuck burst is flipped out of its loops */
	NUDGE_MS = 5,      /* as RELEASE_MS, for a burst abandoned earlier */
	ABANDONED_MAX = 16,
};

static int done_pipe[2] = {-1, -1}; /* a worker that is out says so here */
static bool knows_steal;
static struct burst *abandoned;
static unsigned abandoned_count;

int burst_init(void)
{
	knows_steal = os_has_steal_time();
	if (pipe(done_pipe))
		return -errno;
	for (int i = 0; i < 2; i++)
		if (fcntl(done_pipe[i], F_SETFL, O_NONBLOCK))
			return -errno;
	return 0;
}

/* ---- making and ending a burst --------------------------------------------------------------- */

static void free_burst(struct burst *burst)
{
	if (!burst)
		return;
	lines_retire(&burst->lines);
	for (size_t i = 0; burst->workers && i < burst->count; i++) {
		free(burst->workers[i].stamps);
		free(burst->workers[i].done);
		free(burst->workers[i].beside);
		free(burst->workers[i].sample_mhz);
		free(burst->workers[i].lost_ns);
	}
	free(burst->counting);
	free(burst->workers);
	free(burst->sides);
	free(burst);
}

/* Allocates zeroed memory on lines of its own; null if there is none. */
static void *allocate_lines(size_t count, size_t bytes)
{
	void *memory;

	if (posix_memalign(&memory, LINE_BYTES, count * bytes))
		return NULL;
	return memset(memory, 0, count * bytes);
}

/* Reports whether a thread's events are counted; where grains are prepared, only if it takes
 * times. */
static bool counts_thread_events(const struct burst_order *order, bool takes_times)
{
	return order->counters && (takes_times || !order->benchmark->make_ready);
}

static const char *name_thread(const struct burst_order *order, size_t i)
{
	return i == 0 ? "ping" : order->cpu_count == 2 ? "pong" : "a thread";
}

/* Fills in a thread's worker and side, but for what the benchmark fills in. Returns 0 or -errno. */
static int init_worker(struct burst *burst, size_t i)
{
	const struct burst_order *order = &burst->order;
	struct worker *worker = &burst->workers[i];
	struct side *side = &burst->sides[i];

	*worker = (struct worker){.burst = burst,
				  .side = side,
				  .name = name_thread(order, i),
				  .cpu = order->cpus[i],
				  .cpus = {-1, -1},
				  .waits = -1};
	*side = (struct side){.variant = order->variant,
			      .clock = order->clock,
			      .point = order->point,
			      .index = i,
			      .progress = &worker->progress,
			      .count = order->cpu_count,
			      .lines = burst->lines.line};
	int err = worker_allocate(worker);

	if (counts_thread_events(order, worker->stamps))
		worker->counting = &burst->counting[i];
	return err;
}

/* Prepares the trial of an order that leaves the units of a sample open. */
static void set_up_trial(struct burst *burst)
{
	struct burst_order *order = &burst->order;
	uint32_t samples = trial_sample_count(order->benchmark);

	burst->samples = burst->samples_most = order->samples;
	burst->trying = !order->iterations;
	if (!burst->trying)
		return;
	burst->trial.grains = order->benchmark->least;
	order->iterations =
		burst->trial.grains * bench_units_in_grain(order->benchmark, order->point);
	order->samples = samples;
	if (samples > burst->samples_most)
		burst->samples_most = samples;
}

static int make_burst(const struct burst_order *order, struct random *random, struct burst **made)
{
	size_t lines = order->benchmark->lines, count = order->cpu_count;
	struct burst *burst = *made = allocate_lines(1, sizeof *burst);

	if (!burst)
		return -ENOMEM;
	burst->order = *order;
	set_up_trial(burst);
	burst->done_fd = done_pipe[1];
	burst->accounts = knows_steal;
	burst->count = count;
	burst->sides = allocate_lines(count, sizeof *burst->sides);
	burst->workers = allocate_lines(count, sizeof *burst->workers);
	if (order->counters)
		burst->counting = allocate_lines(count, sizeof *burst->counting);
	bool lacks = !burst->sides || !burst->workers || (order->counters && !burst->counting);
	int err = lacks   ? -ENOMEM
		  : lines ? lines_map(&burst->lines, lines, &order->placement, random)
			  : 0;

	for (size_t i = 0; !err && i < count; i++)
		err = init_worker(burst, i);
	if (!err)
		err = burst_acquire_arenas(burst);
	if (!err)
		order->benchmark->set_up(burst->sides, count, random);
	return err;
}

static int start_worker(struct worker *worker)
{
	size_t stack = STACK_BYTES > PTHREAD_STACK_MIN ? STACK_BYTES : (size_t)PTHREAD_STACK_MIN;
	pthread_attr_t attr;

	int err = -pthread_attr_init(&attr);
	if (err)
		return err;
	pthread_attr_setstacksize(&attr, stack);
	err = -pthread_create(&worker->thread, &attr, worker_run, worker);
	pthread_attr_destroy(&attr);
	worker->started = !err;
	return err;
}

/* Starts the threads with all signals blocked: none may interrupt a worker in its loop. */
static int start_workers(struct burst *burst)
{
	int err = 0;

	stop_block_signals();
	for (size_t i = 0; !err && i < burst->count; i++)
		err = start_worker(&burst->workers[i]);
	stop_unblock_signals();
	return err;
}

/* Reports whether a worker touches nothing of the burst any more, or never started. */
static bool has_left(const struct worker *worker)
{
	return !worker->started || __atomic_load_n(&worker->out, __ATOMIC_ACQUIRE);
}

static bool has_everyone_left(const struct burst *burst)
{
	for (size_t i = 0; i < burst->count; i++)
		if (!has_left(&burst->workers[i]))
			return false;
	return true;
}

static void join_workers(struct burst *burst)
{
	for (size_t i = 0; i < burst->count; i++)
		if (burst->workers[i].started)
			pthread_join(burst->workers[i].thread, NULL);
}

/* ---- the supervisor -------------------------------------------------------------------------- */

/* Takes the part of the missing partner for at most limit_ms; returns true if all threads have
 * ended and are joined. */
static bool release_workers(struct burst *burst, int64_t limit_ms)
{
	const struct benchmark *benchmark = burst->order.benchmark;
	int64_t until_ns = now_ns() + limit_ms * NS_PER_MS;

	burst_give_up(burst);
	do {
		for (int steps = 0; steps < 1000 && !has_everyone_left(burst); steps++) {
			if (benchmark->release_waiting)
				benchmark->release_waiting(burst->sides, burst->count);
			for (int pause = 0; pause < 32 && !has_everyone_left(burst); pause++)
				;
		}
		if (has_everyone_left(burst)) {
			join_workers(burst);
			return true;
		}
	} while (now_ns() < until_ns && !stop_is_requested());
	return false;
}

static void abandon_burst(struct burst *burst)
{
	lines_abandon(&burst->lines);
	for (size_t i = 0; i < burst->count; i++)
		burst_abandon_arenas(&burst->workers[i]);
	burst->next_abandoned = abandoned;
	abandoned = burst;
	if (++abandoned_count >= ABANDONED_MAX)
		stop_record_reason("too many threads that never run");
}

/* Releases threads of abandoned bursts, which may by now spin in a loop without a partner. Returns
 * true if one came out, which means it ran since the last call. */
static bool release_abandoned(void)
{
	bool any = false;

	for (struct burst **link = &abandoned; *link;) {
		struct burst *burst = *link;

		if (!release_workers(burst, NUDGE_MS)) {
			link = &burst->next_abandoned;
			continue;
		}
		*link = burst->next_abandoned;
		abandoned_count--;
		any = true;
		free_burst(burst);
	}
	return any;
}

static uint32_t sum_progress(const struct burst *burst)
{
	uint32_t progress = 0;

	for (size_t i = 0; i < burst->count; i++)
		progress += __atomic_load_n(&burst->workers[i].progress, __ATOMIC_RELAXED) +
			    __atomic_load_n(&burst->workers[i].arrived, __ATOMIC_RELAXED);
	return progress;
}

/* Returns the values of all lines, 0 or 1, a bit each. */
static uint32_t read_line_values(const struct burst *burst)
{
	uint32_t values = 0;

	for (size_t i = 0; i < burst->lines.count; i++)
		values = values << 1 | __atomic_load_n(burst->lines.line[i], __ATOMIC_RELAXED);
	return values;
}

/* Reports whether a line changes: within a long sample only the lines show progress. Looking at
 * them costs the pair a transfer each, so this is called only after a look in which nothing else
 * had moved. */
static bool is_a_line_moving(const struct burst *burst)
{
	uint32_t first = read_line_values(burst);

	for (int i = 0; i < PROBES; i++) {
		if (stop_wait(-1, 0, now_ns() + NS_PER_MS) == WAIT_STOP ||
		    read_line_values(burst) != first)
			return true;
	}
	return false;
}

static void drain_pipe(int fd)
{
	char thrown_away[64];

	while (read(fd, thrown_away, sizeof thrown_away) > 0)
		;
}

/* Reports whether a worker is not bound to its CPU any more; if so, says it in result->failed. */
static bool is_displaced(const struct worker *worker, struct burst_result *result)
{
	if (!__atomic_load_n(&worker->bound, __ATOMIC_ACQUIRE) || has_left(worker) ||
	    !os_check_binding(worker->thread_name, worker->cpu))
		return false;
	snprintf(result->failed, sizeof result->failed, "%s is no longer bound to CPU %d",
		 worker->name, worker->cpu);
	return true;
}

static bool is_any_displaced(const struct burst *burst, struct burst_result *result)
{
	for (size_t i = 0; i < burst->count; i++)
		if (is_displaced(&burst->workers[i], result))
			return true;
	return false;
}

static enum burst_outcome fail_as_stuck(const struct burst *burst, struct burst_result *result)
{
	snprintf(result->failed, sizeof result->failed, "no progress for %g s",
		 (double)burst->order.stuck_ns / 1e9);
	return BURST_FAILED;
}

/* Waits for all workers. Calls a burst stuck or starved after a number of looks, not after a time:
 * if the whole process was halted, that is one look. */
static enum burst_outcome watch_workers(struct burst *burst, void (*idle)(void),
					struct burst_result *result)
{
	int64_t stuck_ns = burst->order.stuck_ns, look_ns = stuck_ns / STUCK_LOOKS;
	uint32_t last = sum_progress(burst);
	int64_t unmoved = 0, looks = 0;

	if (look_ns > NS_PER_S)
		look_ns = NS_PER_S;

	while (!has_everyone_left(burst)) {
		enum wait wait = stop_wait(done_pipe[0], POLLIN, now_ns() + look_ns);

		if (wait == WAIT_STOP)
			return BURST_STOPPED;
		drain_pipe(done_pipe[0]);
		if (wait == WAIT_READY)
			continue;
		idle();
		burst->disturbed |= release_abandoned();
		if (is_any_displaced(burst, result))
			return BURST_FAILED;
		bool moved = sum_progress(burst) != last || is_a_line_moving(burst);

		last = sum_progress(burst);
		if (moved && burst_is_starving(burst, ++looks * look_ns, result))
			return BURST_FAILED;
		unmoved = moved ? 0 : unmoved + 1;
		if (unmoved >= stuck_ns / look_ns)
			return fail_as_stuck(burst, result);
	}
	join_workers(burst);
	return BURST_TAKEN;
}

/* ---- taking one ----------------------------------------------------------------------------- */

/* Ends a burst without a number: releases its workers, or abandons it to them. */
static enum burst_outcome end_failed_burst(struct burst *burst)
{
	if (release_workers(burst, RELEASE_MS))
		free_burst(burst);
	else
		abandon_burst(burst);
	return BURST_FAILED;
}

static enum burst_outcome refuse_burst(struct burst_result *result, const char *doing, int err)
{
	snprintf(result->failed, sizeof result->failed, "%s: %s", doing, strerror(-err));
	return BURST_FAILED;
}

enum burst_outcome burst_run(const struct burst_order *order, struct random *random,
			     void (*idle)(void), struct burst_result *result)
{
	struct burst *burst;

	release_abandoned();
	stop_set_idle(idle);
	result->failed[0] = '\0';
	result->disturbed = false;
	result->samples = 0;
	result->trial = (struct trial){0};
	result->start_ns = now_ns();
	int err = make_burst(order, random, &burst);

	if (err) {
		free_burst(burst);
		return refuse_burst(
			result, order->benchmark->lines ? "map the lines" : "map the memory", err);
	}
	if (stop_is_requested()) { /* what was to be laid out may not be whole */
		free_burst(burst);
		return BURST_STOPPED;
	}
	err = start_workers(burst);
	if (err) {
		refuse_burst(result, "start a thread", err);
		return end_failed_burst(burst);
	}
	enum burst_outcome outcome = watch_workers(burst, idle, result);

	if (outcome == BURST_STOPPED)
		return outcome;
	if (outcome == BURST_FAILED)
		return end_failed_burst(burst);
	if (release_abandoned() || burst->disturbed) {
		snprintf(result->failed, sizeof result->failed,
			 "a thread given up earlier ran meanwhile");
		result->disturbed = true;
		outcome = BURST_FAILED;
	} else if (!burst_read_result(burst, result)) {
		outcome = BURST_FAILED;
	}
	free_burst(burst);
	return outcome;
}
