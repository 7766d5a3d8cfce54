/* Preloaded into the agent: an OS clock that takes ten times as long in four new threads out of eight. */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static atomic_int threads;
static _Thread_local int number;

int clock_gettime(clockid_t which, struct timespec *now)
{
	if (!number)
		number = ++threads;
	for (int i = number / 4 % 2 ? 9 : 0; i > 0; i--)
		syscall(SYS_clock_gettime, which, now);
	return (int)syscall(SYS_clock_gettime, which, now);
}
