/*
 * Preloaded into the agent: what it reads and writes below /sys/devices/system/cpu/ lies below
 * SYSFS instead, a tree of the test's own.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define REAL "/sys/devices/system/cpu/"

static const char *moved(const char *path, char room[512])
{
	if (strncmp(path, REAL, strlen(REAL)))
		return path;
	snprintf(room, 512, "%s/%s", getenv("SYSFS"), path + strlen(REAL));
	return room;
}

int access(const char *path, int mode)
{
	char room[512];

	return faccessat(AT_FDCWD, moved(path, room), mode, 0);
}

int open(const char *path, int flags, ...)
{
	char room[512];
	va_list args;

	va_start(args, flags);
	mode_t mode = flags & O_CREAT ? va_arg(args, mode_t) : 0;
	va_end(args);
	return openat(AT_FDCWD, moved(path, room), flags, mode);
}

FILE *fopen(const char *path, const char *mode)
{
	FILE *(*real)(const char *, const char *) = dlsym(RTLD_NEXT, "fopen");
	char room[512];

	return real(moved(path, room), mode);
}
