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
/* Numbers of Linux's uapi/asm/hwprobe.h; here, because older headers lack them. */
enum { HWPROBE_SYSCALL = 258 };
enum { HWPROBE_EXTENSIONS = 4, HWPROBE_BLOCK_BYTES = 6, HWPROBE_TIME_RATE = 8 }; /* keys */
enum {
	HWPROBE_V = 2,
	HWPROBE_ZICBOZ = 6,
	HWPROBE_ZACAS = 34,
	HWPROBE_ZICBOM = 55
}; /* extensions */

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

/* Bits of AT_HWCAP and AT_HWCAP2 by their numbers in Linux's uapi/asm/hwcap.h and elf.h. */
static uint32_t linux_features(void)
{
	uint32_t features = 0;

#if defined(__x86_64__)
	features = x86_features(linux_permit_amx);
#elif defined(__i386__)
	uint32_t a, b, c, d;

	if (__get_cpuid(1, &a, &b, &c, &d) && d >> 26 & 1)
		features |= FEATURE_SSE2;
	if (__get_cpuid(1, &a, &b, &c, &d) && d >> 19 & 1) /* CLFSH */
		features |= FEATURE_FLUSH;
#elif defined(__aarch64__)
	const unsigned long atomics = 1ul << 8, sve = 1ul << 22; /* HWCAP_ATOMICS, HWCAP_SVE */
	const unsigned long i8mm = 1ul << 13, bf16 = 1ul << 14;  /* HWCAP2_I8MM, HWCAP2_BF16 */
	uint64_t zva;

	features |= FEATURE_FLUSH; /* Linux sets SCTLR_EL1.UCI */
	if (getauxval(AT_HWCAP) & atomics)
		features |= FEATURE_LSE;
	if (getauxval(AT_HWCAP) & sve)
		features |= FEATURE_SVE;
	if (getauxval(AT_HWCAP2) & i8mm)
		features |= FEATURE_I8MM;
	if (getauxval(AT_HWCAP2) & bf16)
		features |= FEATURE_BF16;
	__asm__("mrs %0, dczid_el0" : "=r"(zva));
	if (!(zva >> 4 & 1)) /* DZP: prohibited */
		features |= FEATURE_ZVA;
#elif defined(__arm__)
	const unsigned long neon = 1ul << 12; /* HWCAP_NEON */

	if (getauxval(AT_HWCAP) & neon)
		features |= FEATURE_NEON;
#elif defined(__riscv)
	const unsigned long v = 1ul << ('V' - 'A'); /* COMPAT_HWCAP_ISA_V */
	uint64_t extensions = hwprobe(HWPROBE_EXTENSIONS);

	if (extensions >> HWPROBE_V & 1 || getauxval(AT_HWCAP) & v)
		features |= FEATURE_RVV;
	if (extensions >> HWPROBE_ZACAS & 1)
		features |= FEATURE_ZACAS;
	if (extensions >> HWPROBE_ZICBOM & 1)
		features |= FEATURE_FLUSH;
	if (extensions >> HWPROBE_ZICBOZ & 1 && hwprobe(HWPROBE_BLOCK_BYTES) == 64)
		features |= FEATURE_CBO_ZERO;
#elif defined(__powerpc64__)
	const unsigned long version_3_00 = 1ul << 23; /* PPC_FEATURE2_ARCH_3_00 */

	features |= FEATURE_FLUSH;
	if (getauxval(AT_HWCAP2) & version_3_00)
		features |= FEATURE_POWER9;
	if (getauxval(AT_DCACHEBSIZE) == 128)
		features |= FEATURE_DCBZ;
#elif defined(__s390x__)
	const unsigned long vxrs = 1ul << 11; /* HWCAP_S390_VXRS: facility 129, and saved */
	const unsigned long vxe = 1ul << 13;  /* HWCAP_S390_VXRS_EXT: facility 135 */

	if (getauxval(AT_HWCAP) & vxrs)
		features |= FEATURE_VX;
	if (getauxval(AT_HWCAP) & vxrs && getauxval(AT_HWCAP) & vxe)
		features |= FEATURE_VXE;
#elif defined(__loongarch__)
	/* HWCAP_LOONGARCH_CPUCFG, ..._LSX, ..._LASX */
	const unsigned long may_ask = 1ul << 0, lsx = 1ul << 4, lasx = 1ul << 5;
	uint32_t word;

	if (getauxval(AT_HWCAP) & lsx)
		features |= FEATURE_LSX;
	if (getauxval(AT_HWCAP) & lasx)
		features |= FEATURE_LASX;
	if (getauxval(AT_HWCAP) & may_ask) {
		__asm__("cpucfg %0, %1" : "=r"(word) : "r"(2));
		if (word >> 28 & 1)
			features |= FEATURE_LAM_CAS;
	}
#endif
	return features;
}

static const char *linux_missing(uint32_t features, bool *withheld)
{
#if defined(__x86_64__)
	return x86_missing(features, withheld, linux_permit_amx);
#else
	(void)features;
	*withheld = false;
	return NULL;
#endif
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
