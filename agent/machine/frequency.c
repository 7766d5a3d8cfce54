/* frequency.c: times dependent additions, a cycle each, on a core. */
#include "machine/frequency.h"

#include "base/interval.h"
#include "base/stop.h"
#include "machine/facts.h"

/* Additions, up to MOST times as many by a coarse clock; multiples of 16, as arch_adds() wants. */
enum { ADDS = 16384, SHORT = ADDS / 16, STRETCHES = 3, MOST = 16 };

/* After a sample: FIRST additions bring the code into the front end; at least BRIEF are timed,
 * which must take STEPS of the clock, so that it resolves 0.3 %. docs/benchmarks.md has what longer
 * runs do to the next sample. */
enum { FIRST = 16, BRIEF = 448, TIMES = 4, PAIRS = 15, STEPS = 333 };

/* A core that was idle needs some time to reach the frequency at which it is measured. */
#define RAMP_NS (2 * NS_PER_MS)

struct question {
	const struct clock *clock;
	uint32_t mhz;
};

static uint64_t time_additions(const struct clock *clock, uint32_t adds)
{
	uint64_t start = clock->ticks();

	arch_adds(adds);
	return clock->ticks() - start;
}

/* Returns the least of a few stretches, since one may be interrupted. */
static uint64_t time_additions_at_best(const struct clock *clock, uint32_t adds)
{
	uint64_t least = UINT64_MAX;

	for (int i = 0; i < STRETCHES; i++) {
		uint64_t ticks = time_additions(clock, adds);

		least = ticks < least ? ticks : least;
	}
	return least;
}

uint32_t frequency_measure(const struct clock *clock)
{
	if (!arch_adds)
		return 0;
	uint64_t brief =
		time_additions_at_best(clock, SHORT); /* includes the cost of timing a stretch */
	uint64_t times = STEPS * clock->quantum_ticks / (ADDS / SHORT * brief + 1) + 1;
	uint32_t adds = ADDS * (uint32_t)(times < MOST ? times : MOST);
	double ticks = (double)time_additions_at_best(clock, SHORT + adds) - (double)brief;

	return ticks > 0 ? (uint32_t)(adds * (clock->ticks_per_second / 1e6) / ticks + 0.5) : 0;
}

/* Takes the overhead from the ratio of neighbouring runs, which does not depend on the
 * frequency. */
bool frequency_calibrate_brief(const struct clock *clock, struct additions *additions)
{
	double overheads[PAIRS];

	if (!arch_adds)
		return false;
	double ticks = (double)time_additions_at_best(clock, ADDS),
	       wanted = STEPS * (double)clock->quantum_ticks;

	if (ticks < wanted)
		return false;
	uint32_t adds = (uint32_t)(ADDS * wanted / ticks) / 16 * 16 + 16;

	additions->adds = adds = adds > BRIEF ? adds : BRIEF;
	for (int i = 0; i < PAIRS; i++) {
		double brief = (double)time_additions(clock, adds);
		double longer = (double)time_additions(clock, TIMES * adds);

		overheads[i] =
			longer > brief ? adds * (TIMES * brief - longer) / (longer - brief) : 0;
	}
	additions->overhead_cycles = median(overheads, PAIRS);
	return true;
}

double frequency_measure_brief(const struct clock *clock, const struct additions *additions)
{
	time_additions(clock, FIRST);
	double us = (double)time_additions(clock, additions->adds) /
		    (double)clock->ticks_per_second * 1e6;

	return (additions->adds + additions->overhead_cycles) / us;
}

static int measure_busy_frequency(int cpu, void *context)
{
	struct question *question = context;

	(void)cpu;
	for (int64_t until = now_ns() + RAMP_NS; now_ns() < until;)
		arch_adds(ADDS);
	question->mhz = frequency_measure(question->clock);
	return 0;
}

void frequency_measure_cpus(const struct clock *clock, const int *cpus, size_t count, uint32_t *mhz)
{
	for (size_t i = 0; i < count; i++) {
		struct question question = {.clock = clock};

		if (arch_adds)
			(void)call_on_cpu(cpus[i], measure_busy_frequency, &question);
		mhz[i] = question.mhz;
	}
}
