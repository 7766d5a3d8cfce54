/*
 * worker.c: the threads that are timed.
 *
 * Each binds itself to its CPU and checks that it is there; all meet at a gate; then nothing is
 * allocated or printed, and nothing written but what the benchmark is about and the thread's own
 * stamps, until the last sample is taken. The hot loops have no way out of their own, which would
 * be an instruction more: burst.c sees to that.
 */
#include "burst/worker.h"

#include "base/stop.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { YIELDS = 8, CLOCKS_APART = 1000 };

/* A thread's CPU time, and the time. */
struct account {
	int64_t ran_ns, at_ns;
};

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

/*
 * Waits at the next gate until all have come to it: each says so on a line of its own, ping looks
 * at them all and then opens. False: one will never come.
 */
static bool meet(struct worker *worker)
{
	struct burst *burst = worker->burst;
	const struct worker *workers = burst->workers;
	uint32_t gate = worker->arrived + 1;

	__atomic_store_n(&worker->arrived, gate, __ATOMIC_RELEASE);
	for (size_t i = 1; worker == workers && i < burst->count; i++)
		while (__atomic_load_n(&workers[i].arrived, __ATOMIC_ACQUIRE) != gate)
			if (given_up(burst))
				return false;
	if (worker == workers)
		__atomic_store_n(&burst->open, gate, __ATOMIC_RELEASE);
	while (__atomic_load_n(&burst->open, __ATOMIC_ACQUIRE) != gate)
		if (given_up(burst))
			return false;
	return true;
}

/* The thread that touches the lines first: their pages get their home there. */
static bool owns_lines(const struct worker *worker)
{
	return worker->side->index == (worker->burst->order.placement.owner_pong ? 1 : 0);
}

static void write_arena(const struct worker *worker, struct arena *arena, size_t bytes)
{
	while (arena && !given_up(worker->burst) && arena_write_more(arena, bytes))
		bench_progress(worker->side);
}

/* Touches what the thread will write, and brings its memory into the state that is measured. */
static int prepare(struct worker *worker)
{
	const struct burst *burst = worker->burst;
	const struct benchmark *benchmark = burst->order.benchmark;

	if (worker->stamps)
		memset(worker->stamps, 0, (burst->order.samples + 1) * sizeof *worker->stamps);
	if (worker->sample_mhz)
		memset(worker->sample_mhz, 0, burst->order.samples * sizeof *worker->sample_mhz);
	if (worker->lost_ns)
		memset(worker->lost_ns, 0, burst->order.samples * sizeof *worker->lost_ns);
	if (owns_lines(worker))
		for (size_t i = 0; i < burst->lines.count; i++)
			__atomic_store_n(burst->lines.line[i], 0, __ATOMIC_RELAXED);
	write_arena(worker, worker->arena, worker->side->point->arena_bytes);
	write_arena(worker, worker->walk, worker->side->point->walk_bytes);
	if (burst->order.point->one_arena)
		meet(worker); /* so that nobody uses what is not written yet */
	if (given_up(burst))  /* for a reason that another has given */
		return 0;
	return benchmark->prepare ? benchmark->prepare(worker->side) : 0;
}

/* Binds the thread and prepares it. */
static bool settle(struct worker *worker)
{
	int err = os_pin_self(worker->cpu);

	if (err == -EXDEV)
		os_pin_place(worker->place);
	if (err)
		return trouble(worker, "pin", err);
	worker->cpus[0] = os_current_cpu();
	worker->thread_name = os_thread_self();
	__atomic_store_n(&worker->bound, 1, __ATOMIC_RELEASE);
	if (worker->burst->order.priority)
		err = os_realtime_self(worker->burst->order.priority);
	if (err)
		return trouble(worker, "raise the priority of", err);
	if (worker->counting)
		counters_open(worker->burst->order.counters, worker->counting->opened);
	if (worker->burst->accounts)
		worker->waits = os_waits_open();
	err = prepare(worker);
	return err ? trouble(worker, "prepare", err) : true;
}

static bool are_apart(const struct burst *burst)
{
	return burst->count != 2 || burst->workers[0].cpus[0] != burst->workers[1].cpus[0];
}

/* An account that cannot be read is none. */
static void read_waits(struct worker *worker, int64_t *ns)
{
	if (worker->waits >= 0 && os_waits_read(worker->waits, ns)) {
		os_waits_close(worker->waits);
		worker->waits = -1;
	}
}

/* Readings just before the samples: what happens at the gate is none of theirs. */
static void begin(struct worker *worker)
{
	bool resets = worker->burst->order.benchmark->reset;

	worker->ran_known = !os_thread_ran_ns(&worker->ran_ns[0]);
	read_waits(worker, &worker->waited_ns[0]);
	worker->at_ns[0] = now_ns();
	worker->switches_known = !os_switches(&worker->switches[0][0], &worker->switches[0][1]);
	if (worker->counting && !resets) /* else only while each sample is timed */
		os_counters_start();
}

/* Readings just after them. */
static void end(struct worker *worker)
{
	if (worker->counting)
		os_counters_stop();
	os_switches(&worker->switches[1][0], &worker->switches[1][1]);
	worker->at_ns[1] = now_ns();
	os_thread_ran_ns(&worker->ran_ns[1]);
}

/* Does the yield let another thread have the CPU? */
static bool yields(struct worker *worker)
{
	int64_t *switches = worker->switches[2], before = switches[1];

	sched_yield();
	os_switches(&switches[0], &switches[1]);
	return switches[1] != before;
}

/*
 * Lets other work that waits for the CPU have it: a realtime thread, or one whose samples all fit
 * in its slice, would otherwise not notice that it shares the CPU. A scheduler that holds the other
 * to be ahead of its share picks this thread again until it has given up enough of its own.
 */
static void yield_cpu(struct worker *worker)
{
	if (worker->burst->order.priority)
		os_ordinary_self();
	os_switches(&worker->switches[2][0], &worker->switches[2][1]);
	for (int i = 0; i < YIELDS && !yields(worker); i++)
		;
	worker->at_ns[2] = now_ns();
	read_waits(worker, &worker->waited_ns[1]);
	os_thread_ran_ns(&worker->ran_ns[2]);
}

/*
 * How long the thread was without its CPU since the readings that it replaces. Those of its CPU
 * time enclose those of the time, and the two clocks may go at rates a little apart.
 */
static int64_t lost_ns(struct account *last)
{
	struct account now = {.at_ns = now_ns()};

	os_thread_ran_ns(&now.ran_ns);
	int64_t elapsed_ns = now.at_ns - last->at_ns;
	int64_t lost = elapsed_ns - elapsed_ns / CLOCKS_APART - (now.ran_ns - last->ran_ns);

	now.at_ns = now_ns();
	*last = now;
	return lost > 0 ? lost : 0;
}

static bool work(struct worker *worker, uint64_t n)
{
	const struct benchmark *benchmark = worker->burst->order.benchmark;

	while (n && !given_up(worker->burst)) {
		uint32_t chunk = n < benchmark->chunk ? (uint32_t)n : benchmark->chunk;

		benchmark->work(worker->side, chunk);
		n -= chunk;
		bench_progress(worker->side);
	}
	return n == 0;
}

/*
 * A unit of ping's work ends with its last store or load, so the stretch from one stamp to the next
 * holds `iterations` whole units; the untimed work before makes that true of the first sample too.
 */
static bool take_times(struct worker *worker)
{
	const struct burst_order *order = &worker->burst->order;

	worker->begin_ns = now_ns();
	worker->stamps[0] = order->clock->ticks();
	for (uint32_t i = 1; i <= order->samples; i++) {
		if (!work(worker, order->iterations))
			return false;
		worker->stamps[i] = order->clock->ticks();
	}
	return true;
}

/* The same, with a moment behind each sample that belongs to none. */
static bool take_clocked(struct worker *worker)
{
	const struct burst_order *order = &worker->burst->order;

	worker->begin_ns = now_ns();
	for (uint32_t i = 1; i <= order->samples; i++) {
		uint64_t start = order->clock->ticks();

		if (!work(worker, order->iterations))
			return false;
		worker->stamps[i] = worker->stamps[i - 1] + order->clock->ticks() - start;
		worker->sample_mhz[i - 1] = frequency_behind(order->clock, &worker->behind);
	}
	return true;
}

static int64_t late_ns(const struct worker *worker)
{
	const struct burst_order *order = &worker->burst->order;

	return (int64_t)((double)order->benchmark->late(worker->side) /
			 (double)order->clock->ticks_per_second * (double)NS_PER_S);
}

/* Of a benchmark that puts its values together itself; one that is not above 0 stands still. */
static bool take_values(struct worker *worker)
{
	const struct burst_order *order = &worker->burst->order;
	struct account account = {0};

	lost_ns(&account);
	for (uint32_t i = 1; i <= order->samples; i++) {
		if (!work(worker, order->iterations))
			return false;
		int64_t value = order->benchmark->value(worker->side);

		worker->stamps[i] = worker->stamps[i - 1] + (value > 0 ? (uint64_t)value : 0);
		worker->lost_ns[i - 1] = lost_ns(&account) + late_ns(worker);
	}
	return true;
}

/* Works on until all have their times, so that each was taken under the whole load. */
static bool linger(struct worker *worker)
{
	struct burst *burst = worker->burst;

	__atomic_add_fetch(&burst->finished, 1, __ATOMIC_ACQ_REL);
	while (__atomic_load_n(&burst->finished, __ATOMIC_ACQUIRE) < burst->count)
		if (!work(worker, burst->order.benchmark->chunk))
			return false;
	return true;
}

/* All prepare it and meet, then ping works. */
static bool take_grain(struct worker *worker, struct account *account, uint64_t units,
		       uint64_t *ticks)
{
	const struct burst_order *order = &worker->burst->order;

	for (unsigned phase = 0; phase < order->benchmark->phases; phase++) {
		order->benchmark->reset(worker->side, phase);
		bench_progress(worker->side);
		if (!meet(worker))
			return false;
	}
	if (worker->stamps) {
		if (worker->counting)
			os_counters_start();
		uint64_t start = order->clock->ticks();

		if (!work(worker, units))
			return false;
		*ticks = order->clock->ticks() - start;
		if (worker->counting)
			os_counters_stop();
	}
	worker->grain_lost_ns = lost_ns(account);
	return meet(worker);
}

/* Of a grain that took so long; one during which a thread was away may be so in all its time. */
static int64_t grain_lost_ns(const struct burst *burst, uint64_t ticks)
{
	double ns = (double)ticks * 1e9 / (double)burst->order.clock->ticks_per_second;
	int64_t lost = 0;

	for (size_t i = 0; i < burst->count; i++)
		lost += burst->workers[i].grain_lost_ns;
	return lost < (int64_t)ns ? lost : (int64_t)ns;
}

/* Samples of grains of which each is prepared; those that take no times wait for ping meanwhile. */
static bool take_prepared(struct worker *worker)
{
	const struct burst_order *order = &worker->burst->order;
	uint64_t grain = bench_grain(order->benchmark, order->point), ticks = 0;
	struct account account = {0};

	lost_ns(&account);
	for (uint32_t i = 0; i < order->samples; i++) {
		if (worker->stamps)
			worker->stamps[i + 1] = worker->stamps[i];
		for (uint64_t done = 0; done < order->iterations; done += grain) {
			if (!take_grain(worker, &account, grain, &ticks))
				return false;
			if (!worker->stamps)
				continue;
			worker->stamps[i + 1] += ticks;
			worker->lost_ns[i] += grain_lost_ns(worker->burst, ticks);
		}
	}
	return true;
}

/* Without stamps: the same work. */
static bool take(struct worker *worker)
{
	const struct burst_order *order = &worker->burst->order;

	begin(worker);
	bool done = order->benchmark->reset   ? take_prepared(worker)
		    : !worker->stamps         ? work(worker, order->samples * order->iterations)
		    : order->benchmark->value ? take_values(worker)
		    : worker->clocked         ? take_clocked(worker)
					      : take_times(worker);

	end(worker);
	return done;
}

static bool play(struct worker *worker)
{
	const struct burst_order *order = &worker->burst->order;
	const struct benchmark *benchmark = order->benchmark;
	bool alone = benchmark->all_timed && !benchmark->release;

	worker->clocked = worker->sample_mhz && frequency_prepare(order->clock, &worker->behind);
	if (!work(worker, worker->side->first))
		return false;
	if (!worker->stamps)
		return take(worker);
	worker->core_mhz[0] = frequency_now(order->clock);
	if (alone && !meet(worker)) /* so that none begins with a lead */
		return false;
	if (!take(worker))
		return false;
	worker->core_mhz[1] = frequency_now(order->clock);
	if (alone && !linger(worker))
		return false;
	if (benchmark->leave)
		benchmark->leave(worker->side);
	return true;
}

int worker_make_room(struct worker *worker, const struct burst_order *order)
{
	const struct benchmark *benchmark = order->benchmark;
	bool is_ping = worker->side->index == 0, timed = is_ping || benchmark->all_timed;
	bool clocked = is_ping && benchmark->clocked, apart = benchmark->value || benchmark->reset;

	if (timed)
		worker->stamps = calloc(order->samples + 1, sizeof *worker->stamps);
	if (clocked)
		worker->sample_mhz = calloc(order->samples, sizeof *worker->sample_mhz);
	if (apart)
		worker->lost_ns = calloc(order->samples, sizeof *worker->lost_ns);
	return (timed && !worker->stamps) || (clocked && !worker->sample_mhz) ||
			       (apart && !worker->lost_ns)
		       ? -ENOMEM
		       : 0;
}

void *worker_run(void *arg)
{
	struct worker *worker = arg;
	struct burst *burst = worker->burst;

	if (!settle(worker)) {
		worker_give_up(burst);
	} else if (meet(worker) && are_apart(burst) && play(worker)) {
		worker->cpus[1] = os_current_cpu();
		yield_cpu(worker);
	}
	if (worker->counting)
		counters_end(burst->order.counters, worker->counting->opened,
			     worker->counting->counts);
	if (worker->waits >= 0)
		os_waits_close(worker->waits);
	__atomic_store_n(&worker->out, 1, __ATOMIC_RELEASE);
	ssize_t ignored = write(burst->done_fd, "", 1); /* full: the supervisor will wake anyway */
	(void)ignored;
	return NULL;
}
