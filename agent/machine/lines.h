/* lines.h: the cache lines of a burst, and where they lie. */
#ifndef FLEET_MACHINE_LINES_H
#define FLEET_MACHINE_LINES_H

#include "base/random.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LINES_MAX = 2 };

/* Where the lines of a run are wanted. */
struct placement {
	bool fixed;                /* all bursts have the same lines, instead of fresh ones */
	bool owner_pong;           /* pong touches them first, instead of ping */
	bool huge_page;            /* in one huge page */
	int node;                  /* NUMA node; -1: where the owner's touch puts them */
	uint32_t separation_bytes; /* of two lines; 0: in different pages at different offsets */
};

/* The lines of one burst. */
struct lines {
	void *start; /* of the mapping */
	size_t bytes;
	uint32_t *line[LINES_MAX];
	size_t count;
	bool is_fixed; /* kept for the whole run */
};

/* Where one line was found to lie. */
struct line_place {
	uint64_t page;     /* virtual address of its page, divided by the page size */
	size_t offset;     /* in that page */
	int node;          /* -1: unknown */
	uint64_t physical; /* number of its physical page; 0: unknown */
};

/* Maps lines that no thread has touched yet, unless they are fixed, and chooses their places. Two
 * lines have different offsets unless their distance was asked for: equal low address bits make a
 * load wait for an unrelated store. Returns 0 or -errno. */
int lines_map(struct lines *lines, size_t count, const struct placement *placement,
	      struct random *random);

/* Keeps the pages mapped for a while, so that the kernel does not hand out the same ones again. */
void lines_retire(struct lines *lines);

/* Leaves the lines to a thread that may still write to them. */
void lines_abandon(struct lines *lines);

/* Returns where a touched line lies. */
struct line_place line_locate(const void *line);

/* Reports whether all lines lie where they were wanted. If not, says in words where they are. */
bool lines_check_placement(const struct lines *lines, const struct placement *placement,
			   char *words, size_t room);

/* Tries to map a huge page; returns 0 or -errno. */
int lines_try_huge_page(void);

#endif
