/*
 * loongarch64: 64-bit LoongArch, and the atomic compare-and-swap of its version 1.1 where the CPU
 * has it. See native.h.
 */
#include "native.h"

const char arch_name[] = "loongarch64";

/* sc.w replaces the value to store by whether it was stored: hence the copy on every turn. */
static __attribute__((noinline)) void loongarch64_cas_llsc(uint32_t *line, uint32_t from,
							   uint32_t to, uint32_t n)
{
	uint32_t seen, stored;

	__asm__ volatile(".p2align 5\n"
			 "1:\n\t"
			 "ll.w %[seen], %[line], 0\n\t"
			 "bne %[seen], %[from], 1b\n\t"
			 "move %[stored], %[to]\n\t"
			 "sc.w %[stored], %[line], 0\n\t"
			 "beqz %[stored], 1b\n\t"
			 "addi.w %[n], %[n], -1\n\t"
			 "bnez %[n], 1b"
			 : [seen] "=&r"(seen), [stored] "=&r"(stored), [n] "+&r"(n)
			 : [from] "r"(from), [to] "r"(to), [line] "r"(line)
			 : "memory");
}

/* The word is `amcas.w $t0, $t1, $t2`, written so because assemblers before 2.41 do not know it. */
static __attribute__((noinline)) void loongarch64_cas_amcas(uint32_t *line, uint32_t from,
							    uint32_t to, uint32_t n)
{
	register uint32_t *line_in_t2 __asm__("$r14") = line;
	register uint32_t to_in_t1 __asm__("$r13") = to;
	register uint32_t seen_in_t0 __asm__("$r12");

	__asm__ volatile(".p2align 5\n"
			 "1:\n\t"
			 "move %[seen], %[from]\n\t"
			 ".word 0x38590000 | 13 << 10 | 14 << 5 | 12\n\t"
			 "bne %[seen], %[from], 1b\n\t"
			 "addi.w %[n], %[n], -1\n\t"
			 "bnez %[n], 1b"
			 : [seen] "=&r"(seen_in_t0), [n] "+&r"(n)
			 : [from] "r"(from), "r"(to_in_t1), "r"(line_in_t2)
			 : "memory");
}

/* dbar 0x12 orders what stands before it with the stores behind it: a store-release's barrier. */
static __attribute__((noinline)) void loongarch64_readwrite_dbar(uint32_t *watched,
								 uint32_t *written, uint32_t from,
								 uint32_t to, uint32_t n)
{
	uint32_t seen;

	__asm__ volatile(".p2align 5\n"
			 "1:\n\t"
			 "ld.w %[seen], %[watched], 0\n\t"
			 "bne %[seen], %[from], 1b\n\t"
			 "dbar 0x12\n\t"
			 "st.w %[to], %[written], 0\n\t"
			 "xori %[from], %[from], 1\n\t"
			 "xori %[to], %[to], 1\n\t"
			 "addi.w %[n], %[n], -1\n\t"
			 "bnez %[n], 1b"
			 : [seen] "=&r"(seen), [from] "+&r"(from), [to] "+&r"(to), [n] "+&r"(n)
			 : [watched] "r"(watched), [written] "r"(written)
			 : "memory");
}

/* The next load waits for the value of the one before: no other instruction is in the chain. */
static __attribute__((noinline)) void *loongarch64_chase_ld(void *line, uint32_t n16)
{
	__asm__ volatile(".p2align 5\n"
			 "1:\n\t"
			 ".rept 16\n\t"
			 "ld.d %[line], %[line], 0\n\t"
			 ".endr\n\t"
			 "addi.w %[n], %[n], -1\n\t"
			 "bnez %[n], 1b"
			 : [line] "+&r"(line), [n] "+&r"(n16)
			 :
			 : "memory");
	return line;
}

static void loongarch64_adds(uint32_t n)
{
	uint64_t sum = n, step = n;

	__asm__ volatile(".p2align 5\n"
			 "1:\n\t"
			 ".rept 16\n\t"
			 "add.d %[sum], %[sum], %[step]\n\t"
			 ".endr\n\t"
			 "addi.w %[n], %[n], -16\n\t"
			 "bnez %[n], 1b"
			 : [sum] "+&r"(sum), [n] "+&r"(n)
			 : [step] "r"(step));
}

const struct variant arch_cas[] = {
	{.name = "llsc", .cas = loongarch64_cas_llsc},
	{.name = "amcas", .needs = FEATURE_LAM_CAS, .cas = loongarch64_cas_amcas},
	{.name = NULL},
};

const struct variant arch_readwrite[] = {
	{.name = "dbar", .readwrite = loongarch64_readwrite_dbar},
	{.name = NULL},
};

const struct variant arch_chase[] = {
	{.name = "ld", .chase = loongarch64_chase_ld},
	{.name = NULL},
};

adds_fn *const arch_adds = loongarch64_adds;

/* The stable counter: one rate in all states, the same on all CPUs. */
static uint64_t ticks_rdtime(void)
{
	uint64_t ticks;

	__asm__ volatile("dbar 0\n\trdtime.d %0, $zero\n\tdbar 0" : "=r"(ticks) : : "memory");
	return ticks;
}

static uint32_t cpucfg(uint32_t word)
{
	uint32_t value;

	__asm__("cpucfg %0, %1" : "=r"(value) : "r"(word));
	return value;
}

/* CPUCFG 4 is the crystal's frequency, 5 holds multiplier and divisor; zeros: to be measured. */
int arch_clock(struct clock *clock)
{
	uint32_t crystal = cpucfg(4), multiplier = cpucfg(5) & 0xffff, divisor = cpucfg(5) >> 16;

	*clock = (struct clock){.name = "rdtime", .ticks = ticks_rdtime};
	if (divisor)
		clock->ticks_per_second = (uint64_t)crystal * multiplier / divisor;
	return 0;
}
