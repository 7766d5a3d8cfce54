/* operations.h: what loops do, and the types of those for words that many want; for native.h. */
#ifndef FLEET_OPERATIONS_H
#define FLEET_OPERATIONS_H

#ifndef __ATOMIC_RELAXED
#error "the agent needs GCC or clang: this compiler has no __atomic built-in functions"
#endif

#include <stdint.h>

/* Operations of a loop on memory; nt: past the caches. */
enum operation {
	OPERATION_READ,
	OPERATION_WRITE,
	OPERATION_NT,
	OPERATION_ZERO,
	OPERATION_MODIFY,
	OPERATION_COPY,
	OPERATION_NTCOPY,
	OPERATION_SWAP, /* of single lines only, as all that follow */
	OPERATION_FAA,
	OPERATION_CAS,
	OPERATION_STORE,
	OPERATION_TURN,
	OPERATION_TICKET, /* locks, as the next one */
	OPERATION_MCS,
	OPERATION_MIX, /* of loaded, as the next one: two of three parts read, one written */
	OPERATION_IDLE,
	OPERATION_WATCH, /* of sharing, as the next one */
	OPERATION_WATCH_ALL,
	OPERATIONS
};

/* Adds 1 to a word n times, n >= 1, while other threads may do the same. Where a try may fail,
 * returns how many it took; else the result means nothing. */
typedef uint32_t add_fn(uint32_t *word, uint32_t n);

/* Stores `value`, `value` + 1, ... in a word, n values, n >= 1. Where each is exchanged for what
 * the word held, returns the sum of what it held; else the result means nothing. */
typedef uint32_t put_fn(uint32_t *word, uint32_t value, uint32_t n);

/* A lock and the word that it guards, in one line, all 0 at first; each thread has a node. */
struct lock_node {
	struct lock_node *next;
	uint32_t waits;
};
struct lock {
	uint32_t taken, serving; /* of a ticket lock */
	uint32_t word;
	struct lock_node *last; /* of a queue */
};

/* Takes the lock, adds 1 to the word by a plain load and store, and gives it back, n times. */
typedef void lock_fn(struct lock *lock, struct lock_node *own, uint32_t n);

#endif
