/* s390x: 64-bit IBM Z, big-endian. See native.h. */
#define POINTER    "a"
#define COUNT      "d"
#define LINE(line) "+Q"(*(line))
#define AGAIN      "brct %[n], 1b"

#include "core_loops.h"

const char arch_name[] = "s390x";

/* cs leaves the value it saw in its first register: hence the reload on every turn. */
CAS(s390x_cas_cs, "lr %[seen], %[from]\n\t"
		  "cs %[seen], %[to], %[line]\n\t"
		  "jne 1b")

/* A store never passes an older load (Principles of Operation, storage-operand order): no fence. */
READWRITE(s390x_readwrite_st, "c %[from], %[watched]\n\t"
			      "jne 1b\n\t"
			      "st %[to], %[written]\n\t"
			      "xilf %[from], 1\n\t"
			      "xilf %[to], 1")

CHASE(s390x_chase_lg, "lg %[line], 0(%[line])")

/* An addition of one instruction is of the z196 and later, and the compiler's where it may. */
ADD_ONE(s390x_add_cs, "l %[seen], %[word]\n"
		      "2:\n\t"
		      "lr %[next], %[seen]\n\t"
		      "ahi %[next], 1\n\t"
		      "ahi %[tries], 1\n\t"
		      "cs %[seen], %[next], %[word]\n\t"
		      "jne 2b")
PUT(s390x_put_cs, "l %[seen], %[word]\n"
		  "2:\n\t"
		  "cs %[seen], %[value], %[word]\n\t"
		  "jne 2b\n\t"
		  "ar %[sum], %[seen]\n\t"
		  "ahi %[value], 1")

VARIANTS(arch_contend, {.name = "cs",
			.cas = s390x_cas_cs,
			.add = {[OPERATION_CAS] = s390x_add_cs},
			.put = {[OPERATION_SWAP] = s390x_put_cs}});

VARIANTS(arch_cas, {.name = "cs", .cas = s390x_cas_cs});

VARIANTS(arch_readwrite, {.name = "st", .readwrite = s390x_readwrite_st});

VARIANTS(arch_chase, {.name = "lg", .chase = s390x_chase_lg});

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
