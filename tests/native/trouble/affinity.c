/*
 * Preloaded into the agent: a machine whose pinning goes wrong on one CPU. TROUBLE_CPU says which,
 * TROUBLE how: "refuse" says EINVAL, "lie" says yes and does nothing, "sleep" keeps the thread for
 * TROUBLE_S seconds, as if it never got to run. "wide" is no trouble but a kernel built for 8,192
 * CPUs, which refuses a mask with room for fewer.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

int sched_getaffinity(pid_t pid, size_t size, cpu_set_t *mask)
{
	if (!strcmp(getenv("TROUBLE"), "wide") && size < 8192 / 8) {
		errno = EINVAL;
		return -1;
	}
	memset(mask, 0, size);
	return syscall(SYS_sched_getaffinity, pid, size, mask) < 0 ? -1 : 0;
}

int sched_setaffinity(pid_t pid, size_t size, const cpu_set_t *mask)
{
	const char *trouble = getenv("TROUBLE");
	int cpu = atoi(getenv("TROUBLE_CPU"));

	if (cpu >= 0 && CPU_ISSET_S((size_t)cpu, size, mask) && CPU_COUNT_S(size, mask) == 1) {
		if (!strcmp(trouble, "refuse")) {
			errno = EINVAL;
			return -1;
		}
		if (!strcmp(trouble, "lie"))
			return 0;
		if (!strcmp(trouble, "sleep"))
			sleep((unsigned)atoi(getenv("TROUBLE_S")));
	}
	return (int)syscall(SYS_sched_setaffinity, pid, size, mask);
}
