/* write.c: writing without ever blocking for good. */
#include "emit/emit.h"

#include "base/stop.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

enum {
	PIECE = 4096,   /* a pipe that poll() calls writable takes this much without blocking */
	GRACE_MS = 200, /* for a slow reader, once the run must end */
};

static const char *broken;
static int64_t last_ns;

/* Waits until a piece can be written; else says why none can. */
static const char *wait_writable(void)
{
	if (stop_wait(STDOUT_FILENO, POLLOUT, NEVER) == WAIT_READY)
		return NULL;
	struct pollfd polled = {.fd = STDOUT_FILENO, .events = POLLOUT};
	int ready = poll(&polled, 1, GRACE_MS);

	return ready == 1 ? NULL : ready < 0 && errno != EINTR ? NO_POLL : "nobody reads it";
}

static void break_off(const char *why)
{
	char reason[64];

	broken = why;
	snprintf(reason, sizeof reason, "stdout: %s", why);
	stop_because(reason);
}

void emit_write(struct text *text)
{
	if (text->failed)
		break_off(strerror(ENOMEM));
	for (size_t at = 0; at < text->length && !broken;) {
		size_t piece = text->length - at < PIECE ? text->length - at : PIECE;

		const char *why = wait_writable();

		if (why) {
			break_off(why);
			break;
		}
		ssize_t written = write(STDOUT_FILENO, text->data + at, piece);

		if (written >= 0)
			at += (size_t)written;
		else if (errno != EINTR && errno != EAGAIN)
			break_off(strerror(errno));
	}
	last_ns = now_ns();
	text_clear(text);
}

void emit_sentence(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fputs("fleet-agent: ", stderr);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
}

const char *emit_broken(void)
{
	return broken;
}

int64_t emit_last_ns(void)
{
	return last_ns;
}
