/*
 * aarch64: what any 64-bit Arm CPU gives. See native.h.
 *
 * LSE and LL/SC are both built, whatever -march says; os_features() tells which the CPU has. Each
 * asm statement that needs LSE says so itself, because a CPU without it (Cortex-A72) faults on
 * `cas`.
 */
#include "native.h"

const char arch_name[] = "aarch64";

/* Plain `cas` has no acquire or release: only the order of accesses to this one line matters. */
static __attribute__((noinline)) void aarch64_cas_lse(uint32_t *line, uint32_t from, uint32_t to,
						      uint32_t n)
{
	uint32_t seen;

	__asm__ volatile(".arch_extension lse\n\t"
			 ".p2align 5\n"
			 "1:\n\t"
			 "mov %w[seen], %w[from]\n\t"
			 "cas %w[seen], %w[to], %[line]\n\t"
			 "cmp %w[seen], %w[from]\n\t"
			 "b.ne 1b\n\t"
			 "sub %w[n], %w[n], #1\n\t"
			 "cbnz %w[n], 1b"
			 : [line] "+Q"(*line), [seen] "=&r"(seen), [n] "+&r"(n)
			 : [from] "r"(from), [to] "r"(to)
			 : "memory", "cc");
}

/*
 * The line has its page to itself, so nothing else falls into the reservation granule (at most 2
 * KiB, Arm ARM B2.12) and makes the store-exclusive fail.
 */
static __attribute__((noinline)) void aarch64_cas_llsc(uint32_t *line, uint32_t from, uint32_t to,
						       uint32_t n)
{
	uint32_t seen, failed;

	__asm__ volatile(
		".p2align 5\n"
		"1:\n\t"
		"ldxr %w[seen], %[line]\n\t"
		"cmp %w[seen], %w[from]\n\t"
		"b.ne 1b\n\t"
		"stxr %w[failed], %w[to], %[line]\n\t"
		"cbnz %w[failed], 1b\n\t"
		"sub %w[n], %w[n], #1\n\t"
		"cbnz %w[n], 1b"
		: [line] "+Q"(*line), [seen] "=&r"(seen), [failed] "=&r"(failed), [n] "+&r"(n)
		: [from] "r"(from), [to] "r"(to)
		: "memory", "cc");
}

/*
 * llsc asleep: the exclusive load marks the line, and wfe waits until someone clears that mark by
 * writing to it. sevl sets the first event, so that a line which is right already is looked at.
 */
static __attribute__((noinline)) void aarch64_cas_wfe(uint32_t *line, uint32_t from, uint32_t to,
						      uint32_t n)
{
	uint32_t seen, failed;

	__asm__ volatile(
		".p2align 5\n"
		"1:\n\t"
		"sevl\n"
		"2:\n\t"
		"wfe\n\t"
		"ldxr %w[seen], %[line]\n\t"
		"cmp %w[seen], %w[from]\n\t"
		"b.ne 2b\n\t"
		"stxr %w[failed], %w[to], %[line]\n\t"
		"cbnz %w[failed], 1b\n\t"
		"sub %w[n], %w[n], #1\n\t"
		"cbnz %w[n], 1b"
		: [line] "+Q"(*line), [seen] "=&r"(seen), [failed] "=&r"(failed), [n] "+&r"(n)
		: [from] "r"(from), [to] "r"(to)
		: "memory", "cc");
}

/* Two lines: stlr, because the store must not pass the load that ended the wait; ldar pairs. */
static __attribute__((noinline)) void aarch64_readwrite_ldar(uint32_t *watched, uint32_t *written,
							     uint32_t from, uint32_t to, uint32_t n)
{
	uint32_t seen;

	__asm__ volatile(".p2align 5\n"
			 "1:\n\t"
			 "ldar %w[seen], %[watched]\n\t"
			 "cmp %w[seen], %w[from]\n\t"
			 "b.ne 1b\n\t"
			 "stlr %w[to], %[written]\n\t"
			 "eor %w[from], %w[from], #1\n\t"
			 "eor %w[to], %w[to], #1\n\t"
			 "sub %w[n], %w[n], #1\n\t"
			 "cbnz %w[n], 1b"
			 : [watched] "+Q"(*watched), [written] "+Q"(*written), [seen] "=&r"(seen),
			   [from] "+&r"(from), [to] "+&r"(to), [n] "+&r"(n)
			 :
			 : "memory", "cc");
}

/* The next load waits for the value of the one before: no other instruction is in the chain. */
static __attribute__((noinline)) void *aarch64_chase_ldr(void *line, uint32_t n16)
{
	__asm__ volatile(".p2align 5\n"
			 "1:\n\t"
			 ".rept 16\n\t"
			 "ldr %[line], [%[line]]\n\t"
			 ".endr\n\t"
			 "sub %w[n], %w[n], #1\n\t"
			 "cbnz %w[n], 1b"
			 : [line] "+&r"(line), [n] "+&r"(n16)
			 :
			 : "memory");
	return line;
}

static void aarch64_adds(uint32_t n)
{
	uint64_t sum = n, step = n;

	__asm__ volatile(".p2align 5\n"
			 "1:\n\t"
			 ".rept 16\n\t"
			 "add %[sum], %[sum], %[step]\n\t"
			 ".endr\n\t"
			 "sub %w[n], %w[n], #16\n\t"
			 "cbnz %w[n], 1b"
			 : [sum] "+&r"(sum), [n] "+&r"(n)
			 : [step] "r"(step));
}

const struct variant arch_cas[] = {
	{.name = "lse", .needs = FEATURE_LSE, .cas = aarch64_cas_lse},
	{.name = "llsc", .cas = aarch64_cas_llsc},
	{.name = "wfe", .cas = aarch64_cas_wfe},
	{.name = NULL},
};

const struct variant arch_readwrite[] = {
	{.name = "ldar", .readwrite = aarch64_readwrite_ldar},
	{.name = NULL},
};

const struct variant arch_chase[] = {
	{.name = "ldr", .chase = aarch64_chase_ldr},
	{.name = NULL},
};

adds_fn *const arch_adds = aarch64_adds;

/* isb: the counter may otherwise be read early, out of program order (Arm ARM D12.2.2). */
static uint64_t ticks_cntvct(void)
{
	uint64_t ticks;

	__asm__ volatile("isb\n\tmrs %0, cntvct_el0\n\tisb" : "=r"(ticks) : : "memory");
	return ticks;
}

/* For a store whose value is the reading. */
static uint64_t sent_cntvct(void)
{
	uint64_t ticks;

	__asm__ volatile("isb\n\tmrs %0, cntvct_el0" : "=r"(ticks) : : "memory");
	return ticks;
}

int arch_clock(struct clock *clock)
{
	uint64_t ticks_per_second;

	__asm__ volatile("mrs %0, cntfrq_el0" : "=r"(ticks_per_second));
	*clock = (struct clock){.name = "cntvct",
				.ticks_per_second = ticks_per_second & UINT32_MAX,
				.ticks = ticks_cntvct,
				.sent = sent_cntvct};
	return 0;
}
