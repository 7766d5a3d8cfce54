/* clocks.c: the clock's rate, cost and quantum, measured on a thread pinned to one CPU. */
#include "machine/clocks.h"

#include "base/stop.h"
#include "machine/facts.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

enum {
	READINGS = 2000,
	RATE_MS = 5,
	RATE_MORE_MS = 45, /* for a clock too slow for that */
	STEPS_WANTED = 100,
	STEPS_LIMIT_MS = 300,
	BRACKETS = 20,
	RATE_TICKS = 10000
};

struct job {
	bool is_reference; /* it is the OS's clock, against which others are held */
	struct clock_facts *facts;
};

/* One moment, read from both clocks. */
struct moment {
	uint64_t ticks;
	uint64_t reference;
};

/* Reads our counter between two readings of the reference clock; keeps the tightest of several. */
static struct moment read_both_clocks(const struct clock *clock, const struct clock *reference)
{
	struct moment best = {0};
	uint64_t best_width = UINT64_MAX;

	for (int i = 0; i < BRACKETS; i++) {
		uint64_t before = reference->ticks();
		uint64_t ticks = clock->ticks();
		uint64_t width = reference->ticks() - before;

		if (width < best_width) {
			best_width = width;
			best = (struct moment){ticks, before + width / 2};
		}
	}
	return best;
}

/* Finds the counter's rate by the OS's clock, over a pause of RATE_MS, or a longer one if the
 * counter moves less than RATE_TICKS meanwhile, and how far it moved. */
static int measure_rate(const struct clock *clock, double *ticks_per_second, uint64_t *moved)
{
	struct timespec pause = {.tv_nsec = RATE_MS * NS_PER_MS};
	struct clock reference;

	os_get_clock(&reference);
	struct moment start = read_both_clocks(clock, &reference);
	nanosleep(&pause, NULL);
	struct moment end = read_both_clocks(clock, &reference);

	if (end.ticks - start.ticks < RATE_TICKS) {
		pause.tv_nsec = RATE_MORE_MS * NS_PER_MS;
		nanosleep(&pause, NULL);
		end = read_both_clocks(clock, &reference);
	}
	if (end.reference <= start.reference || end.ticks <= start.ticks)
		return -ERANGE;
	double seconds =
		(double)(end.reference - start.reference) / (double)reference.ticks_per_second;

	*moved = end.ticks - start.ticks;
	*ticks_per_second = (double)*moved / seconds;
	return 0;
}

/* Takes the measured rate if none is stated, or returns -errno if it cannot be measured. Else keeps
 * the stated one, and checks it against the measured one if the clock is fine enough. */
static int choose_rate(struct clock_facts *facts)
{
	double measured = 0, stated = (double)facts->clock.ticks_per_second;
	uint64_t moved = 0;
	int err = measure_rate(&facts->clock, &measured, &moved);

	if (stated <= 0) {
		facts->clock.ticks_per_second = (uint64_t)(measured + 0.5);
		return err;
	}
	facts->rate_checked = !err && moved >= RATE_TICKS;
	if (facts->rate_checked)
		facts->rate_error_ppm = (int64_t)((measured / stated - 1) * 1e6);
	facts->clock.is_rate_wrong = llabs(facts->rate_error_ppm) > RATE_ERROR_PPM_MOST;
	return 0;
}

static int compare_ticks(const void *a, const void *b)
{
	uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;

	return (left > right) - (left < right);
}

static uint64_t greatest_common_divisor(uint64_t a, uint64_t b)
{
	while (b) {
		uint64_t rest = a % b;

		a = b;
		b = rest;
	}
	return a;
}

/* Takes back-to-back readings until the clock has stepped often enough, or for a while: a coarse
 * one may step every 10 ms only. Two readings are never closer than a reading's cost, so the
 * quantum is not the smallest step but the greatest common divisor of all steps. */
static int measure_clock_steps(struct clock_facts *facts)
{
	static uint64_t steps[READINGS];
	int64_t until_ns = now_ns() + STEPS_LIMIT_MS * NS_PER_MS;
	int moved = 0;

	facts->clock.quantum_ticks = 0;
	facts->least_ticks = UINT64_MAX;
	while (moved < STEPS_WANTED && now_ns() < until_ns) {
		uint64_t last = facts->clock.ticks();

		for (int i = 0; i < READINGS; i++) {
			uint64_t now = facts->clock.ticks();

			steps[i] = now - last;
			last = now;
		}
		qsort(steps, READINGS, sizeof *steps, compare_ticks);
		int first = 0;

		while (first < READINGS && steps[first] == 0)
			first++;
		if (first < READINGS && steps[first] < facts->least_ticks)
			facts->least_ticks = steps[first];
		for (int i = first; i < READINGS; i++)
			facts->clock.quantum_ticks =
				greatest_common_divisor(steps[i], facts->clock.quantum_ticks);
		moved += READINGS - first;
		facts->cost_ticks = steps[READINGS / 2];
	}
	return moved ? 0 : -ERANGE;
}

static int measure_clock(int cpu, void *context)
{
	struct job *job = context;
	int err = job->is_reference ? 0 : choose_rate(job->facts);

	(void)cpu;
	return err ? err : measure_clock_steps(job->facts);
}

int clock_choose(int cpu, const char *why_not, struct clock_facts *facts)
{
	struct job job = {.facts = facts};

	*facts = (struct clock_facts){0};
	if (why_not || arch_get_clock(&facts->clock)) {
		const char *note = why_not ? why_not : facts->clock.note;

		job.is_reference = true;
		os_get_clock(&facts->clock);
		facts->clock.note = note;
	} else if (!facts->clock.ticks_per_second) {
		os_get_counter_rate(&facts->clock.ticks_per_second);
	}
	return call_on_cpu(cpu, measure_clock, &job);
}

/* ---- counters that are apart ----------------------------------------------------------------- */

enum { EXCHANGES = 64, LOOKS = 1024, PATIENCE_MS = 200 };

/* One of two threads that take turns in sending each other the time. */
struct teller {
	_Alignas(LINE_BYTES) uint64_t sent; /* its clock, before it hands over */
	uint32_t turn;                      /* how many times it has handed over */
	const struct clock *clock;
	struct teller *other;
	int cpu;
	bool begins, given_up;
	int64_t least; /* the least that its clock was ahead of what the other had sent */
};

/* Waits for the other's turn. Returns false if it does not come: its CPU is busy, and nothing is
 * known of its clock. */
static bool wait_for_turn(const struct teller *other, uint32_t turn)
{
	int64_t until_ns = now_ns() + PATIENCE_MS * NS_PER_MS;

	do {
		for (int i = 0; i < LOOKS; i++)
			if (__atomic_load_n(&other->turn, __ATOMIC_ACQUIRE) == turn)
				return true;
	} while (now_ns() < until_ns);
	return false;
}

static void *exchange_times(void *arg)
{
	struct teller *self = arg;

	self->given_up = os_pin_self(self->cpu) != 0;
	for (uint32_t turn = 1; turn <= EXCHANGES && !self->given_up; turn++) {
		if (!self->begins || turn > 1) {
			if (!wait_for_turn(self->other, self->begins ? turn - 1 : turn)) {
				self->given_up = true;
				break;
			}
			int64_t ahead = (int64_t)(self->clock->ticks() - self->other->sent);

			if (ahead < self->least)
				self->least = ahead;
		}
		self->sent = self->clock->ticks();
		__atomic_store_n(&self->turn, turn, __ATOMIC_RELEASE);
	}
	return NULL;
}

static bool is_pair_unsynchronized(const struct clock *clock, int first, int second)
{
	static struct teller tellers[2];
	pthread_t threads[2];
	size_t started = 0;

	for (int i = 0; i < 2; i++)
		tellers[i] = (struct teller){.clock = clock,
					     .other = &tellers[!i],
					     .cpu = i ? second : first,
					     .begins = !i,
					     .least = INT64_MAX};
	while (started < 2 &&
	       !pthread_create(&threads[started], NULL, exchange_times, &tellers[started]))
		started++;
	for (size_t i = 0; i < started; i++)
		pthread_join(threads[i], NULL);
	return tellers[0].least < 0 || tellers[1].least < 0;
}

bool clock_is_unsynchronized(const struct clock *clock, const int *cpus, size_t count, int *other)
{
	for (size_t i = 1; i < count; i++)
		if (is_pair_unsynchronized(clock, cpus[0], cpus[i])) {
			*other = cpus[i];
			return true;
		}
	return false;
}
