/* x86_64: what any 64-bit x86 CPU gives. See native.h. */
#include "native.h"
#include "x86_tsc.h"

const char arch_name[] = "x86_64";

/*
 * A failed cmpxchg takes the line exclusively as well, so a hand-off costs one transfer. It leaves
 * the value it saw in eax: hence the reload on every turn.
 */
static __attribute__((noinline)) void x86_64_cas_cmpxchg(uint32_t *line, uint32_t from, uint32_t to,
							 uint32_t n)
{
	uint32_t expected;

	__asm__ volatile(".p2align 5\n"
			 "1:\n\t"
			 "mov %[from], %[expected]\n\t"
			 "lock cmpxchg %[to], %[line]\n\t"
			 "jne 1b\n\t"
			 "dec %[n]\n\t"
			 "jne 1b"
			 : [line] "+m"(*line), [expected] "=&a"(expected), [n] "+&r"(n)
			 : [from] "r"(from), [to] "r"(to)
			 : "memory", "cc");
}

/*
 * Swaps blindly: storing `to` where `to` already stands changes nothing, and what comes back tells
 * whether it was our turn. The line moves as with cmpxchg; only the instruction differs.
 */
static __attribute__((noinline)) void x86_64_cas_xchg(uint32_t *line, uint32_t from, uint32_t to,
						      uint32_t n)
{
	uint32_t seen;

	__asm__ volatile(".p2align 5\n"
			 "1:\n\t"
			 "mov %[to], %[seen]\n\t"
			 "xchg %[seen], %[line]\n\t"
			 "cmp %[from], %[seen]\n\t"
			 "jne 1b\n\t"
			 "dec %[n]\n\t"
			 "jne 1b"
			 : [line] "+m"(*line), [seen] "=&r"(seen), [n] "+&r"(n)
			 : [from] "r"(from), [to] "r"(to)
			 : "memory", "cc");
}

/*
 * Test and test-and-set: the pre-read that cas leaves out. The line comes over shared, for the
 * load, and must be asked for again to be written: two transfers a hand-off.
 */
static __attribute__((noinline)) void x86_64_cas_ttas(uint32_t *line, uint32_t from, uint32_t to,
						      uint32_t n)
{
	uint32_t seen;

	__asm__ volatile(".p2align 5\n"
			 "1:\n\t"
			 "mov %[line], %[seen]\n\t"
			 "cmp %[from], %[seen]\n\t"
			 "jne 1b\n\t"
			 "lock cmpxchg %[to], %[line]\n\t"
			 "jne 1b\n\t"
			 "dec %[n]\n\t"
			 "jne 1b"
			 : [line] "+m"(*line), [seen] "=&a"(seen), [n] "+&r"(n)
			 : [from] "r"(from), [to] "r"(to)
			 : "memory", "cc");
}

/* Loads and stores are ordered as written on x86 (a store never passes an older load): no fence. */
static __attribute__((noinline)) void x86_64_readwrite_mov(uint32_t *watched, uint32_t *written,
							   uint32_t from, uint32_t to, uint32_t n)
{
	uint32_t seen;

	__asm__ volatile(".p2align 5\n"
			 "1:\n\t"
			 "mov %[watched], %[seen]\n\t"
			 "cmp %[from], %[seen]\n\t"
			 "jne 1b\n\t"
			 "mov %[to], %[written]\n\t"
			 "xor $1, %[from]\n\t"
			 "xor $1, %[to]\n\t"
			 "dec %[n]\n\t"
			 "jne 1b"
			 : [watched] "+m"(*watched), [written] "+m"(*written), [seen] "=&r"(seen),
			   [from] "+&r"(from), [to] "+&r"(to), [n] "+&r"(n)
			 :
			 : "memory", "cc");
}

/*
 * The next load waits for the value of the one before: the count is in no chain with it. One load,
 * since prefetchers follow the stride of each instruction, which is that of the lines only where
 * there is one.
 */
static __attribute__((noinline)) void *x86_64_chase_mov(void *line, uint32_t n16)
{
	uint64_t n = (uint64_t)n16 * 16;

	__asm__ volatile(".p2align 5\n"
			 "1:\n\t"
			 "mov (%[line]), %[line]\n\t"
			 "dec %[n]\n\t"
			 "jne 1b"
			 : [line] "+&r"(line), [n] "+&r"(n)
			 :
			 : "memory", "cc");
	return line;
}

/* Of two registers: an addition of a small constant may take no time (Golden Cove renames it). */
static void x86_64_adds(uint32_t n)
{
	uint64_t sum = n, step = n;

	__asm__ volatile(".p2align 5\n"
			 "1:\n\t"
			 ".rept 16\n\t"
			 "add %[step], %[sum]\n\t"
			 ".endr\n\t"
			 "sub $16, %[n]\n\t"
			 "jne 1b"
			 : [sum] "+&r"(sum), [n] "+&r"(n)
			 : [step] "r"(step)
			 : "cc");
}

const struct variant arch_cas[] = {
	{.name = "cmpxchg", .cas = x86_64_cas_cmpxchg},
	{.name = "xchg", .cas = x86_64_cas_xchg},
	{.name = "ttas", .cas = x86_64_cas_ttas},
	{.name = NULL},
};

const struct variant arch_readwrite[] = {
	{.name = "mov", .readwrite = x86_64_readwrite_mov},
	{.name = NULL},
};

const struct variant arch_chase[] = {
	{.name = "mov", .chase = x86_64_chase_mov},
	{.name = NULL},
};

adds_fn *const arch_adds = x86_64_adds;

int arch_clock(struct clock *clock)
{
	return tsc_clock(clock);
}
