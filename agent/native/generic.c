/*
 * The variant `c11`: what the compiler makes of C's atomics. Always built, a cross-check for the
 * asm and the fallback where there is none; a variant of its own, since compiler and flags decide
 * its loop. Builtins instead of stdatomic.h: older compilers have only these.
 */
#include "native.h"

static __attribute__((noinline)) void generic_cas_c11(uint32_t *line, uint32_t from, uint32_t to,
						      uint32_t n)
{
	uint32_t expected;

	while (n--) {
		do {
			expected = from;
		} while (!__atomic_compare_exchange_n(line, &expected, to, 0, __ATOMIC_RELAXED,
						      __ATOMIC_RELAXED));
	}
}

static __attribute__((noinline)) void generic_readwrite_c11(uint32_t *watched, uint32_t *written,
							    uint32_t from, uint32_t to, uint32_t n)
{
	while (n--) {
		while (__atomic_load_n(watched, __ATOMIC_ACQUIRE) != from)
			;
		__atomic_store_n(written, to, __ATOMIC_RELEASE);
		from ^= 1;
		to ^= 1;
	}
}

static __attribute__((noinline)) void *generic_chase_c11(void *line, uint32_t n16)
{
	while (n16--)
		for (int i = 0; i < 16; i++)
			line = *(void *volatile *)line;
	return line;
}

const struct variant generic_cas[] = {
	{.name = "c11", .cas = generic_cas_c11},
	{.name = NULL},
};

const struct variant generic_readwrite[] = {
	{.name = "c11", .readwrite = generic_readwrite_c11},
	{.name = NULL},
};

const struct variant generic_chase[] = {
	{.name = "c11", .chase = generic_chase_c11},
	{.name = NULL},
};
