/* armv7: 32-bit Arm with ldrex, dmb and perhaps the generic timer. See native.h. */
#define POINTER    "r"
#define LINE(line) "+Q"(*(line))
#define AGAIN      "subs %[n], %[n], #1\n\tbne 1b"

#include "core_loops.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>

const char arch_name[] = "armv7";

/* The line has its page to itself, so nothing else falls into the reservation granule (at most 2
 * KiB, Arm ARM v7-A A3.4.3) and makes the store-exclusive fail. */
CAS(armv7_cas_ldrex, "ldrex %[seen], %[line]\n\t"
		     "cmp %[seen], %[from]\n\t"
		     "bne 1b\n\t"
		     "strex %[status], %[to], %[line]\n\t"
		     "cmp %[status], #0\n\t"
		     "bne 1b")

#define HAND_OVER(barrier)                                                                         \
	"ldr %[seen], %[watched]\n\t"                                                              \
	"cmp %[seen], %[from]\n\t"                                                                 \
	"bne 1b\n\t" barrier "str %[to], %[written]\n\t"                                           \
	"eor %[from], %[from], #1\n\t"                                                             \
	"eor %[to], %[to], #1"

/* No store is seen before it is sure to be executed: the branch orders it (Arm ARM v7-A A3.8.2). */
READWRITE(armv7_readwrite_ldr, HAND_OVER(""))

/* Armv7 has neither ldar nor stlr. */
READWRITE(armv7_readwrite_dmb, HAND_OVER("dmb ish\n\t"))

CHASE(armv7_chase_ldr, "ldr %[line], [%[line]]")

ADDS(armv7_adds, "add %[sum], %[sum], %[step]",
     "subs %[n], %[n], #16\n\t"
     "bne 1b")

ADD_ONE(armv7_faa_ldrex, "ldrex %[seen], %[word]\n\t"
			 "add %[next], %[seen], #1\n\t"
			 "strex %[status], %[next], %[word]\n\t"
			 "cmp %[status], #0\n\t"
			 "bne 1b")
PUT(armv7_put_ldrex, "ldrex %[seen], %[word]\n\t"
		     "strex %[status], %[value], %[word]\n\t"
		     "cmp %[status], #0\n\t"
		     "bne 1b\n\t"
		     "add %[sum], %[sum], %[seen]\n\t"
		     "add %[value], %[value], #1")

VARIANTS(arch_contend, {.name = "ldrex",
			.cas = armv7_cas_ldrex,
			.add = {[OPERATION_FAA] = armv7_faa_ldrex},
			.put = {[OPERATION_SWAP] = armv7_put_ldrex}});

VARIANTS(arch_cas, {.name = "ldrex", .cas = armv7_cas_ldrex});

VARIANTS(arch_readwrite, {.name = "ldr", .readwrite = armv7_readwrite_ldr},
	 {.name = "dmb", .readwrite = armv7_readwrite_dmb});

VARIANTS(arch_chase, {.name = "ldr", .chase = armv7_chase_ldr});

const struct variant arch_gemm[] = {{.name = NULL}};

adds_fn *const arch_adds = armv7_adds;

/* CNTVCT. isb: it may otherwise be read early, out of program order (Arm ARM v7-A B8.1.2). */
static uint64_t ticks_cntvct(void)
{
	uint32_t low, high;

	__asm__ volatile("isb\n\tmrrc p15, 1, %0, %1, c14\n\tisb"
			 : "=r"(low), "=r"(high)
			 :
			 : "memory");
	return (uint64_t)high << 32 | low;
}

static uint32_t cntfrq(void)
{
	uint32_t ticks_per_second;

	__asm__ volatile("mrc p15, 0, %0, c14, c0, 0" : "=r"(ticks_per_second));
	return ticks_per_second;
}

static sigjmp_buf after_sigill;

static void leave(int signal)
{
	(void)signal;
	siglongjmp(after_sigill, 1);
}

/* The generic timer is an extension, and the OS may keep it from user code (CNTKCTL.PL0VCTEN).
 * Nothing user code may read says which, so we try: refused, it is an illegal instruction. */
int arch_clock(struct clock *clock)
{
	struct sigaction trap = {.sa_handler = leave}, before;

	sigemptyset(&trap.sa_mask);
	if (sigaction(SIGILL, &trap, &before))
		return -errno;
	int refused = sigsetjmp(after_sigill, 1);

	if (!refused) {
		ticks_cntvct();
		*clock = (struct clock){
			.name = "cntvct", .ticks_per_second = cntfrq(), .ticks = ticks_cntvct};
	}
	sigaction(SIGILL, &before, NULL);
	if (refused) {
		clock->note = "no generic timer that user code may read";
		return -ENOTSUP;
	}
	return 0;
}
