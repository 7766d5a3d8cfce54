/* x86_tsc.h: the time stamp counter, alike on x86_64 and i386. For native/{x86_64,i386}.c. */
#ifndef FLEET_X86_TSC_H
#define FLEET_X86_TSC_H

#include "native.h"

#include <cpuid.h>
#include <errno.h>
#include <stdbool.h>

/* rdtscp waits for older instructions, lfence holds back younger ones (Intel SDM 2B, RDTSCP). */
static uint64_t ticks_rdtscp(void)
{
	uint32_t low, high, aux;

	__asm__ volatile("rdtscp\n\tlfence" : "=a"(low), "=d"(high), "=c"(aux) : : "memory");
	return (uint64_t)high << 32 | low;
}

static uint64_t ticks_rdtsc(void)
{
	uint32_t low, high;

	__asm__ volatile("lfence\n\trdtsc\n\tlfence" : "=a"(low), "=d"(high) : : "memory");
	return (uint64_t)high << 32 | low;
}

/* For a store whose value is the reading: what holds back younger instructions can be left out. */
static uint64_t sent_rdtsc(void)
{
	uint32_t low, high;

	__asm__ volatile("lfence\n\trdtsc" : "=a"(low), "=d"(high) : : "memory");
	return (uint64_t)high << 32 | low;
}

/* One bit of EDX of a CPUID leaf; false where the leaf does not exist. */
static bool cpuid_edx(uint32_t leaf, unsigned bit)
{
	uint32_t a, b, c, d;

	return __get_cpuid(leaf, &a, &b, &c, &d) && (d >> bit & 1);
}

/* An invariant TSC (CPUID 80000007h EDX bit 8) has one rate in all states: Intel SDM 3B, 18.17.
 * Every CPU that has one has lfence too. */
int arch_clock(struct clock *clock)
{
	if (!cpuid_edx(1, 4) || !cpuid_edx(0x80000007, 8)) {
		clock->note = "the time stamp counter is not invariant";
		return -ENOTSUP;
	}
	*clock = (struct clock){.name = "tsc", .ticks = ticks_rdtscp, .sent = sent_rdtsc};
	if (!cpuid_edx(0x80000001, 27)) {
		clock->note = "no rdtscp, reading with lfence and rdtsc";
		clock->ticks = ticks_rdtsc;
	}
	return 0;
}

#endif
