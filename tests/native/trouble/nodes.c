/*
 * Preloaded into the agent: a machine with other NUMA nodes. What it reads of nodes lies below
 * NODES in place of /sys/devices/system/. Variables of the environment:
 *
 *	NODES_ALLOWED  where memory may be placed: a list like 0,1
 *	ASTRAY         NODE:COUNT:LOOK: so many of the pages placed on NODE lie on the next node,
 *from the LOOK-th time on that somebody asks about them; the first is 1
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#define REAL "/sys/devices/system/"

static struct range {
	char *start;
	unsigned long bytes;
	int node, looks;
} ranges[4096];
static size_t range_count;

FILE *fopen(const char *path, const char *mode)
{
	FILE *(*real)(const char *, const char *) = dlsym(RTLD_NEXT, "fopen");
	char moved[512];

	if (strncmp(path, REAL, strlen(REAL)) || !strstr(path, "/node"))
		return real(path, mode);
	snprintf(moved, sizeof moved, "%s/%s", getenv("NODES"), path + strlen(REAL));
	return real(moved, mode);
}

static long place(char *start, unsigned long bytes, const unsigned long *mask)
{
	struct range *range = &ranges[range_count++ % 4096];

	*range = (struct range){start, bytes, 0, 0};
	while (!(mask[range->node / 64] >> range->node % 64 & 1))
		range->node++;
	return 0;
}

static struct range *range_of(const char *page)
{
	for (size_t i = range_count; i-- > 0;)
		if (page >= ranges[i].start && page < ranges[i].start + ranges[i].bytes)
			return &ranges[i];
	return NULL;
}

static long look(unsigned long count, char **pages, int *nodes)
{
	int node = -1, astray = 0, from = 0;

	if (getenv("ASTRAY"))
		sscanf(getenv("ASTRAY"), "%d:%d:%d", &node, &astray, &from);
	for (unsigned long i = 0; i < count; i++) {
		struct range *range = range_of(pages[i]);

		nodes[i] = range ? range->node : 0;
		if (!range)
			continue;
		range->looks += (count > 1 || range->bytes < 2ul << 20) && pages[i] == range->start;
		if (range->node == node && range->looks >= from &&
		    (unsigned long)(pages[i] - range->start) < astray * (2ul << 20))
			nodes[i]++;
	}
	return 0;
}

static long allowed(unsigned long *mask)
{
	const char *at = getenv("NODES_ALLOWED");

	for (char *end; *at; at = *end ? end + 1 : end) {
		unsigned long node = strtoul(at, &end, 10);

		mask[node / 64] |= 1ul << node % 64;
	}
	return 0;
}

long syscall(long number, ...)
{
	long (*real)(long, ...) = dlsym(RTLD_NEXT, "syscall");
	long a[6];
	va_list args;

	va_start(args, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(args, long);
	va_end(args);
	return number == SYS_mbind && a[1]
		       ? place((char *)a[0], (unsigned long)a[1], (unsigned long *)a[3])
	       : number == SYS_move_pages    ? look((unsigned long)a[1], (char **)a[2], (int *)a[4])
	       : number == SYS_get_mempolicy ? allowed((unsigned long *)a[1])
					     : real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
