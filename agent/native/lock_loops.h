/* lock_loops.h: a ticket lock and the queue lock of Mellor-Crummey and Scott, for native/<arch>.c
 * and generic.c. LOCKS(arch, name, prefix, pause) defines both by prefix_add(), prefix_swap() and
 * prefix_change(), a compare-and-swap; a thread that waits does `pause` in each turn. */
#ifndef FLEET_LOCK_LOOPS_H
#define FLEET_LOCK_LOOPS_H

#include "native.h"

/* C's own atomics, for the locks of every architecture. */
#define builtin_add(word, n)    __atomic_fetch_add(word, n, __ATOMIC_ACQ_REL)
#define builtin_swap(word, new) __atomic_exchange_n(word, new, __ATOMIC_ACQ_REL)
#define builtin_change(word, old, new)                                                             \
	__atomic_compare_exchange_n(word, &(struct lock_node *){old}, new, 0, __ATOMIC_ACQ_REL,    \
				    __ATOMIC_RELAXED)

#define COUNT_UP(word)                                                                             \
	__atomic_store_n(word, __atomic_load_n(word, __ATOMIC_RELAXED) + 1, __ATOMIC_RELAXED)

/* A ticket that is past counts as served, and a node may be its own next: so the supervisor can let
 * all go on, whoever is missing. */
#define LOCKS(arch, name, prefix, pause)                                                           \
	TIMED void arch##_ticket_##name(struct lock *lock, struct lock_node *own, uint32_t n)      \
	{                                                                                          \
		(void)own;                                                                         \
		while (n--) {                                                                      \
			uint32_t mine = prefix##_add(&lock->taken, 1);                             \
                                                                                                   \
			while ((int32_t)(__atomic_load_n(&lock->serving, __ATOMIC_ACQUIRE) -       \
					 mine) < 0)                                                \
				pause;                                                             \
			COUNT_UP(&lock->word);                                                     \
			__atomic_store_n(&lock->serving, mine + 1, __ATOMIC_RELEASE);              \
		}                                                                                  \
	}                                                                                          \
	TIMED void arch##_mcs_##name(struct lock *lock, struct lock_node *own, uint32_t n)         \
	{                                                                                          \
		while (n--) {                                                                      \
			struct lock_node *before, *next = NULL;                                    \
                                                                                                   \
			__atomic_store_n(&own->next, next, __ATOMIC_RELAXED);                      \
			__atomic_store_n(&own->waits, 1, __ATOMIC_RELAXED);                        \
			before = prefix##_swap(&lock->last, own);                                  \
			if (before)                                                                \
				__atomic_store_n(&before->next, own, __ATOMIC_RELEASE);            \
			while (before && __atomic_load_n(&own->waits, __ATOMIC_ACQUIRE))           \
				pause;                                                             \
			COUNT_UP(&lock->word);                                                     \
			next = __atomic_load_n(&own->next, __ATOMIC_ACQUIRE);                      \
			if (!next && prefix##_change(&lock->last, own, NULL))                      \
				continue;                                                          \
			while (!next) {                                                            \
				pause;                                                             \
				next = __atomic_load_n(&own->next, __ATOMIC_ACQUIRE);              \
			}                                                                          \
			__atomic_store_n(&next->waits, 0, __ATOMIC_RELEASE);                       \
		}                                                                                  \
	}

#endif
