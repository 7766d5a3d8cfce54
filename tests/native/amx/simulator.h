/*
 * simulator.h: carries out tile instructions on any x86_64, with tiles or
 * without, from Intel's description of each (SDM 2A and 2B). The thread is
 * single-stepped: before a tile instruction would run, the handler does what it
 * would have done and goes on behind it. Whatever it does not know ends the
 * program with 99.
 */
#ifndef SIMULATOR_H
#define SIMULATOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* From here on, or no longer, tile instructions of this thread are simulated.
 */
void simulator_begin(void);
void simulator_end(void);

/* Counts how often each of these bytes is loaded. */
void simulator_watch(const void *memory, size_t bytes, uint8_t *loads);

/* Tile instructions carried out so far. */
long simulator_count(void);

/* Operations of all products so far: a product and its sum are two. */
long simulator_operations(void);

/*
 * The fewest products from one into a sum to the next into the same: a CPU
 * waits where that is less than a product takes.
 */
long simulator_apart(void);

enum { PREFETCHES_MOST = 1 << 16 };

/* Since simulator_begin(), into the caches from this level on; was this the line of that number? */
long simulator_prefetches(int level);
bool simulator_prefetched(int level, long number, const void *line);

#endif
