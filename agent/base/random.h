/* random.h: a generator of our own, so that a seed gives the same numbers on every machine. */
#ifndef FLEET_BASE_RANDOM_H
#define FLEET_BASE_RANDOM_H

#include <stdint.h>

/* SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): a counter and a mixing function. */
struct random {
	uint64_t state;
};

/* Returns the generator of a stream. Streams of one seed are independent; round r of a run draws
 * from stream r. */
struct random random_start(uint64_t seed, uint64_t stream);

/* Draws 64 random bits. */
uint64_t random_next(struct random *random);

/* Draws a number from 0 to bound - 1; bound >= 1. */
uint64_t random_below(struct random *random, uint64_t bound);

#endif
