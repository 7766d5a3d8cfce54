/* ppc64le: 64-bit POWER, little-endian. See native.h. */
#include "native.h"

const char arch_name[] = "ppc64le";

/* Without sync or isync: only the order of accesses to this one line matters. */
static __attribute__((noinline)) void ppc64le_cas_lwarx(uint32_t *line, uint32_t from, uint32_t to,
							uint32_t n)
{
	uint32_t seen;

	__asm__ volatile(".p2align 5\n"
			 "1:\n\t"
			 "lwarx %[seen], 0, %[line]\n\t"
			 "cmpw %[seen], %[from]\n\t"
			 "bne 1b\n\t"
			 "stwcx. %[to], 0, %[line]\n\t"
			 "bne 1b\n\t"
			 "addi %[n], %[n], -1\n\t"
			 "cmpwi %[n], 0\n\t"
			 "bne 1b"
			 : [seen] "=&r"(seen), [n] "+&b"(n)
			 : [from] "r"(from), [to] "r"(to), [line] "r"(line)
			 : "memory", "cr0");
}

/* lwsync: the store must not be seen before the load that ended the wait. */
static __attribute__((noinline)) void ppc64le_readwrite_lwsync(uint32_t *watched, uint32_t *written,
							       uint32_t from, uint32_t to,
							       uint32_t n)
{
	uint32_t seen;

	__asm__ volatile(".p2align 5\n"
			 "1:\n\t"
			 "lwz %[seen], 0(%[watched])\n\t"
			 "cmpw %[seen], %[from]\n\t"
			 "bne 1b\n\t"
			 "lwsync\n\t"
			 "stw %[to], 0(%[written])\n\t"
			 "xori %[from], %[from], 1\n\t"
			 "xori %[to], %[to], 1\n\t"
			 "addi %[n], %[n], -1\n\t"
			 "cmpwi %[n], 0\n\t"
			 "bne 1b"
			 : [seen] "=&r"(seen), [from] "+&r"(from), [to] "+&r"(to), [n] "+&b"(n)
			 : [watched] "b"(watched), [written] "b"(written)
			 : "memory", "cr0");
}

/* The next load waits for the value of the one before: no other instruction is in the chain. */
static __attribute__((noinline)) void *ppc64le_chase_ld(void *line, uint32_t n16)
{
	__asm__ volatile(".p2align 5\n"
			 "1:\n\t"
			 ".rept 16\n\t"
			 "ld %[line], 0(%[line])\n\t"
			 ".endr\n\t"
			 "addi %[n], %[n], -1\n\t"
			 "cmpwi %[n], 0\n\t"
			 "bne 1b"
			 : [line] "+&b"(line), [n] "+&b"(n16)
			 :
			 : "memory", "cr0");
	return line;
}

const struct variant arch_cas[] = {
	{.name = "lwarx", .cas = ppc64le_cas_lwarx},
	{.name = NULL},
};

const struct variant arch_readwrite[] = {
	{.name = "lwsync", .readwrite = ppc64le_readwrite_lwsync},
	{.name = NULL},
};

const struct variant arch_chase[] = {
	{.name = "ld", .chase = ppc64le_chase_ld},
	{.name = NULL},
};

/* An addition may take two cycles. */
adds_fn *const arch_adds = NULL;

/* The time base. isync: it may otherwise be read early, out of program order (Power ISA, book II).
 */
static uint64_t ticks_timebase(void)
{
	uint64_t ticks;

	__asm__ volatile("isync\n\tmftb %0\n\tisync" : "=r"(ticks) : : "memory");
	return ticks;
}

int arch_clock(struct clock *clock)
{
	*clock = (struct clock){.name = "timebase", .ticks = ticks_timebase};
	return 0;
}
