/* clocks_apart.c: whether two CPUs' counters are so far apart that effects precede their causes. */
#include "machine/clocks.h"

#include "base/stop.h"

#include <pthread.h>

enum { EXCHANGES = 64, LOOKS = 1024, PATIENCE_MS = 200 };

/* One of two threads that tell each other the time by turns. */
struct teller {
	_Alignas(LINE_BYTES) uint64_t sent; /* its clock, before it hands over */
	uint32_t turn;                      /* how many times it has handed over */
	const struct clock *clock;
	struct teller *other;
	int cpu;
	bool begins, given_up;
	int64_t least; /* that its clock was ahead of what the other had sent */
};

/* False if the other does not come: its CPU is busy, and nothing is known of its clock. */
static bool await(const struct teller *other, uint32_t turn)
{
	int64_t until_ns = now_ns() + PATIENCE_MS * NS_PER_MS;

	do {
		for (int i = 0; i < LOOKS; i++)
			if (__atomic_load_n(&other->turn, __ATOMIC_ACQUIRE) == turn)
				return true;
	} while (now_ns() < until_ns);
	return false;
}

static void *exchange(void *arg)
{
	struct teller *self = arg;

	self->given_up = os_pin_self(self->cpu) != 0;
	for (uint32_t turn = 1; turn <= EXCHANGES && !self->given_up; turn++) {
		if (!self->begins || turn > 1) {
			if (!await(self->other, self->begins ? turn - 1 : turn)) {
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

static bool pair_is_apart(const struct clock *clock, int first, int second)
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
	while (started < 2 && !pthread_create(&threads[started], NULL, exchange, &tellers[started]))
		started++;
	for (size_t i = 0; i < started; i++)
		pthread_join(threads[i], NULL);
	return tellers[0].least < 0 || tellers[1].least < 0;
}

bool clock_is_apart(const struct clock *clock, const int *cpus, size_t count, int *other)
{
	for (size_t i = 1; i < count; i++)
		if (pair_is_apart(clock, cpus[0], cpus[i])) {
			*other = cpus[i];
			return true;
		}
	return false;
}
