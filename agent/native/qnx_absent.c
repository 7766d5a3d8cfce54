/* QNX: what it does not have, or does not tell, of what native.h asks for. */
#include "native.h"

#include <errno.h>

#pragma GCC diagnostic ignored "-Wunused-parameter"

#define ABSENT(function)                                                                           \
	int function                                                                               \
	{                                                                                          \
		return -ENOTSUP;                                                                   \
	}

/* Its clocks of a thread move by the tick of 1 ms in 7.x, longer than many a burst. */
ABSENT(os_thread_cpu_ns(int64_t *ns))
ABSENT(os_count_switches(int64_t *voluntary, int64_t *involuntary))
ABSENT(os_wait_time_open(void))
ABSENT(os_wait_time_read(int account, int64_t *ns))

/* A mapping that does not fit is refused at once. */
ABSENT(os_limits_read(struct limits *limits))
ABSENT(os_huge_pages_map(void **start, size_t *bytes))
ABSENT(os_huge_pages_check(const void *start))
ABSENT(os_find_physical_page(const void *page, uint64_t *number))

ABSENT(os_pages_bind(void *start, size_t bytes, int node))
ABSENT(os_pages_find_nodes(char *start, size_t count, size_t step, int *nodes))

ABSENT(os_setting_read(enum setting setting, int cpu, char value[SETTING_ROOM]))
ABSENT(os_setting_write(enum setting setting, int cpu, const char *value))

ABSENT(os_counter_open(const struct event *event))
ABSENT(os_counter_read_and_close(int counter, struct event_count *count))

void os_wait_time_close(int account)
{
}

void os_counters_start(void)
{
}

void os_counters_stop(void)
{
}

const char *os_explain_counter_refusal(int err)
{
	return "not available on QNX";
}
