/* QNX: counters of a thread are not available. See native.h. */
#include "native.h"

#include <errno.h>

int os_counter_open(const struct event *event)
{
	(void)event;
	return -ENOTSUP;
}

void os_counters_start(void)
{
}

void os_counters_stop(void)
{
}

int os_counter_end(int counter, struct event_count *count)
{
	(void)counter;
	(void)count;
	return -ENOTSUP;
}

const char *os_counter_refusal(int err)
{
	(void)err;
	return "not available on QNX";
}
