/*
 * Preloaded into the agent: on CPU LATE_CPU a thread sleeps for 50 ms when it reads its CPU time.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t which, struct timespec *now)
{
	const struct timespec pause = {.tv_nsec = 50000000};

	if (which == CLOCK_THREAD_CPUTIME_ID && sched_getcpu() == atoi(getenv("LATE_CPU")))
		nanosleep(&pause, NULL);
	return (int)syscall(SYS_clock_gettime, which, now);
}
