/*
 * burst.c: makes a burst, and watches its two threads, worker.c.
 *
 * Whoever waits in a hot loop for a partner that never answers cannot leave by itself. The
 * supervisor releases it: it takes the absent partner's part and flips the line.
 */
#include "burst.h"

#include "stop.h"
#include "worker.h"

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
	NUDGE_MS = 5,      /* the same, for one abandoned earlier */
	ABANDONED_MAX = 16,
};

static int done_pipe[2] = {-1, -1}; /* a worker that is out says so here */
static struct burst *abandoned;
static unsigned abandoned_count;

int burst_start(void)
{
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
	free(burst->stamps);
	free(burst);
}

static int make_burst(const struct burst_order *order, struct random *random, struct burst **made)
{
	size_t lines = order->benchmark->lines;
	void *memory;

	int err = -posix_memalign(&memory, LINE_BYTES, sizeof(struct burst));
	if (err)
		return err;
	struct burst *burst = memset(memory, 0, sizeof *burst);

	burst->order = *order;
	burst->done_fd = done_pipe[1];
	burst->stamps = calloc(order->samples + 1, sizeof *burst->stamps);
	err = !burst->stamps ? -ENOMEM
	      : lines        ? lines_map(&burst->lines, lines, &order->placement, random)
			     : 0;
	if (err) {
		free_burst(burst);
		return err;
	}
	struct side side = {.variant = order->variant, .clock = order->clock};
	burst->ping = (struct worker){
		.burst = burst, .name = "ping", .cpu = order->ping, .side = side, .cpus = {-1, -1}};
	burst->pong = (struct worker){
		.burst = burst, .name = "pong", .cpu = order->pong, .side = side, .cpus = {-1, -1}};
	if (lines)
		order->benchmark->lay(&burst->ping.side, &burst->pong.side, burst->lines.line);
	*made = burst;
	return 0;
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

/* A signal must never interrupt a worker in its loop: they start with all of them blocked. */
static int start_workers(struct burst *burst)
{
	stop_block_signals();
	int err = start_worker(&burst->ping);

	if (!err && burst_has_pong(burst))
		err = start_worker(&burst->pong);
	stop_unblock_signals();
	return err;
}

static bool is_out(const struct worker *worker)
{
	return !worker->started || __atomic_load_n(&worker->out, __ATOMIC_ACQUIRE);
}

static bool all_out(const struct burst *burst)
{
	return is_out(&burst->ping) && is_out(&burst->pong);
}

static void join(struct burst *burst)
{
	if (burst->ping.started)
		pthread_join(burst->ping.thread, NULL);
	if (burst->pong.started)
		pthread_join(burst->pong.thread, NULL);
}

/* ---- the supervisor -------------------------------------------------------------------------- */

/*
 * Takes the part of whoever is missing until both are out of their loops, for at most limit_ms;
 * true if they are out and joined. A line holds only 0 and 1, so one flip lets a waiting thread do
 * its next turn.
 */
static bool release(struct burst *burst, int64_t limit_ms)
{
	int64_t until_ns = now_ns() + limit_ms * NS_PER_MS;

	worker_give_up(burst);
	do {
		for (int flips = 0; flips < 1000 && !all_out(burst); flips++) {
			for (size_t i = 0; i < burst->lines.count; i++)
				__atomic_fetch_xor(burst->lines.line[i], 1, __ATOMIC_RELAXED);
			for (int pause = 0; pause < 32 && !all_out(burst); pause++)
				;
		}
		if (all_out(burst)) {
			join(burst);
			return true;
		}
	} while (now_ns() < until_ns && !stop_asked());
	return false;
}

static void abandon(struct burst *burst)
{
	lines_leave(&burst->lines);
	burst->next_abandoned = abandoned;
	abandoned = burst;
	if (++abandoned_count >= ABANDONED_MAX)
		stop_because("too many threads that never run");
}

/*
 * A thread that was kept from running may by now spin in a loop nobody plays with: get it out. True
 * if one came out, and so ran some time since the last call.
 */
static bool nudge_abandoned(void)
{
	bool any = false;

	for (struct burst **at = &abandoned; *at;) {
		struct burst *burst = *at;

		if (!release(burst, NUDGE_MS)) {
			at = &burst->next_abandoned;
			continue;
		}
		*at = burst->next_abandoned;
		abandoned_count--;
		any = true;
		free_burst(burst);
	}
	return any;
}

static uint32_t progress_of(const struct burst *burst)
{
	return __atomic_load_n(&burst->ping.progress, __ATOMIC_RELAXED) +
	       __atomic_load_n(&burst->pong.progress, __ATOMIC_RELAXED) +
	       __atomic_load_n(&burst->arrived, __ATOMIC_RELAXED);
}

static uint32_t lines_of(const struct burst *burst)
{
	uint32_t values = 0;

	for (size_t i = 0; i < burst->lines.count; i++)
		values = values << 1 | __atomic_load_n(burst->lines.line[i], __ATOMIC_RELAXED);
	return values;
}

/*
 * Within a long sample only the lines tell. Looking at them costs the pair a transfer each, so this
 * is done only after a look in which nothing else had moved.
 */
static bool lines_move(const struct burst *burst)
{
	uint32_t first = lines_of(burst);

	for (int i = 0; i < PROBES; i++) {
		if (stop_wait(-1, 0, now_ns() + NS_PER_MS) == WAIT_STOP || lines_of(burst) != first)
			return true;
	}
	return false;
}

static void drain(int fd)
{
	char thrown_away[64];

	while (read(fd, thrown_away, sizeof thrown_away) > 0)
		;
}

/* Has somebody taken a worker's CPU from it? Then the OS moved it, and its burst may never end. */
static bool is_displaced(const struct worker *worker, struct burst_result *result)
{
	if (!__atomic_load_n(&worker->bound, __ATOMIC_ACQUIRE) || is_out(worker) ||
	    !os_thread_bound(worker->thread_name, worker->cpu))
		return false;
	snprintf(result->failed, sizeof result->failed, "%s is no longer bound to CPU %d",
		 worker->name, worker->cpu);
	return true;
}

static enum burst_outcome stuck(const struct burst *burst, struct burst_result *result)
{
	snprintf(result->failed, sizeof result->failed, "no progress for %g s",
		 (double)burst->order.stuck_ns / 1e9);
	return BURST_FAILED;
}

/*
 * Waits for both workers. Stuck after a number of looks in a row, not after a span of time: if the
 * whole process was halted for a while, that is one look.
 */
static enum burst_outcome watch(struct burst *burst, void (*idle)(void),
				struct burst_result *result)
{
	int64_t stuck_ns = burst->order.stuck_ns, look_ns = stuck_ns / STUCK_LOOKS;
	uint32_t last = progress_of(burst);
	int64_t unmoved = 0;

	if (look_ns > NS_PER_S)
		look_ns = NS_PER_S;

	while (!all_out(burst)) {
		enum wait wait = stop_wait(done_pipe[0], POLLIN, now_ns() + look_ns);

		if (wait == WAIT_STOP)
			return BURST_STOPPED;
		drain(done_pipe[0]);
		if (wait == WAIT_READY)
			continue;
		idle();
		burst->disturbed |= nudge_abandoned();
		if (is_displaced(&burst->ping, result) || is_displaced(&burst->pong, result))
			return BURST_FAILED;
		bool moved = progress_of(burst) != last || lines_move(burst);

		last = progress_of(burst);
		unmoved = moved ? 0 : unmoved + 1;
		if (unmoved >= stuck_ns / look_ns)
			return stuck(burst, result);
	}
	join(burst);
	return BURST_TAKEN;
}

/* ---- the result ------------------------------------------------------------------------------ */

static bool describe_error(const struct worker *worker, struct burst_result *result)
{
	const char *what = worker->error == -EXDEV ? "found elsewhere" : strerror(-worker->error);

	if (!worker->error)
		return false;
	snprintf(result->failed, sizeof result->failed, "%s %s %s %d: %s", worker->doing,
		 worker->name, worker->cpus[0] < 0 ? "to" : "on", worker->cpu, what);
	return true;
}

static bool describe_one_cpu(const struct burst *burst, struct burst_result *result)
{
	if (!burst_has_pong(burst) || burst->ping.cpus[0] != burst->pong.cpus[0])
		return false;
	snprintf(result->failed, sizeof result->failed, "ping and pong are both on CPU %d",
		 burst->ping.cpus[0]);
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

/*
 * CPU time against elapsed time. Its two readings enclose those of the time, so that a thread that
 * was never off its CPU has all of it.
 */
static uint32_t ran_ppm(const struct worker *worker)
{
	int64_t ran_ns = worker->ran_ns[1] - worker->ran_ns[0];
	int64_t elapsed_ns = worker->at_ns[1] - worker->at_ns[0];

	return ran_ns < elapsed_ns ? (uint32_t)(1e6 * (double)ran_ns / (double)elapsed_ns)
				   : 1000000;
}

static void read_lines(const struct burst *burst, struct burst_result *result)
{
	result->line_count = burst->lines.count;
	for (size_t i = 0; i < burst->lines.count; i++)
		result->lines[i] = lines_find(&burst->lines, i);
}

/* Reads what the workers left; false, and why, if anything forbids to trust the numbers. */
static bool read_result(const struct burst *burst, struct burst_result *result)
{
	const struct worker *ping = &burst->ping,
			    *pong = burst_has_pong(burst) ? &burst->pong : ping;

	if (describe_error(ping, result) || describe_error(pong, result) ||
	    describe_one_cpu(burst, result) || describe_move(ping, result) ||
	    describe_move(pong, result) ||
	    !lines_are_placed(&burst->lines, &burst->order.placement, result->failed,
			      sizeof result->failed))
		return false;
	for (uint32_t i = 0; i < burst->order.samples; i++) {
		if (burst->stamps[i + 1] < burst->stamps[i]) {
			snprintf(result->failed, sizeof result->failed, "the clock went backwards");
			return false;
		}
		result->ticks[i] = burst->stamps[i + 1] - burst->stamps[i];
	}
	for (int i = 0; i < 2; i++) {
		result->ping_cpus[i] = ping->cpus[i];
		result->pong_cpus[i] = pong->cpus[i];
		result->switches[i] = ping->switches[1][i] - ping->switches[0][i];
		result->switches[2 + i] = pong->switches[1][i] - pong->switches[0][i];
	}
	result->switches_known = ping->switches_known && pong->switches_known;
	result->ran_known = ping->ran_known && pong->ran_known;
	result->ran_ppm[0] = ran_ppm(ping);
	result->ran_ppm[1] = ran_ppm(pong);
	read_lines(burst, result);
	return true;
}

/* Gets the workers of a burst without a number out, or leaves it to them. */
static enum burst_outcome fail(struct burst *burst)
{
	if (release(burst, RELEASE_MS))
		free_burst(burst);
	else
		abandon(burst);
	return BURST_FAILED;
}

static enum burst_outcome refuse_burst(struct burst_result *result, const char *doing, int err)
{
	snprintf(result->failed, sizeof result->failed, "%s: %s", doing, strerror(-err));
	return BURST_FAILED;
}

enum burst_outcome burst_take(const struct burst_order *order, struct random *random,
			      void (*idle)(void), struct burst_result *result)
{
	struct burst *burst = NULL;

	nudge_abandoned();
	result->failed[0] = '\0';
	result->start_ns = now_ns();
	int err = make_burst(order, random, &burst);

	if (err)
		return refuse_burst(result, "map the lines", err);
	err = start_workers(burst);
	if (err) {
		refuse_burst(result, "start a thread", err);
		return fail(burst);
	}
	enum burst_outcome outcome = watch(burst, idle, result);

	if (outcome == BURST_STOPPED)
		return outcome;
	if (outcome == BURST_FAILED)
		return fail(burst);
	if (nudge_abandoned() || burst->disturbed) {
		snprintf(result->failed, sizeof result->failed,
			 "a thread given up earlier ran meanwhile");
		outcome = BURST_FAILED;
	} else if (!read_result(burst, result)) {
		outcome = BURST_FAILED;
	}
	free_burst(burst);
	return outcome;
}
