/* arena.h: large memory for threads: a stretch for a CPU, kind of page, NUMA node and round. */
#ifndef FLEET_MACHINE_ARENA_H
#define FLEET_MACHINE_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Points take their part of it from its start. */
struct arena {
	uint64_t key;        /* identifies the CPU or place in a group, kind of page and node */
	int node;            /* -1: none in particular */
	size_t wanted_bytes; /* the most that any visit takes */
	char *start;         /* null: not mapped in this round yet */
	size_t bytes;
	char *last_start; /* memory of the last round, kept so that this round gets other pages;
			     null: none */
	size_t last_bytes;
	bool huge_pages;
	size_t page_bytes;
	size_t written_bytes; /* from its start, by a thread on its CPU */
	bool checked;         /* it was found to lie in such pages */
	char astray[128];    /* which of its pages lie on other nodes; empty: none was seen there */
	void *cycle;         /* where a cycle of lines begins that it holds; null: it holds none */
	uint64_t cycle_kind; /* points with the same number may take it over */
};

/* Drops all reservations. */
void arena_clear_reservations(void);

/* Reserves so much of a CPU's arena for a visit. Returns 0 or -ENOMEM. */
int arena_reserve(int cpu, bool huge_pages, int node, size_t bytes);

/* Returns the bytes of all arenas, or of those on a node, in whole pages of these sizes. */
enum { ALL_NODES = -2 };
uint64_t arena_total_bytes(size_t page_bytes, size_t huge_page_bytes, int node);

/* From now on arenas outlive their round until the next are mapped: twice the memory is taken. */
void arena_enable_round_overlap(void);

/* Ends the arenas of a round; the next has other pages after arena_enable_round_overlap(). */
void arena_end_round(void);

/* Stores the reserved arena of a CPU in *arena, mapping it if needed. Returns 0 or -errno. */
int arena_acquire(int cpu, bool huge_pages, int node, struct arena **arena);

/* Writes the arena's next part, so that its pages exist, and near this thread. Each word gets the
 * address of its line: memory never written is one page of zeros, and zeros are treated apart.
 * Returns false once the first `wanted_bytes` are written. */
bool arena_write_more(struct arena *arena, size_t wanted_bytes);

/* If a node is wanted, notes in arena->astray which written pages do not lie on it. */
void arena_check_nodes(struct arena *arena);

/* Reports whether the arena was in the pages and on the node wanted, at every check so far. If not,
 * says so in `words`, and unmaps it. */
bool arena_check_placement(struct arena *arena, char *words, size_t room);

/* Leaves the arena to a thread that may still use it. */
void arena_abandon(struct arena *arena);

/* Unmaps memory; if that fails, ends the run. */
void arena_unmap(void *start, size_t bytes);

/* Reports whether memory in huge pages can be had, by trying it. */
bool arena_has_huge_pages(void);

#endif
