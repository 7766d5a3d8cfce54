/*
 * worker.c: the two threads that are timed.
 *
 * Each binds itself to its CPU and checks that it is there; both meet at a gate; then nothing is
 * written, allocated or printed but the line and ping's own stamps until the last sample is taken.
 * The hot loops have no way out of their own, which would be an instruction more: burst.c sees to
 * that.
 */
#include "worker.h"

#include "stop.h"

#include <string.h>
#include <unistd.h>

enum { CHUNK = 1 << 14 }; /* turns between two looks at `give_up`; a usual sample has fewer */

void worker_give_up(struct burst *burst)
{
	__atomic_store_n(&burst->give_up, 1, __ATOMIC_RELAXED);
}

static bool given_up(const struct burst *burst)
{
	return __atomic_load_n(&burst->give_up, __ATOMIC_RELAXED);
}

static bool trouble(struct worker *worker, const char *doing, int error)
{
	worker->doing = doing;
	worker->error = error;
	return false;
}

/* The thread that touches the lines first: their pages get their home there. */
static bool owns_lines(const struct worker *worker)
{
	const struct burst *burst = worker->burst;

	return worker == (burst->order.placement.owner_pong ? &burst->pong : &burst->ping);
}

/* Binds the thread, touches what it will write, and takes the first of the readings around it all.
 */
static bool settle(struct worker *worker)
{
	struct burst *burst = worker->burst;
	int err = os_pin_self(worker->cpu);

	if (err)
		return trouble(worker, "pin", err);
	worker->cpus[0] = os_current_cpu();
	if (burst->order.priority)
		err = os_realtime_self(burst->order.priority);
	if (err)
		return trouble(worker, "raise the priority of", err);
	if (worker == &burst->ping)
		memset(burst->stamps, 0, (burst->order.samples + 1) * sizeof *burst->stamps);
	if (owns_lines(worker))
		for (size_t i = 0; i < burst->lines.count; i++)
			__atomic_store_n(burst->lines.line[i], 0, __ATOMIC_RELAXED);
	worker->thread_name = os_thread_self();
	__atomic_store_n(&worker->bound, 1, __ATOMIC_RELEASE);
	worker->switches_known = !os_switches(&worker->switches[0][0], &worker->switches[0][1]);
	worker->ran_known = !os_thread_ran_ns(&worker->ran_ns[0]);
	worker->at_ns[0] = now_ns();
	return true;
}

/* Waits until both have settled. False: the other could not, or both are on one CPU. */
static bool meet(struct burst *burst)
{
	uint32_t expected = burst_has_pong(burst) ? 2 : 1;

	__atomic_add_fetch(&burst->arrived, 1, __ATOMIC_ACQ_REL);
	while (__atomic_load_n(&burst->arrived, __ATOMIC_ACQUIRE) < expected)
		if (given_up(burst))
			return false;
	return expected == 1 || burst->ping.cpus[0] != burst->pong.cpus[0];
}

static bool turns(struct worker *worker, uint64_t n)
{
	const struct benchmark *benchmark = worker->burst->order.benchmark;

	while (n && !given_up(worker->burst)) {
		uint32_t chunk = n < CHUNK ? (uint32_t)n : CHUNK;

		benchmark->turn(&worker->side, chunk);
		n -= chunk;
		__atomic_store_n(&worker->progress, worker->progress + 1, __ATOMIC_RELAXED);
	}
	return n == 0;
}

/*
 * A turn of ping ends with its store, so the stretch from one stamp to the next holds `iterations`
 * whole round trips; the untimed first turn makes that true of the first sample too.
 */
static bool play_ping(struct worker *ping)
{
	const struct burst_order *order = &ping->burst->order;
	uint64_t *stamps = ping->burst->stamps;

	if (!turns(ping, 1))
		return false;
	stamps[0] = order->clock->ticks();
	for (uint32_t i = 1; i <= order->samples; i++) {
		if (!turns(ping, order->iterations))
			return false;
		stamps[i] = order->clock->ticks();
	}
	return true;
}

static bool play_pong(struct worker *pong)
{
	const struct burst_order *order = &pong->burst->order;

	return turns(pong, 1 + (uint64_t)order->samples * order->iterations);
}

void *worker_run(void *arg)
{
	struct worker *worker = arg;
	struct burst *burst = worker->burst;

	if (!settle(worker)) {
		worker_give_up(burst);
	} else if (meet(burst) && (worker == &burst->ping ? play_ping : play_pong)(worker)) {
		worker->at_ns[1] = now_ns();
		os_thread_ran_ns(&worker->ran_ns[1]);
		worker->cpus[1] = os_current_cpu();
		os_switches(&worker->switches[1][0], &worker->switches[1][1]);
	}
	__atomic_store_n(&worker->out, 1, __ATOMIC_RELEASE);
	ssize_t ignored = write(burst->done_fd, "", 1); /* full: the supervisor will wake anyway */
	(void)ignored;
	return NULL;
}
