/*
 * Preloaded into the agent: a thread on CPU STOP_CPU sleeps for 200 ms, once, STOP_US after it has
 * first read its CPU time, as it does when it begins its samples.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static void sleep_200_ms(int signal)
{
	struct timespec time = {.tv_nsec = 200000000};

	(void)signal;
	nanosleep(&time, NULL);
}

static void stop_soon(void)
{
	struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGUSR1};
	struct itimerspec once = {.it_value = {.tv_nsec = atoi(getenv("STOP_US")) * 1000l}};
	timer_t timer;

	event._sigev_un._tid = gettid();
	signal(SIGUSR1, sleep_200_ms);
	if (timer_create(CLOCK_MONOTONIC, &event, &timer) || timer_settime(timer, 0, &once, NULL))
		abort();
}

int clock_gettime(clockid_t which, struct timespec *now)
{
	static __thread int readings;

	if (which == CLOCK_THREAD_CPUTIME_ID && sched_getcpu() == atoi(getenv("STOP_CPU")) &&
	    !readings++)
		stop_soon();
	return (int)syscall(SYS_clock_gettime, which, now);
}
