/*
 * Preloaded into the agent: a thread on CPU LATE_CPU waits LATE_MS before it begins its samples,
 * when it first reads its CPU time.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t which, struct timespec *now)
{
	static __thread int readings;

	if (which == CLOCK_THREAD_CPUTIME_ID && sched_getcpu() == atoi(getenv("LATE_CPU")) &&
	    !readings++)
		usleep((useconds_t)atoi(getenv("LATE_MS")) * 1000);
	return (int)syscall(SYS_clock_gettime, which, now);
}
