/*
 * riscv64: 64-bit RISC-V with the A extension, and Zacas where the CPU has it. See native.h.
 *
 * Zacas is built whatever -march says: written by its encoding, because assemblers before binutils
 * 2.42 do not know it. os_features() tells whether the CPU has it.
 */
#include "native.h"

const char arch_name[] = "riscv64";

/*
 * lr and sc without aq or rl: only the order of accesses to this one line matters. The line has its
 * page to itself, so nothing else falls into the reservation set and makes the sc fail.
 */
static __attribute__((noinline)) void riscv64_cas_lrsc(uint32_t *line, uint32_t from, uint32_t to,
						       uint32_t n)
{
	uint32_t seen, failed;

	__asm__ volatile(
		".p2align 5\n"
		"1:\n\t"
		"lr.w %[seen], %[line]\n\t"
		"bne %[seen], %[from], 1b\n\t"
		"sc.w %[failed], %[to], %[line]\n\t"
		"bnez %[failed], 1b\n\t"
		"addiw %[n], %[n], -1\n\t"
		"bnez %[n], 1b"
		: [line] "+A"(*line), [seen] "=&r"(seen), [failed] "=&r"(failed), [n] "+&r"(n)
		: [from] "r"(from), [to] "r"(to)
		: "memory");
}

/* .insn r: amocas.w seen, to, (line): opcode AMO, width W, funct5 00101 without aq and rl. */
static __attribute__((noinline)) void riscv64_cas_zacas(uint32_t *line, uint32_t from, uint32_t to,
							uint32_t n)
{
	uint32_t seen;

	__asm__ volatile(".p2align 5\n"
			 "1:\n\t"
			 "mv %[seen], %[from]\n\t"
			 ".insn r 0x2f, 0x2, 0x14, %[seen], %[line], %[to]\n\t"
			 "bne %[seen], %[from], 1b\n\t"
			 "addiw %[n], %[n], -1\n\t"
			 "bnez %[n], 1b"
			 : [seen] "=&r"(seen), [n] "+&r"(n)
			 : [from] "r"(from), [to] "r"(to), [line] "r"(line)
			 : "memory");
}

/* fence r,w: the store must not be seen before the load that ended the wait. */
static __attribute__((noinline)) void riscv64_readwrite_fence(uint32_t *watched, uint32_t *written,
							      uint32_t from, uint32_t to,
							      uint32_t n)
{
	uint32_t seen;

	__asm__ volatile(".p2align 5\n"
			 "1:\n\t"
			 "lw %[seen], %[watched]\n\t"
			 "bne %[seen], %[from], 1b\n\t"
			 "fence r, w\n\t"
			 "sw %[to], %[written]\n\t"
			 "xori %[from], %[from], 1\n\t"
			 "xori %[to], %[to], 1\n\t"
			 "addiw %[n], %[n], -1\n\t"
			 "bnez %[n], 1b"
			 : [watched] "+A"(*watched), [written] "+A"(*written), [seen] "=&r"(seen),
			   [from] "+&r"(from), [to] "+&r"(to), [n] "+&r"(n)
			 :
			 : "memory");
}

/* The next load waits for the value of the one before: no other instruction is in the chain. */
static __attribute__((noinline)) void *riscv64_chase_ld(void *line, uint32_t n16)
{
	__asm__ volatile(".p2align 5\n"
			 "1:\n\t"
			 ".rept 16\n\t"
			 "ld %[line], 0(%[line])\n\t"
			 ".endr\n\t"
			 "addiw %[n], %[n], -1\n\t"
			 "bnez %[n], 1b"
			 : [line] "+&r"(line), [n] "+&r"(n16)
			 :
			 : "memory");
	return line;
}

static void riscv64_adds(uint32_t n)
{
	uint64_t sum = n, step = n;

	__asm__ volatile(".p2align 5\n"
			 "1:\n\t"
			 ".rept 16\n\t"
			 "add %[sum], %[sum], %[step]\n\t"
			 ".endr\n\t"
			 "addiw %[n], %[n], -16\n\t"
			 "bnez %[n], 1b"
			 : [sum] "+&r"(sum), [n] "+&r"(n)
			 : [step] "r"(step));
}

const struct variant arch_cas[] = {
	{.name = "lrsc", .cas = riscv64_cas_lrsc},
	{.name = "zacas", .needs = FEATURE_ZACAS, .cas = riscv64_cas_zacas},
	{.name = NULL},
};

const struct variant arch_readwrite[] = {
	{.name = "fence", .readwrite = riscv64_readwrite_fence},
	{.name = NULL},
};

const struct variant arch_chase[] = {
	{.name = "ld", .chase = riscv64_chase_ld},
	{.name = NULL},
};

adds_fn *const arch_adds = riscv64_adds;

/*
 * Never rdcycle: it counts the CPU's own cycles, and Linux since 6.6 traps it. To fences a CSR is a
 * device that is read, hence the i (unprivileged spec, Zicsr, CSR access ordering).
 */
static uint64_t ticks_rdtime(void)
{
	uint64_t ticks;

	__asm__ volatile("fence rw, i\n\trdtime %0\n\tfence i, rw" : "=r"(ticks) : : "memory");
	return ticks;
}

int arch_clock(struct clock *clock)
{
	*clock = (struct clock){.name = "rdtime", .ticks = ticks_rdtime};
	return 0;
}
