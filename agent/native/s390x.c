/* s390x: 64-bit IBM Z, big-endian. See native.h. */
#include "native.h"

const char arch_name[] = "s390x";

/* cs leaves the value it saw in its first register: hence the reload on every turn. */
static __attribute__((noinline)) void s390x_cas_cs(uint32_t *line, uint32_t from, uint32_t to,
						   uint32_t n)
{
	uint32_t expected;

	__asm__ volatile(".p2align 5\n"
			 "1:\n\t"
			 "lr %[expected], %[from]\n\t"
			 "cs %[expected], %[to], %[line]\n\t"
			 "jne 1b\n\t"
			 "brct %[n], 1b"
			 : [line] "+Q"(*line), [expected] "=&d"(expected), [n] "+&d"(n)
			 : [from] "d"(from), [to] "d"(to)
			 : "memory", "cc");
}

/* A store never passes an older load (Principles of Operation, storage-operand order): no fence. */
static __attribute__((noinline)) void s390x_readwrite_st(uint32_t *watched, uint32_t *written,
							 uint32_t from, uint32_t to, uint32_t n)
{
	__asm__ volatile(".p2align 5\n"
			 "1:\n\t"
			 "c %[from], %[watched]\n\t"
			 "jne 1b\n\t"
			 "st %[to], %[written]\n\t"
			 "xilf %[from], 1\n\t"
			 "xilf %[to], 1\n\t"
			 "brct %[n], 1b"
			 : [watched] "+Q"(*watched), [written] "+Q"(*written), [from] "+&d"(from),
			   [to] "+&d"(to), [n] "+&d"(n)
			 :
			 : "memory", "cc");
}

/* The next load waits for the value of the one before: no other instruction is in the chain. */
static __attribute__((noinline)) void *s390x_chase_lg(void *line, uint32_t n16)
{
	__asm__ volatile(".p2align 5\n"
			 "1:\n\t"
			 ".rept 16\n\t"
			 "lg %[line], 0(%[line])\n\t"
			 ".endr\n\t"
			 "brct %[n], 1b"
			 : [line] "+&a"(line), [n] "+&d"(n16)
			 :
			 : "memory");
	return line;
}

const struct variant arch_cas[] = {
	{.name = "cs", .cas = s390x_cas_cs},
	{.name = NULL},
};

const struct variant arch_readwrite[] = {
	{.name = "st", .readwrite = s390x_readwrite_st},
	{.name = NULL},
};

const struct variant arch_chase[] = {
	{.name = "lg", .chase = s390x_chase_lg},
	{.name = NULL},
};

/* An addition may take two cycles. */
adds_fn *const arch_adds = NULL;

/* stckf does not serialize; `bcr 15,0` does, and holds the accesses on both sides of it apart. */
static uint64_t ticks_stckf(void)
{
	uint64_t ticks;

	__asm__ volatile("bcr 15,0\n\tstckf %0\n\tbcr 15,0" : "=Q"(ticks) : : "memory", "cc");
	return ticks;
}

/* Bit 51 of the clock counts microseconds on every model, so its last bit is 1/4096 of one. */
int arch_clock(struct clock *clock)
{
	*clock = (struct clock){
		.name = "stckf", .ticks_per_second = 4096000000u, .ticks = ticks_stckf};
	return 0;
}
