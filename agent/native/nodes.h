/* nodes.h: NUMA nodes, and the pages on them; a part of native.h. */
#ifndef FLEET_NATIVE_NODES_H
#define FLEET_NATIVE_NODES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Has pages that are not touched yet placed on this node. */
int os_pages_bind(void *start, size_t bytes, int node);

/* Asks where at most PAGES_ASKED touched pages lie, `step` bytes apart: room for a node each. What
 * is negative is an errno of its page. */
enum { PAGES_ASKED = 512 };
int os_pages_where(char *start, size_t count, size_t step, int *nodes);

/* A NUMA node with memory. */
enum { NODES_MOST = 64, NODE_NUMBERS = 1024 };

struct node {
	int number;
	bool allowed;       /* this process may place pages there */
	int64_t free_bytes; /* UNKNOWN: not told */
};

/* Those there are, ascending; 0: the OS tells of none. */
size_t os_nodes(struct node nodes[NODES_MOST]);

#endif
