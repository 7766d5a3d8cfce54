/* Linux: performance counters of one thread, by perf_event_open(2). See native.h. No header of the
 * kernel's is needed, which a compiler for musl may come without. */
#define _GNU_SOURCE
#include "native.h"

#include <errno.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { TIME_ENABLED = 1, TIME_RUNNING = 2 };

/* struct perf_event_attr in its first version, 64 bytes. */
struct attributes {
	uint32_t type, size;
	uint64_t config, sample_period, sample_type, read_format;
	__extension__ uint64_t disabled : 1, inherit : 1, pinned : 1, exclusive : 1,
		exclude_user : 1, exclude_kernel : 1, exclude_hv : 1, others : 57;
	uint32_t wakeup_events, breakpoint_type;
	uint64_t breakpoint_address;
};

int os_counter_open(const struct event *event)
{
	struct attributes attributes = {
		.type = event->type,
		.size = sizeof attributes,
		.config = event->config,
		.disabled = 1,
		.exclude_kernel = !event->kernel,
		.exclude_hv = 1,
		.read_format = TIME_ENABLED | TIME_RUNNING,
	};
	long counter = syscall(SYS_perf_event_open, &attributes, 0, -1, -1, 0);

	return counter < 0 ? -errno : (int)counter;
}

void os_counters_start(void)
{
	prctl(PR_TASK_PERF_EVENTS_ENABLE);
}

void os_counters_stop(void)
{
	prctl(PR_TASK_PERF_EVENTS_DISABLE);
}

int os_counter_read_and_close(int counter, struct event_count *count)
{
	uint64_t values[3];
	ssize_t got = read(counter, values, sizeof values);
	int err = got < 0 ? -errno : got != (ssize_t)sizeof values ? -EIO : 0;

	if (!err)
		*count = (struct event_count){values[0], values[1], values[2]};
	close(counter);
	return err;
}

const char *os_explain_counter_refusal(int err)
{
	switch (-err) {
	case EACCES:
		return "the kernel forbids it: set kernel.perf_event_paranoid to 2, or to 1 for "
		       "events in the kernel, or give the agent's user CAP_PERFMON";
	case EPERM:
		return "a seccomp filter or the kernel forbids perf_event_open: allow it for the "
		       "container, or measure outside of it";
	case ENOSYS:
		return "there is no perf_event_open: the kernel lacks it, or a seccomp filter "
		       "hides it";
	case ENOENT:
	case ENODEV:
	case EOPNOTSUPP:
		return "the CPU does not offer it: a virtual machine needs a PMU from its "
		       "hypervisor";
	case EINVAL:
		return "this CPU has no such event";
	case EMFILE:
		return "too many open files: raise the limit (ulimit -n)";
	default:
		return strerror(-err);
	}
}
