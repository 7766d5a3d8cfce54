/* stop.c: signals, stdin and the deadline, in one poll(). */
#include "base/stop.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static const int signals[] = {SIGHUP, SIGINT, SIGTERM, SIGPIPE};
enum { SIGNAL_COUNT = sizeof signals / sizeof *signals };

static struct {
	int signal_pipe[2];
	int stdin_fd; /* -1: end of file there means nothing */
	int64_t deadline_ns;
	const char *deadline_reason;
	char reason[64];
} stop = {.signal_pipe = {-1, -1},
	  .stdin_fd = -1,
	  .deadline_ns = NEVER,
	  .deadline_reason = "deadline"};

int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * NS_PER_S + now.tv_nsec;
}

static void on_signal(int number)
{
	unsigned char byte = (unsigned char)number;
	int saved = errno;
	ssize_t ignored = write(stop.signal_pipe[1], &byte, 1);

	(void)ignored;
	errno = saved;
}

static void change_signal_mask(int how)
{
	sigset_t set;

	sigemptyset(&set);
	for (int i = 0; i < SIGNAL_COUNT; i++)
		sigaddset(&set, signals[i]);
	pthread_sigmask(how, &set, NULL);
}

void stop_block_signals(void)
{
	change_signal_mask(SIG_BLOCK);
}

void stop_unblock_signals(void)
{
	change_signal_mask(SIG_UNBLOCK);
}

int stop_begin_watching(bool until_eof, int64_t deadline_ns)
{
	struct sigaction action = {.sa_handler = on_signal};

	stop.deadline_ns = deadline_ns;
	stop.stdin_fd = until_eof ? STDIN_FILENO : -1;
	if (pipe(stop.signal_pipe) || fcntl(stop.signal_pipe[1], F_SETFL, O_NONBLOCK))
		return -errno;
	sigemptyset(&action.sa_mask);
	for (int i = 0; i < SIGNAL_COUNT; i++)
		if (sigaction(signals[i], &action, NULL))
			return -errno;
	return 0;
}

void stop_set_earlier_deadline(const char *reason, int64_t deadline_ns)
{
	if (deadline_ns >= stop.deadline_ns)
		return;
	stop.deadline_ns = deadline_ns;
	stop.deadline_reason = reason;
}

void stop_record_reason(const char *reason)
{
	if (!stop.reason[0])
		snprintf(stop.reason, sizeof stop.reason, "%s", reason);
}

const char *stop_reason(void)
{
	return stop.reason[0] ? stop.reason : NULL;
}

static void read_signal(void)
{
	unsigned char number;
	char reason[32];

	if (read(stop.signal_pipe[0], &number, 1) != 1)
		return;
	snprintf(reason, sizeof reason, "signal %d", number);
	stop_record_reason(reason);
}

/* Drops what arrives on stdin; its end is a reason to end. */
static void read_stdin(void)
{
	char thrown_away[4096];
	ssize_t got = read(stop.stdin_fd, thrown_away, sizeof thrown_away);

	if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN))
		stop_record_reason("stdin closed");
}

/* Returns ms for poll(), rounded up so that the moment has come afterwards; at most an hour. */
static int poll_timeout_ms(int64_t until_ns)
{
	int64_t left = until_ns - now_ns();

	if (left <= 0)
		return 0;
	return left > 3600 * NS_PER_S ? 3600 * 1000 : (int)((left + NS_PER_MS - 1) / NS_PER_MS);
}

enum wait stop_wait(int fd, short events, int64_t until_ns)
{
	for (;;) {
		int64_t wake_ns = until_ns < stop.deadline_ns ? until_ns : stop.deadline_ns;
		struct pollfd polled[] = {
			{.fd = stop.signal_pipe[0], .events = POLLIN},
			{.fd = stop.stdin_fd, .events = POLLIN},
			{.fd = STDOUT_FILENO}, /* asks for nothing: errors are always reported */
			{.fd = fd, .events = events},
		};

		if (poll(polled, 4, poll_timeout_ms(wake_ns)) < 0) {
			if (errno == EINTR)
				continue;
			stop_record_reason(NO_POLL);
			return WAIT_STOP;
		}
		if (polled[0].revents)
			read_signal();
		if (polled[1].revents)
			read_stdin();
		if (polled[2].revents)
			stop_record_reason("stdout closed");
		if (now_ns() >= stop.deadline_ns)
			stop_record_reason(stop.deadline_reason);
		if (stop.reason[0])
			return WAIT_STOP;
		if (polled[3].revents)
			return WAIT_READY;
		if (now_ns() >= until_ns)
			return WAIT_TIMEOUT;
	}
}

bool stop_is_requested(void)
{
	return stop_wait(-1, 0, now_ns()) == WAIT_STOP;
}

static void (*at_work)(void);

void stop_set_idle(void (*idle)(void))
{
	at_work = idle;
}

bool stop_run_idle_and_check(void)
{
	if (at_work)
		at_work();
	return stop_is_requested();
}
