/* linux_cpu.h: what Linux tells of this architecture's CPU. For native/linux.c only. */
#ifndef FLEET_LINUX_CPU_H
#define FLEET_LINUX_CPU_H

#include "native.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#include "x86_features.h"
#endif

#if defined(__riscv)
/* Numbers of Linux's uapi/asm/hwprobe.h; here, because older headers lack them. */
enum { HWPROBE_SYSCALL = 258, HWPROBE_EXTENSIONS = 4, HWPROBE_TIME_RATE = 8, HWPROBE_ZACAS = 34 };

/* One value all online CPUs share (of flags, those they share); 0 if the kernel does not tell. */
static uint64_t hwprobe(int64_t key)
{
	struct {
		int64_t key;
		uint64_t value;
	} pair = {.key = key};

	if (syscall(HWPROBE_SYSCALL, &pair, 1, 0, NULL, 0) || pair.key != key)
		return 0;
	return pair.value == UINT64_MAX ? 0 : pair.value;
}
#endif

static uint32_t linux_features(void)
{
	uint32_t features = 0;

#if defined(__x86_64__)
	features = x86_features();
#elif defined(__aarch64__)
	const unsigned long atomics = 1ul << 8, sve = 1ul << 22; /* HWCAP_ATOMICS, HWCAP_SVE */
	uint64_t zva;

	if (getauxval(AT_HWCAP) & atomics)
		features |= FEATURE_LSE;
	if (getauxval(AT_HWCAP) & sve)
		features |= FEATURE_SVE;
	__asm__("mrs %0, dczid_el0" : "=r"(zva));
	if (!(zva >> 4 & 1)) /* DZP: prohibited */
		features |= FEATURE_ZVA;
#elif defined(__riscv)
	if (hwprobe(HWPROBE_EXTENSIONS) >> HWPROBE_ZACAS & 1)
		features |= FEATURE_ZACAS;
#elif defined(__loongarch__)
	const unsigned long may_ask = 1ul << 0; /* HWCAP_LOONGARCH_CPUCFG */
	uint32_t word;

	if (getauxval(AT_HWCAP) & may_ask) {
		__asm__("cpucfg %0, %1" : "=r"(word) : "r"(2));
		if (word >> 28 & 1)
			features |= FEATURE_LAM_CAS;
	}
#endif
	return features;
}

static int linux_counter_rate(uint64_t *ticks_per_second)
{
#if defined(__riscv)
	*ticks_per_second = hwprobe(HWPROBE_TIME_RATE);
	return *ticks_per_second ? 0 : -ENOTSUP;
#elif defined(__powerpc64__)
	char line[128];
	int found = 0;
	FILE *cpuinfo = fopen("/proc/cpuinfo", "r");

	if (!cpuinfo)
		return -errno;
	while (!found && fgets(line, sizeof line, cpuinfo))
		found = sscanf(line, "timebase : %" SCNu64, ticks_per_second) == 1;
	fclose(cpuinfo);
	return found ? 0 : -ENOTSUP;
#else
	(void)ticks_per_second;
	return -ENOTSUP;
#endif
}

#endif
