/* random.c: the generator of random.h. */
#include "base/random.h"

#define GOLDEN_GAMMA 0x9e3779b97f4a7c15u

static uint64_t mix_bits(uint64_t z)
{
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

struct random random_start(uint64_t seed, uint64_t stream)
{
	return (struct random){mix_bits(mix_bits(seed) + (stream + 1) * GOLDEN_GAMMA)};
}

uint64_t random_next(struct random *random)
{
	random->state += GOLDEN_GAMMA;
	return mix_bits(random->state);
}

/* Draws again below the largest multiple of bound, so that no value is favoured. */
uint64_t random_below(struct random *random, uint64_t bound)
{
	uint64_t unfair = (UINT64_MAX - bound + 1) % bound;
	uint64_t drawn;

	do {
		drawn = random_next(random);
	} while (drawn < unfair);
	return drawn % bound;
}
