/* loongarch64: 64-bit LoongArch, and amcas of version 1.1 where the CPU has it. See native.h. */
#define POINTER    "r"
#define LINE(line) "+r"(line)
#define AGAIN      "addi.w %[n], %[n], -1\n\tbnez %[n], 1b"

#include "core_loops.h"

const char arch_name[] = "loongarch64";

/* sc.w replaces the value to store by whether it was stored: hence the copy on every turn. */
CAS(loongarch64_cas_llsc, "ll.w %[seen], %[line], 0\n\t"
			  "bne %[seen], %[from], 1b\n\t"
			  "move %[status], %[to]\n\t"
			  "sc.w %[status], %[line], 0\n\t"
			  "beqz %[status], 1b")

/* The word is `amcas.w $t0, $t1, $t2`, written so because assemblers before 2.41 do not know it. */
TIMED void loongarch64_cas_amcas(uint32_t *line, uint32_t from, uint32_t to, uint32_t n)
{
	register uint32_t *line_in_t2 __asm__("$r14") = line;
	register uint32_t to_in_t1 __asm__("$r13") = to;
	register uint32_t seen_in_t0 __asm__("$r12");

	__asm__ volatile(".p2align 5\n"
			 "1:\n\t"
			 "move %[seen], %[from]\n\t"
			 ".word 0x38590000 | 13 << 10 | 14 << 5 | 12\n\t"
			 "bne %[seen], %[from], 1b\n\t" AGAIN
			 : [seen] "=&r"(seen_in_t0), [n] "+&r"(n)
			 : [from] "r"(from), "r"(to_in_t1), "r"(line_in_t2)
			 : "memory");
}

#define HAND_OVER(barrier)                                                                         \
	"ld.w %[seen], %[watched], 0\n\t"                                                          \
	"bne %[seen], %[from], 1b\n\t" barrier "st.w %[to], %[written], 0\n\t"                     \
	"xori %[from], %[from], 1\n\t"                                                             \
	"xori %[to], %[to], 1"

/* The branch orders the store: Linux's memory model holds that of all its architectures. */
READWRITE(loongarch64_readwrite_ld, HAND_OVER(""))

/* dbar 0x12 orders what stands before it with the stores behind it: a store-release's barrier. */
READWRITE(loongarch64_readwrite_dbar, HAND_OVER("dbar 0x12\n\t"))

CHASE(loongarch64_chase_ld, "ld.d %[line], %[line], 0")

ADDS(loongarch64_adds, "add.d %[sum], %[sum], %[step]",
     "addi.w %[n], %[n], -16\n\t"
     "bnez %[n], 1b")

ADD_ONE(loongarch64_faa_am, "addi.w %[next], $zero, 1\n\t"
			    "amadd.w %[seen], %[next], %[word]")
PUT(loongarch64_put_am, "amswap.w %[seen], %[value], %[word]\n\t"
			"add.w %[sum], %[sum], %[seen]\n\t"
			"addi.w %[value], %[value], 1")

VARIANTS(arch_contend, {.name = "am",
			.cas = loongarch64_cas_llsc,
			.add = {[OPERATION_FAA] = loongarch64_faa_am},
			.put = {[OPERATION_SWAP] = loongarch64_put_am}});

VARIANTS(arch_cas, {.name = "llsc", .cas = loongarch64_cas_llsc},
	 {.name = "amcas", .needs = FEATURE_LAM_CAS, .cas = loongarch64_cas_amcas});

VARIANTS(arch_readwrite, {.name = "ld", .readwrite = loongarch64_readwrite_ld},
	 {.name = "dbar", .readwrite = loongarch64_readwrite_dbar});

VARIANTS(arch_chase, {.name = "ld", .chase = loongarch64_chase_ld});

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
