/* Preloaded into a program: its wall clock is CLOCK_AHEAD_S ahead. */
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *now)
{
	long error = syscall(SYS_clock_gettime, clock, now);

	if (clock == CLOCK_REALTIME)
		now->tv_sec += strtol(getenv("CLOCK_AHEAD_S"), NULL, 10);
	return (int)error;
}
