/* frequency.c: times dependent additions, a cycle each, on a core. */
#include "frequency.h"

#include "stop.h"

#include <pthread.h>

enum { ADDS = 16384, SHORT = ADDS / 16, STRETCHES = 3 }; /* multiples of 16, as arch_adds() wants */

/* A core that was idle needs some time to reach the frequency at which it is measured. */
#define RAMP_NS (2 * NS_PER_MS)

struct question {
	const struct clock *clock;
	int cpu;
	uint32_t mhz;
};

/* The least of a few stretches, since one may be interrupted. */
static uint64_t least_ticks(const struct clock *clock, uint32_t adds)
{
	uint64_t least = UINT64_MAX;

	for (int i = 0; i < STRETCHES; i++) {
		uint64_t start = clock->ticks();

		arch_adds(adds);
		uint64_t ticks = clock->ticks() - start;

		least = ticks < least ? ticks : least;
	}
	return least;
}

uint32_t frequency_now(const struct clock *clock)
{
	if (!arch_adds)
		return 0;
	uint64_t brief = least_ticks(clock, SHORT);
	uint64_t whole = least_ticks(clock, SHORT + ADDS); /* less what a stretch costs beside */

	if (whole <= brief)
		return 0;
	double us = (double)(whole - brief) / (double)clock->ticks_per_second * 1e6;

	return (uint32_t)(ADDS / us + 0.5);
}

static void *ask(void *arg)
{
	struct question *question = arg;

	if (os_pin_self(question->cpu))
		return NULL;
	for (int64_t until = now_ns() + RAMP_NS; now_ns() < until;)
		arch_adds(ADDS);
	question->mhz = frequency_now(question->clock);
	return NULL;
}

void frequency_of_cpus(const struct clock *clock, const int *cpus, size_t count, uint32_t *mhz)
{
	for (size_t i = 0; i < count; i++) {
		struct question question = {.clock = clock, .cpu = cpus[i]};
		pthread_t thread;

		if (arch_adds && !pthread_create(&thread, NULL, ask, &question))
			pthread_join(thread, NULL);
		mhz[i] = question.mhz;
	}
}
