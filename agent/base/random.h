/* random.h: a small generator of our own, so that a seed means the same on every machine. */
#ifndef FLEET_BASE_RANDOM_H
#define FLEET_BASE_RANDOM_H

#include <stdint.h>

/* SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): a counter and a mixing function. */
struct random {
	uint64_t state;
};

/* Streams of one seed are independent; round r of a run draws from stream r. */
struct random random_start(uint64_t seed, uint64_t stream);

uint64_t random_next(struct random *random);

/* Uniform in 0 ... bound-1; bound >= 1. */
uint64_t random_below(struct random *random, uint64_t bound);

#endif
