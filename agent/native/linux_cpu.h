/* linux_cpu.h: what Linux reports about this architecture's CPU. For native/linux.c only. */
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
#include "linux_amx.h"
#include "x86_features.h"
#elif defined(__i386__)
#include <cpuid.h>
#endif

#if defined(__riscv)
/* From Linux's uapi/asm/hwprobe.h, which older headers lack: the call, its keys, and extensions. */
enum { HWPROBE_SYSCALL = 258 };
enum { HWPROBE_EXTENSIONS = 4, HWPROBE_BLOCK_BYTES = 6, HWPROBE_TIME_RATE = 8 };
enum { HWPROBE_V = 2, HWPROBE_ZICBOZ = 6, HWPROBE_ZACAS = 34, HWPROBE_ZICBOM = 55 };

/* Returns a key's value if all online CPUs share it, of flags those they share; 0: unknown. */
static uint64_t read_hwprobe(int64_t key)
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

#if !defined(__x86_64__)
static uint32_t feature_if_set(uint64_t word, unsigned number, uint32_t feature)
{
	return word >> number & 1 ? feature : 0;
}
#endif

/* Bits of AT_HWCAP and AT_HWCAP2 by their numbers in Linux's uapi/asm/hwcap.h and elf.h. */
uint32_t os_features(void)
{
	uint32_t features = 0;

#if defined(__x86_64__)
	features = x86_features(linux_permit_amx);
#elif defined(__i386__)
	uint32_t a, b, c, d;

	if (__get_cpuid(1, &a, &b, &c, &d))
		features = feature_if_set(d, 26, FEATURE_SSE2) |
			   feature_if_set(d, 19, FEATURE_FLUSH); /* CLFSH */
#elif defined(__aarch64__)
	uint64_t zva;

	__asm__("mrs %0, dczid_el0" : "=r"(zva));
	features = FEATURE_FLUSH | /* Linux sets SCTLR_EL1.UCI */
		   feature_if_set(getauxval(AT_HWCAP), 8, FEATURE_LSE) |    /* HWCAP_ATOMICS */
		   feature_if_set(getauxval(AT_HWCAP), 15, FEATURE_LRCPC) | /* HWCAP_LRCPC */
		   feature_if_set(getauxval(AT_HWCAP), 22, FEATURE_SVE) |   /* HWCAP_SVE */
		   feature_if_set(getauxval(AT_HWCAP2), 13, FEATURE_I8MM) | /* HWCAP2_I8MM */
		   feature_if_set(getauxval(AT_HWCAP2), 14, FEATURE_BF16) | /* HWCAP2_BF16 */
		   feature_if_set(~zva, 4, FEATURE_ZVA);                    /* DZP: prohibited */
#elif defined(__arm__)
	features = feature_if_set(getauxval(AT_HWCAP), 12, FEATURE_NEON); /* HWCAP_NEON */
#elif defined(__riscv)
	uint64_t extensions = read_hwprobe(HWPROBE_EXTENSIONS);

	features = feature_if_set(extensions, HWPROBE_V, FEATURE_RVV) |
		   feature_if_set(getauxval(AT_HWCAP), 'V' - 'A',
				  FEATURE_RVV) | /* COMPAT_HWCAP_ISA_V */
		   feature_if_set(extensions, HWPROBE_ZACAS, FEATURE_ZACAS) |
		   feature_if_set(extensions, HWPROBE_ZICBOM, FEATURE_FLUSH);
	if (read_hwprobe(HWPROBE_BLOCK_BYTES) == 64)
		features |= feature_if_set(extensions, HWPROBE_ZICBOZ, FEATURE_CBO_ZERO);
#elif defined(__powerpc64__)
	features = FEATURE_FLUSH |
		   feature_if_set(getauxval(AT_HWCAP2), 23,
				  FEATURE_POWER9) | /* PPC_FEATURE2_ARCH_3_00 */
		   (getauxval(AT_DCACHEBSIZE) == 128 ? FEATURE_DCBZ : 0);
#elif defined(__s390x__)
	/* HWCAP_S390_VXRS: facility 129, and saved */
	features = feature_if_set(getauxval(AT_HWCAP), 11, FEATURE_VX);
#elif defined(__loongarch__)
	uint32_t word = 0;

	if (getauxval(AT_HWCAP) & 1) /* HWCAP_LOONGARCH_CPUCFG */
		__asm__("cpucfg %0, %1" : "=r"(word) : "r"(2));
	features = feature_if_set(getauxval(AT_HWCAP), 4,
				  FEATURE_LSX) | /* HWCAP_LOONGARCH_LSX, ..._LASX */
		   feature_if_set(getauxval(AT_HWCAP), 5, FEATURE_LASX) |
		   feature_if_set(word, 28, FEATURE_LAM_CAS);
#endif
	return features;
}

const char *os_explain_missing(uint32_t features, bool *withheld)
{
#if defined(__x86_64__)
	return x86_explain_missing(features, withheld, linux_permit_amx);
#else
	(void)features;
	*withheld = false;
	return NULL;
#endif
}

int os_get_counter_rate(uint64_t *ticks_per_second)
{
#if defined(__riscv)
	*ticks_per_second = read_hwprobe(HWPROBE_TIME_RATE);
	return *ticks_per_second ? 0 : -ENOTSUP;
#elif defined(__powerpc64__)
	char line[128];
	bool is_stated = 0;
	FILE *cpuinfo = fopen("/proc/cpuinfo", "r");

	if (!cpuinfo)
		return -errno;
	while (!is_stated && fgets(line, sizeof line, cpuinfo))
		is_stated = sscanf(line, "timebase : %" SCNu64, ticks_per_second) == 1;
	fclose(cpuinfo);
	return is_stated ? 0 : -ENOTSUP;
#else
	(void)ticks_per_second;
	return -ENOTSUP;
#endif
}

#endif
