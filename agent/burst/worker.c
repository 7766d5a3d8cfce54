/* worker.c: the threads that are timed.
 *
 * Each binds itself to its CPU and checks that it is there; all meet at a gate; then nothing is
 * allocated or printed, and nothing written but what the benchmark is about and the thread's own
 * stamps, until the last sample is taken. The hot loops have no way out of their own, which would
 * be an instruction more: burst.c sees to that. */
#include "burst/samples.h"

#include "base/stop.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { YIELDS = 8 };

void burst_give_up(struct burst *burst)
{
	__atomic_store_n(&burst->give_up, 1, __ATOMIC_RELAXED);
}

/* Notes the step that failed and its -errno; returns false, for the caller to return. */
static bool set_error(struct worker *worker, const char *doing, int error)
{
	worker->doing = doing;
	worker->error = error;
	return false;
}

/* Reports whether the thread touches the lines first, which places their pages near it. */
static bool is_lines_owner(const struct worker *worker)
{
	return worker->side->index == (worker->burst->order.placement.owner_pong ? 1 : 0);
}

static void write_arena(const struct worker *worker, struct arena *arena, size_t bytes)
{
	while (arena && !burst_is_given_up(worker->burst) && arena_write_more(arena, bytes))
		bench_report_progress(worker->side);
}

/* Touches what the thread will write, and brings its memory into the state that is measured. */
static int prepare_memory(struct worker *worker)
{
	const struct burst *burst = worker->burst;
	const struct benchmark *benchmark = burst->order.benchmark;

	if (worker->stamps)
		memset(worker->stamps, 0, (burst->samples_most + 1) * sizeof *worker->stamps);
	if (worker->sample_mhz)
		memset(worker->sample_mhz, 0, burst->samples_most * sizeof *worker->sample_mhz);
	if (worker->lost_ns)
		memset(worker->lost_ns, 0, burst->samples_most * sizeof *worker->lost_ns);
	if (is_lines_owner(worker))
		for (size_t i = 0; i < burst->lines.count; i++)
			memset(burst->lines.line[i], 0, LINE_BYTES);
	write_arena(worker, worker->arena,
		    point_arena_bytes(worker->side->point, worker->side->index));
	write_arena(worker, worker->walk, worker->side->point->walk_bytes);
	if (burst->order.point->one_arena)
		worker_wait_for_all(worker); /* so that nobody uses what is not written yet */
	if (burst_is_given_up(burst))        /* for a reason that another has given */
		return 0;
	if (worker->arena)
		arena_check_nodes(worker->arena);
	if (is_lines_owner(worker))
		lines_check_placement(&burst->lines, &burst->order.placement, worker->burst->astray,
				      sizeof burst->astray);
	return benchmark->prepare ? benchmark->prepare(worker->side) : 0;
}

/* Binds the thread and prepares it. */
static bool settle_on_cpu(struct worker *worker)
{
	int err = os_pin_self(worker->cpu);

	if (err == -EXDEV)
		os_describe_current_cpu(worker->place);
	if (err)
		return set_error(worker, "pin", err);
	worker->cpus[0] = os_current_cpu();
	worker->thread_name = os_thread_id();
	worker->has_cpu_clock = !pthread_getcpuclockid(pthread_self(), &worker->cpu_clock);
	__atomic_store_n(&worker->bound, 1, __ATOMIC_RELEASE);
	if (worker->burst->order.priority)
		err = os_make_self_realtime(worker->burst->order.priority);
	if (err)
		return set_error(worker, "raise the priority of", err);
	if (worker->counting)
		counters_open(worker->burst->order.counters, worker->counting->opened);
	if (worker->burst->accounts)
		worker->waits = os_wait_time_open();
	err = prepare_memory(worker);
	return err ? set_error(worker, "prepare", err) : true;
}

static bool are_on_two_cpus(const struct burst *burst)
{
	return burst->count != 2 || burst->workers[0].cpus[0] != burst->workers[1].cpus[0];
}

/* Reads the account of waiting; closes one that cannot be read. */
static void read_wait_time(struct worker *worker, int64_t *ns)
{
	if (worker->waits >= 0 && os_wait_time_read(worker->waits, ns)) {
		os_wait_time_close(worker->waits);
		worker->waits = -1;
	}
}

/* Reads the accounts just before the samples; what happens at the gate does not belong to them. */
static void read_before_samples(struct worker *worker)
{
	bool resets = worker->burst->order.benchmark->make_ready;

	worker->ran_known = !os_thread_cpu_ns(&worker->ran_ns[0]);
	read_wait_time(worker, &worker->waited_ns[0]);
	worker->at_ns[0] = now_ns();
	worker->switches_known =
		!os_count_switches(&worker->switches[0][0], &worker->switches[0][1]);
	if (worker->counting && !resets) /* else only while each sample is timed */
		os_counters_start();
}

/* Reads the accounts just after the samples. */
static void read_after_samples(struct worker *worker)
{
	if (worker->counting)
		os_counters_stop();
	os_count_switches(&worker->switches[1][0], &worker->switches[1][1]);
	worker->at_ns[1] = now_ns();
	os_thread_cpu_ns(&worker->ran_ns[1]);
}

/* Yields the CPU, and reports whether another thread had it. */
static bool yield_to_another(struct worker *worker)
{
	int64_t *switches = worker->switches[2], before = switches[1];

	sched_yield();
	os_count_switches(&switches[0], &switches[1]);
	return switches[1] != before;
}

/* Lets other work that waits for the CPU have it: a realtime thread, or one whose samples all fit
 * in its slice, would otherwise not notice that it shares the CPU. A scheduler that holds the other
 * to be ahead of its share picks this thread again until it has given up enough of its own. */
static void yield_cpu(struct worker *worker)
{
	if (worker->burst->order.priority)
		os_make_self_ordinary();
	os_count_switches(&worker->switches[2][0], &worker->switches[2][1]);
	for (int i = 0; i < YIELDS && !yield_to_another(worker); i++)
		;
	worker->at_ns[2] = now_ns();
	read_wait_time(worker, &worker->waited_ns[1]);
	os_thread_cpu_ns(&worker->ran_ns[2]);
}

/* Works on until all threads have their times, so that each was taken under the whole load. */
static bool work_until_all_finish(struct worker *worker)
{
	struct burst *burst = worker->burst;

	__atomic_add_fetch(&burst->finished, 1, __ATOMIC_ACQ_REL);
	while (__atomic_load_n(&burst->finished, __ATOMIC_ACQUIRE) < burst->count)
		if (!worker_do_units(worker, burst->order.benchmark->chunk))
			return false;
	return true;
}

static bool take_samples_and_counts(struct worker *worker)
{
	read_before_samples(worker);
	bool done = worker_take_samples(worker);

	read_after_samples(worker);
	return done;
}

static bool perform_part(struct worker *worker)
{
	const struct burst_order *order = &worker->burst->order;
	const struct benchmark *benchmark = order->benchmark;
	bool alone = benchmark->all_timed && !benchmark->release_waiting;

	worker->clocked =
		worker->sample_mhz && frequency_calibrate_brief(order->clock, &worker->behind);
	if (!worker_do_units(worker, worker->side->first) || !worker_run_trial(worker))
		return false;
	if (!worker->stamps)
		return take_samples_and_counts(worker);
	worker->core_mhz[0] = frequency_measure(order->clock);
	if (alone && !worker_wait_for_all(worker)) /* so that none begins with a lead */
		return false;
	if (!take_samples_and_counts(worker))
		return false;
	worker->core_mhz[1] = frequency_measure(order->clock);
	if (alone && !work_until_all_finish(worker))
		return false;
	if (benchmark->finish)
		benchmark->finish(worker->side);
	return true;
}

int worker_allocate(struct worker *worker)
{
	const struct benchmark *benchmark = worker->burst->order.benchmark;
	uint32_t samples = worker->burst->samples_most;
	bool is_ping = worker->side->index == 0, timed = is_ping || benchmark->all_timed;
	bool clocked = is_ping && benchmark->clocked,
	     apart = benchmark->sample_ticks || benchmark->make_ready;
	bool counted = is_ping && benchmark->all_counted;

	if (counted) {
		worker->done = calloc((samples + 1) * worker->burst->count, sizeof *worker->done);
		worker->beside = calloc(2 * worker->burst->count, sizeof *worker->beside);
	}
	if (timed)
		worker->stamps = calloc(samples + 1, sizeof *worker->stamps);
	if (clocked)
		worker->sample_mhz = calloc(samples, sizeof *worker->sample_mhz);
	if (apart)
		worker->lost_ns = calloc(samples, sizeof *worker->lost_ns);
	return (timed && !worker->stamps) || (counted && (!worker->done || !worker->beside)) ||
			       (clocked && !worker->sample_mhz) || (apart && !worker->lost_ns)
		       ? -ENOMEM
		       : 0;
}

void *worker_run(void *arg)
{
	struct worker *worker = arg;
	struct burst *burst = worker->burst;

	if (!settle_on_cpu(worker)) {
		burst_give_up(burst);
	} else if (worker_wait_for_all(worker) && are_on_two_cpus(burst) && perform_part(worker)) {
		worker->cpus[1] = os_current_cpu();
		yield_cpu(worker);
	}
	if (worker->counting)
		counters_read_and_close(burst->order.counters, worker->counting->opened,
					worker->counting->counts);
	if (worker->waits >= 0)
		os_wait_time_close(worker->waits);
	int done_fd = burst->done_fd;

	__atomic_store_n(&worker->out, 1, __ATOMIC_RELEASE);
	ssize_t ignored = write(done_fd, "", 1); /* full: the supervisor will wake anyway */
	(void)ignored;
	return NULL;
}
