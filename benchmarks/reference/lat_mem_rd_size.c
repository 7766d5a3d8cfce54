/*
 * The loop of lmbench's lat_mem_rd.c for one size and stride, in samples as short as the agent's.
 * Compile with -I LMBENCH/src and its lib_*.c and getopt.c; prints ns a load, the least of
 * five samples after a warm-up. Arguments: bytes, stride.
 */
#define main lat_mem_rd_main
#include "lat_mem_rd.c"
#undef main

#include <time.h>

enum { SAMPLES = 5 };

static double now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_RAW, &now);
	return now.tv_sec * 1e9 + now.tv_nsec;
}

int main(int argc, char **argv)
{
	struct mem_state state = {.width = 1, .pagesize = getpagesize()};
	double least = 0;

	if (argc != 3)
		return 2;
	state.len = state.maxlen = strtoul(argv[1], NULL, 10);
	state.line = strtoul(argv[2], NULL, 10);
	size_t loads = 100 * (state.len / (state.line * 100) + 1);
	iter_t turns = 1 + 1000000 / loads;

	stride_initialize(0, &state);
	benchmark_loads(turns / 10 + 2, &state);
	for (int i = 0; i < SAMPLES; i++) {
		double start = now_ns();

		benchmark_loads(turns, &state);
		double ns = (now_ns() - start) / (double)(turns * loads);
		least = i == 0 || ns < least ? ns : least;
	}
	printf("%.4f\n", least);
	return 0;
}
