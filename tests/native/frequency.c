/* frequency.c: what the agent takes for the MHz of a core on which time passes only by additions.
 * Arguments: its MHz, and the rate and the step of its clock, which takes a part of a step to read. */
#include "machine/frequency.c"

#include <stdio.h>
#include <stdlib.h>

static double mhz, rate, step, seconds;

static void count(uint32_t n)
{
	seconds += n / mhz / 1e6;
}

adds_fn *const arch_adds = count;

static uint64_t ticks(void)
{
	seconds += 0.37 * step / rate;
	return (uint64_t)(seconds * rate / step) * (uint64_t)step;
}

double median(double *values, size_t n)
{
	return values[n / 2];
}

int64_t now_ns(void)
{
	return (int64_t)(seconds * 1e9);
}

int call_on_cpu(int cpu, int (*ask_there)(int, void *), void *of)
{
	return ask_there(cpu, of);
}

int main(int argc, char **argv)
{
	struct clock clock = {.ticks = ticks};

	if (argc != 4)
		return 1;
	mhz = atof(argv[1]);
	rate = atof(argv[2]);
	step = atof(argv[3]);
	clock.ticks_per_second = (uint64_t)rate;
	clock.quantum_ticks = (uint64_t)step;
	printf("%u\n", frequency_measure(&clock));
	return 0;
}
