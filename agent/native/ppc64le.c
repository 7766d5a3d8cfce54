/* ppc64le: 64-bit POWER, little-endian. See native.h. */
#define POINTER    "b"
#define LINE(line) "+b"(line)
#define AGAIN      "addi %[n], %[n], -1\n\tcmpwi %[n], 0\n\tbne 1b"

#include "core_loops.h"

const char arch_name[] = "ppc64le";

/* Without sync or isync: only the order of accesses to this one line matters. */
CAS(ppc64le_cas_lwarx, "lwarx %[seen], 0, %[line]\n\t"
		       "cmpw %[seen], %[from]\n\t"
		       "bne 1b\n\t"
		       "stwcx. %[to], 0, %[line]\n\t"
		       "bne 1b")

#define HAND_OVER(barrier)                                                                         \
	"lwz %[seen], 0(%[watched])\n\t"                                                           \
	"cmpw %[seen], %[from]\n\t"                                                                \
	"bne 1b\n\t" barrier "stw %[to], 0(%[written])\n\t"                                        \
	"xori %[from], %[from], 1\n\t"                                                             \
	"xori %[to], %[to], 1"

/* Stores are not done out of order: the branch orders them (Power ISA, book II, 1.7.1). */
READWRITE(ppc64le_readwrite_lwz, HAND_OVER(""))
READWRITE(ppc64le_readwrite_lwsync, HAND_OVER("lwsync\n\t"))

CHASE(ppc64le_chase_ld, "ld %[line], 0(%[line])")

ADD_ONE(ppc64le_faa_lwarx, "lwarx %[seen], 0, %[word]\n\t"
			   "addi %[next], %[seen], 1\n\t"
			   "stwcx. %[next], 0, %[word]\n\t"
			   "bne 1b")
PUT(ppc64le_put_lwarx, "lwarx %[seen], 0, %[word]\n\t"
		       "stwcx. %[value], 0, %[word]\n\t"
		       "bne 1b\n\t"
		       "add %[sum], %[sum], %[seen]\n\t"
		       "addi %[value], %[value], 1")

VARIANTS(arch_contend, {.name = "lwarx",
			.cas = ppc64le_cas_lwarx,
			.add = {[OPERATION_FAA] = ppc64le_faa_lwarx},
			.put = {[OPERATION_SWAP] = ppc64le_put_lwarx}});

VARIANTS(arch_cas, {.name = "lwarx", .cas = ppc64le_cas_lwarx});

VARIANTS(arch_readwrite, {.name = "lwz", .readwrite = ppc64le_readwrite_lwz},
	 {.name = "lwsync", .readwrite = ppc64le_readwrite_lwsync});

VARIANTS(arch_chase, {.name = "ld", .chase = ppc64le_chase_ld});

/* An addition may take two cycles. */
adds_fn *const arch_adds = NULL;

/* The time base. isync: it may otherwise be read early, out of program order (Power ISA II). */
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
