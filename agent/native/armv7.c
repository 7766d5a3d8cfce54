/* armv7: 32-bit Arm with ldrex, dmb and perhaps the generic timer. See native.h. */
#include "native.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>

const char arch_name[] = "armv7";

/*
 * The line has its page to itself, so nothing else falls into the reservation granule (at most 2
 * KiB, Arm ARM v7-A A3.4.3) and makes the store-exclusive fail.
 */
static __attribute__((noinline)) void armv7_cas_ldrex(uint32_t *line, uint32_t from, uint32_t to,
						      uint32_t n)
{
	uint32_t seen, failed;

	__asm__ volatile(
		".p2align 5\n"
		"1:\n\t"
		"ldrex %[seen], %[line]\n\t"
		"cmp %[seen], %[from]\n\t"
		"bne 1b\n\t"
		"strex %[failed], %[to], %[line]\n\t"
		"cmp %[failed], #0\n\t"
		"bne 1b\n\t"
		"subs %[n], %[n], #1\n\t"
		"bne 1b"
		: [line] "+Q"(*line), [seen] "=&r"(seen), [failed] "=&r"(failed), [n] "+&r"(n)
		: [from] "r"(from), [to] "r"(to)
		: "memory", "cc");
}

/* Armv7 has neither ldar nor stlr: a dmb keeps the store behind the load that ended the wait. */
static __attribute__((noinline)) void armv7_readwrite_dmb(uint32_t *watched, uint32_t *written,
							  uint32_t from, uint32_t to, uint32_t n)
{
	uint32_t seen;

	__asm__ volatile(".p2align 5\n"
			 "1:\n\t"
			 "ldr %[seen], %[watched]\n\t"
			 "cmp %[seen], %[from]\n\t"
			 "bne 1b\n\t"
			 "dmb ish\n\t"
			 "str %[to], %[written]\n\t"
			 "eor %[from], %[from], #1\n\t"
			 "eor %[to], %[to], #1\n\t"
			 "subs %[n], %[n], #1\n\t"
			 "bne 1b"
			 : [watched] "+Q"(*watched), [written] "+Q"(*written), [seen] "=&r"(seen),
			   [from] "+&r"(from), [to] "+&r"(to), [n] "+&r"(n)
			 :
			 : "memory", "cc");
}

/* The next load waits for the value of the one before: no other instruction is in the chain. */
static __attribute__((noinline)) void *armv7_chase_ldr(void *line, uint32_t n16)
{
	__asm__ volatile(".p2align 5\n"
			 "1:\n\t"
			 ".rept 16\n\t"
			 "ldr %[line], [%[line]]\n\t"
			 ".endr\n\t"
			 "subs %[n], %[n], #1\n\t"
			 "bne 1b"
			 : [line] "+&r"(line), [n] "+&r"(n16)
			 :
			 : "memory", "cc");
	return line;
}

static void armv7_adds(uint32_t n)
{
	uint32_t sum = n, step = n;

	__asm__ volatile(".p2align 5\n"
			 "1:\n\t"
			 ".rept 16\n\t"
			 "add %[sum], %[sum], %[step]\n\t"
			 ".endr\n\t"
			 "subs %[n], %[n], #16\n\t"
			 "bne 1b"
			 : [sum] "+&r"(sum), [n] "+&r"(n)
			 : [step] "r"(step)
			 : "cc");
}

const struct variant arch_cas[] = {
	{.name = "ldrex", .cas = armv7_cas_ldrex},
	{.name = NULL},
};

const struct variant arch_readwrite[] = {
	{.name = "dmb", .readwrite = armv7_readwrite_dmb},
	{.name = NULL},
};

const struct variant arch_chase[] = {
	{.name = "ldr", .chase = armv7_chase_ldr},
	{.name = NULL},
};

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

/*
 * The generic timer is an extension, and the OS may keep it from user code (CNTKCTL.PL0VCTEN).
 * Nothing user code may read says which, so we try: refused, it is an illegal instruction.
 */
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
