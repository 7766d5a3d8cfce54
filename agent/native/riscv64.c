/* riscv64: 64-bit RISC-V with the A extension, and Zacas where the CPU has it. See native.h.
 *
 * Zacas is built whatever -march says: written by its encoding, because assemblers before binutils
 * 2.42 do not know it. os_features() tells whether the CPU has it. */
#define POINTER    "r"
#define LINE(line) "+A"(*(line))
#define AGAIN      "addiw %[n], %[n], -1\n\tbnez %[n], 1b"

#include "core_loops.h"

const char arch_name[] = "riscv64";

/* lr and sc without aq or rl: only the order of accesses to this one line matters. The line has its
 * page to itself, so nothing else falls into the reservation set and makes the sc fail. */
CAS(riscv64_cas_lrsc, "lr.w %[seen], %[line]\n\t"
		      "bne %[seen], %[from], 1b\n\t"
		      "sc.w %[status], %[to], %[line]\n\t"
		      "bnez %[status], 1b")

/* .insn r: amocas.w seen, to, (line): opcode AMO, width W, funct5 00101 without aq and rl. */
TIMED void riscv64_cas_zacas(uint32_t *line, uint32_t from, uint32_t to, uint32_t n)
{
	uint32_t seen;

	__asm__ volatile(".p2align 5\n"
			 "1:\n\t"
			 "mv %[seen], %[from]\n\t"
			 ".insn r 0x2f, 0x2, 0x14, %[seen], %[line], %[to]\n\t"
			 "bne %[seen], %[from], 1b\n\t" AGAIN
			 : [seen] "=&r"(seen), [n] "+&r"(n)
			 : [from] "r"(from), [to] "r"(to), [line] "r"(line)
			 : "memory");
}

#define HAND_OVER(barrier)                                                                         \
	"lw %[seen], %[watched]\n\t"                                                               \
	"bne %[seen], %[from], 1b\n\t" barrier "sw %[to], %[written]\n\t"                          \
	"xori %[from], %[from], 1\n\t"                                                             \
	"xori %[to], %[to], 1"

/* The branch orders the store (unprivileged spec, RVWMO, preserved program order, rule 11). */
READWRITE(riscv64_readwrite_lw, HAND_OVER(""))
READWRITE(riscv64_readwrite_fence, HAND_OVER("fence r, w\n\t"))

CHASE(riscv64_chase_ld, "ld %[line], 0(%[line])")

ADDS(riscv64_adds, "add %[sum], %[sum], %[step]",
     "addiw %[n], %[n], -16\n\t"
     "bnez %[n], 1b")

ADD_ONE(riscv64_faa_amo, "li %[next], 1\n\t"
			 "amoadd.w %[seen], %[next], %[word]")
PUT(riscv64_put_amo, "amoswap.w %[seen], %[value], %[word]\n\t"
		     "addw %[sum], %[sum], %[seen]\n\t"
		     "addiw %[value], %[value], 1")

VARIANTS(arch_contend, {.name = "amo",
			.cas = riscv64_cas_lrsc,
			.add = {[OPERATION_FAA] = riscv64_faa_amo},
			.put = {[OPERATION_SWAP] = riscv64_put_amo}});

VARIANTS(arch_cas, {.name = "lrsc", .cas = riscv64_cas_lrsc},
	 {.name = "zacas", .needs = FEATURE_ZACAS, .cas = riscv64_cas_zacas});

VARIANTS(arch_readwrite, {.name = "lw", .readwrite = riscv64_readwrite_lw},
	 {.name = "fence", .readwrite = riscv64_readwrite_fence});

VARIANTS(arch_chase, {.name = "ld", .chase = riscv64_chase_ld});

adds_fn *const arch_adds = riscv64_adds;

/* Never rdcycle: it counts the CPU's own cycles, and Linux since 6.6 traps it. To fences a CSR is a
 * device that is read, hence the i (unprivileged spec, Zicsr, CSR access ordering). */
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
