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

/* Waits until a piece can be written; returns null, or why it cannot be. */
static const char *wait_writable(void)
{
	if (stop_wait(STDOUT_FILENO, POLLOUT, NEVER) == WAIT_READY)
		return NULL;
	struct pollfd polled = {.fd = STDOUT_FILENO, .events = POLLOUT};
	int ready = poll(&polled, 1, GRACE_MS);

	return ready == 1 ? NULL : ready < 0 && errno != EINTR ? NO_POLL : "nobody reads it";
}

static void give_up_stdout(const char *why)
{
	char reason[64];

	broken = why;
	snprintf(reason, sizeof reason, "stdout: %s", why);
	stop_record_reason(reason);
}

void emit_write(struct text *text)
{
	if (text->failed)
		give_up_stdout(strerror(ENOMEM));
	for (size_t written_bytes = 0; written_bytes < text->length && !broken;) {
		size_t piece =
			text->length - written_bytes < PIECE ? text->length - written_bytes : PIECE;

		const char *why = wait_writable();

		if (why) {
			give_up_stdout(why);
			break;
		}
		ssize_t written = write(STDOUT_FILENO, text->data + written_bytes, piece);

		if (written >= 0)
			written_bytes += (size_t)written;
		else if (errno != EINTR && errno != EAGAIN)
			give_up_stdout(strerror(errno));
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

const char *emit_write_error(void)
{
	return broken;
}

int64_t emit_last_ns(void)
{
	return last_ns;
}
