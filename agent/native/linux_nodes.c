/* Linux: NUMA nodes, and the pages on them, by the kernel's own calls. See native.h. */
#define _GNU_SOURCE
#include "linux.h"
#include "native.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NODES "/sys/devices/system/node/"

/* As <linux/mempolicy.h> numbers them, a header that a C library need not bring. */
enum {
	POLICY_DEFAULT = 0,
	POLICY_BIND = 2,
	POLICY_ALLOWED = 1 << 2,
	BITS_PER_LONG = 8 * sizeof(unsigned long)
};

struct mask {
	unsigned long bits[NODE_NUMBERS / BITS_PER_LONG];
};

/* Reads the nodes that pages may be placed on; -errno, and no nodes, if a call is refused. mbind()
 * of no bytes changes nothing: it only shows whether it is refused. */
static int read_allowed_nodes(struct mask *allowed)
{
	if (syscall(SYS_get_mempolicy, NULL, allowed->bits, NODE_NUMBERS, NULL, POLICY_ALLOWED) ||
	    syscall(SYS_mbind, NULL, 0ul, POLICY_DEFAULT, NULL, 0ul, 0)) {
		*allowed = (struct mask){0};
		return -errno;
	}
	return 0;
}

static bool has_node(const struct mask *mask, long node)
{
	return mask->bits[node / BITS_PER_LONG] >> node % BITS_PER_LONG & 1;
}

/* The kernel takes one bit less than it is given (mbind(2), set_mempolicy(2)): hence the + 1. */
int os_pages_bind(void *start, size_t bytes, int node)
{
	struct mask wanted = {0};

	wanted.bits[node / BITS_PER_LONG] = 1ul << node % BITS_PER_LONG;
	return syscall(SYS_mbind, start, bytes, POLICY_BIND, wanted.bits, NODE_NUMBERS + 1ul, 0)
		       ? -errno
		       : 0;
}

/* move_pages(2) with no target nodes moves nothing and reports where each page is. */
int os_pages_find_nodes(char *start, size_t count, size_t step, int *nodes)
{
	void *pages[PAGES_ASKED];

	for (size_t i = 0; i < count; i++)
		pages[i] = start + i * step;
	return syscall(SYS_move_pages, 0, count, pages, NULL, nodes, 0) ? -errno : 0;
}

static int64_t read_free_bytes(int node)
{
	char path[64], line[128];
	int64_t kib = 0;
	int found = 0;

	snprintf(path, sizeof path, NODES "node%d/meminfo", node);
	FILE *file = fopen(path, "re");

	while (file && !found && fgets(line, sizeof line, file))
		found = sscanf(line, "Node %*d MemFree: %" SCNd64, &kib) == 1;
	if (file)
		fclose(file);
	return found ? kib * 1024 : UNKNOWN;
}

/* has_memory is a list like 0-1,3: Documentation/ABI/stable/sysfs-devices-node. */
size_t os_list_nodes(struct node nodes[NODES_MOST])
{
	char line[256] = "", *cursor = line;
	struct mask allowed = {0};
	int err = read_allowed_nodes(&allowed);
	size_t count = 0;

	linux_read_line(NODES "has_memory", line, sizeof line);
	for (; *cursor >= '0' && *cursor <= '9'; cursor += *cursor == ',') {
		long number = strtol(cursor, &cursor, 10);
		long last = *cursor == '-' ? strtol(cursor + 1, &cursor, 10) : number;

		for (; number <= last && number < NODE_NUMBERS && count < NODES_MOST; number++)
			nodes[count++] = (struct node){.number = (int)number,
						       .allowed = has_node(&allowed, number),
						       .free_bytes = read_free_bytes((int)number),
						       .error = err};
	}
	return count;
}
