/*
 * i386: 32-bit x86, in fact anything since the i486, which brought cmpxchg. See native.h.
 *
 * ebx is left free, because position-independent code of older compilers keeps it for itself, and
 * ebp and esp are the frame's. So a loop has five registers, and compares with memory directly.
 */
#include "native.h"
#include "x86_tsc.h"

const char arch_name[] = "i386";

/* As on x86_64: a failed cmpxchg leaves the value it saw in eax, hence the reload on every turn. */
static __attribute__((noinline)) void i386_cas_cmpxchg(uint32_t *line, uint32_t from, uint32_t to,
						       uint32_t n)
{
	uint32_t expected;

	__asm__ volatile(".p2align 5\n"
			 "1:\n\t"
			 "mov %[from], %[expected]\n\t"
			 "lock cmpxchg %[to], (%[line])\n\t"
			 "jne 1b\n\t"
			 "dec %[n]\n\t"
			 "jne 1b"
			 : [expected] "=&a"(expected), [n] "+&c"(n)
			 : [from] "d"(from), [to] "S"(to), [line] "D"(line)
			 : "memory", "cc");
}

/* Loads and stores are ordered as written on x86 (a store never passes an older load): no fence. */
static __attribute__((noinline)) void i386_readwrite_mov(uint32_t *watched, uint32_t *written,
							 uint32_t from, uint32_t to, uint32_t n)
{
	__asm__ volatile(".p2align 5\n"
			 "1:\n\t"
			 "cmp %[from], (%[watched])\n\t"
			 "jne 1b\n\t"
			 "mov %[to], (%[written])\n\t"
			 "xor $1, %[from]\n\t"
			 "xor $1, %[to]\n\t"
			 "dec %[n]\n\t"
			 "jne 1b"
			 : [from] "+&d"(from), [to] "+&a"(to), [n] "+&c"(n)
			 : [watched] "S"(watched), [written] "D"(written)
			 : "memory", "cc");
}

/* The next load waits for the value of the one before: no other instruction is in the chain. */
static __attribute__((noinline)) void *i386_chase_mov(void *line, uint32_t n16)
{
	__asm__ volatile(".p2align 5\n"
			 "1:\n\t"
			 ".rept 16\n\t"
			 "mov (%[line]), %[line]\n\t"
			 ".endr\n\t"
			 "dec %[n]\n\t"
			 "jne 1b"
			 : [line] "+&r"(line), [n] "+&r"(n16)
			 :
			 : "memory", "cc");
	return line;
}

static void i386_adds(uint32_t n)
{
	uint32_t sum = n, step = n;

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
	{.name = "cmpxchg", .cas = i386_cas_cmpxchg},
	{.name = NULL},
};

const struct variant arch_readwrite[] = {
	{.name = "mov", .readwrite = i386_readwrite_mov},
	{.name = NULL},
};

const struct variant arch_chase[] = {
	{.name = "mov", .chase = i386_chase_mov},
	{.name = NULL},
};

adds_fn *const arch_adds = i386_adds;

int arch_clock(struct clock *clock)
{
	return tsc_clock(clock);
}
