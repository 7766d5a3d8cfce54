/*
 * Preloaded into the agent: what it reads below /proc/self, /sys/fs/cgroup and /sys/kernel/mm
 * lies below TREE instead, a tree of the test's own; statm and smaps stay its own. The pool of huge
 * pages is empty, and who asks for some says so.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char *moved(const char *path, char room[2048])
{
	if (strncmp(path, "/sys/fs/cgroup", 14) && strncmp(path, "/sys/kernel/mm", 14) &&
	    strncmp(path, "/proc/self/mountinfo", 20) && strncmp(path, "/proc/self/cgroup", 17))
		return path;
	snprintf(room, 2048, "%s%s", getenv("TREE"), path);
	return room;
}

int access(const char *path, int mode)
{
	char room[2048];

	return faccessat(AT_FDCWD, moved(path, room), mode, 0);
}

FILE *fopen(const char *path, const char *mode)
{
	FILE *(*real)(const char *, const char *) = dlsym(RTLD_NEXT, "fopen");
	char room[2048];

	return real(moved(path, room), mode);
}

void *mmap(void *start, size_t length, int access, int flags, int file, off_t offset)
{
	if (flags & MAP_HUGETLB)
		fputs("asks the pool\n", stderr);
	return (void *)syscall(SYS_mmap, start, length, access, flags & MAP_HUGETLB ? 0 : flags,
			       file, offset);
}
