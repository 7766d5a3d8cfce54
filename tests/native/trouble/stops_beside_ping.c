/*
 * Preloaded into the agent: a thread that works beside ping works for WORK_MS after ping has read
 * its CPU time, then sleeps for 200 ms, in which ping takes its samples alone. With UNSEEN it seems
 * to have had its CPU all the time, as where a hypervisor took it.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static void wait_ms(long ms)
{
	struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

	nanosleep(&time, NULL);
}

static void sleep_200_ms(int signal)
{
	(void)signal;
	wait_ms(200);
}

/* Linux: the clock of a thread's CPU time is ~id << 3 and three bits, 6 where it is a thread's. */
static int thread_of_clock(clockid_t which)
{
	return which < 0 && (which & 7) == 6 ? ~(which >> 3) : 0;
}

int clock_gettime(clockid_t which, struct timespec *now)
{
	static __thread unsigned readings;
	int other = thread_of_clock(which);
	clockid_t read = other && getenv("UNSEEN") ? CLOCK_MONOTONIC : which;
	int failed = (int)syscall(SYS_clock_gettime, read, now);

	if (!failed && other && readings++ % 2 == 0) {
		signal(SIGUSR1, sleep_200_ms);
		wait_ms(atoi(getenv("WORK_MS")));
		syscall(SYS_tgkill, getpid(), other, SIGUSR1);
	}
	return failed;
}
