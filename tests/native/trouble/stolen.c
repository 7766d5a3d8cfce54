/*
 * Preloaded into the agent: a hypervisor that has taken STOLEN_TICKS since boot, and leaves threads
 * RAN_PERCENT of the CPU time they really had, as long as the file STOLEN_WHILE is there, if one is
 * named. Without STOLEN_SCHEDSTAT no thread has an account.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

FILE *fopen(const char *path, const char *mode)
{
	FILE *(*real)(const char *, const char *) = dlsym(RTLD_NEXT, "fopen");

	if (strcmp(path, "/proc/stat"))
		return real(path, mode);
	FILE *file = tmpfile();

	fprintf(file, "cpu  4626385 2159420 1215195 1665844 68188 0 28514 %s 0 0\ncpu0 0\n",
		getenv("STOLEN_TICKS"));
	rewind(file);
	return file;
}

int open(const char *path, int flags, ...)
{
	va_list args;

	va_start(args, flags);
	int mode = va_arg(args, int);
	va_end(args);
	if (strstr(path, "schedstat") && !getenv("STOLEN_SCHEDSTAT")) {
		errno = ENOENT;
		return -1;
	}
	return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

static int is_stealing(void)
{
	const char *file = getenv("STOLEN_WHILE");

	return !file || !syscall(SYS_faccessat, AT_FDCWD, file, F_OK);
}

int clock_gettime(clockid_t which, struct timespec *now)
{
	if (syscall(SYS_clock_gettime, which, now))
		return -1;
	if ((which == CLOCK_THREAD_CPUTIME_ID || which < 0) && is_stealing()) { /* < 0: of another */
		long ns = (now->tv_sec * 1000000000l + now->tv_nsec) * atol(getenv("RAN_PERCENT")) / 100;

		now->tv_sec = ns / 1000000000;
		now->tv_nsec = ns % 1000000000;
	}
	return 0;
}
