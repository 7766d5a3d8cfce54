/* stop.h: the orders to end, and the only place where the supervisor waits.
 *
 * A signal, end of file on stdin (if asked for) and the deadline all end the run; every wait ends
 * with them, so none is noticed late. */
#ifndef FLEET_BASE_STOP_H
#define FLEET_BASE_STOP_H

#include <stdbool.h>
#include <stdint.h>

#define NS_PER_S  INT64_C(1000000000)
#define NS_PER_MS INT64_C(1000000)
#define NEVER     INT64_MAX

/* Returns nanoseconds of CLOCK_MONOTONIC: for supervising, never for measuring. */
int64_t now_ns(void);

/* Blocks HUP, INT, TERM and PIPE in the calling thread; its children inherit that. */
void stop_block_signals(void);
void stop_unblock_signals(void);

/* Begins to watch for signals, the end of stdin if `until_eof`, and the deadline, a moment of
 * now_ns() or NEVER. Returns 0 or -errno. */
int stop_begin_watching(bool until_eof, int64_t deadline_ns);

enum wait { WAIT_READY, WAIT_TIMEOUT, WAIT_STOP };

#define NO_POLL "the kernel refuses poll()"

/* Waits until fd has one of the poll events, `until_ns` has come, or the run must end. */
enum wait stop_wait(int fd, short events, int64_t until_ns);

/* Reports whether an order to end has arrived. Does not wait. */
bool stop_is_requested(void);

/* For long work of the supervisor: set the function `idle`; call it, if one is set, and report
 * whether to end. */
void stop_set_idle(void (*idle)(void));
bool stop_run_idle_and_check(void);

/* Moves the deadline to this moment of now_ns(), for this reason, unless it is earlier already. */
void stop_set_earlier_deadline(const char *reason, int64_t deadline_ns);

/* Records a reason of our own to end; the first reason stays. */
void stop_record_reason(const char *reason);

/* Returns why the run must end, as docs/wire.md words it; null while it need not. */
const char *stop_reason(void);

#endif
