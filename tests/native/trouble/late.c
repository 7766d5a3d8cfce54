/*
 * Preloaded into the agent: on CPU LATE_CPU a thread works for 50 ms to read its CPU time, longer
 * than other work keeps its partner waiting.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static long read_clock(clockid_t which, struct timespec *now)
{
	return syscall(SYS_clock_gettime, which, now);
}

int clock_gettime(clockid_t which, struct timespec *now)
{
	struct timespec start;

	if (which == CLOCK_THREAD_CPUTIME_ID && sched_getcpu() == atoi(getenv("LATE_CPU"))) {
		read_clock(CLOCK_MONOTONIC, &start);
		do {
			read_clock(CLOCK_MONOTONIC, now);
		} while ((now->tv_sec - start.tv_sec) * 1000000000l + now->tv_nsec - start.tv_nsec <
			 50000000);
	}
	return (int)read_clock(which, now);
}
