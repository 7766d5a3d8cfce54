/* again.h: the bursts that other work disturbed, which are taken again. */
#ifndef FLEET_RUN_AGAIN_H
#define FLEET_RUN_AGAIN_H

#include <stddef.h>
#include <stdint.h>

/* A burst to take: of which visit, in which round, after how many that were disturbed. */
struct attempt {
	uint32_t visit; /* index in the plan's visits */
	uint32_t round;
	uint32_t number; /* 0: the first of its visit and round */
};

/* Attempts that are due, in the order in which they became so. */
struct again {
	struct attempt *list;
	size_t count, room;
};

/* Adds the attempt after this one, which was disturbed. Returns 0 or -ENOMEM. */
int again_add_next(struct again *again, struct attempt attempt);

/* Adds an attempt that is still due. Returns 0 or -ENOMEM. */
int again_add(struct again *again, struct attempt attempt);

/* Empties the list, and frees its memory. */
void again_clear(struct again *again);

#endif
