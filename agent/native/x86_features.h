/* x86_features.h: what a 64-bit x86 CPU has, and its OS saves. For native/{linux,qnx}_cpu.h. */
#ifndef FLEET_X86_FEATURES_H
#define FLEET_X86_FEATURES_H

#include "native.h"
#include "x86_amx.h"

#include <cpuid.h>
#include <stdbool.h>

/* Returns the register state saved at a switch of threads (Intel SDM 1, 13.3); 0: unknown. */
static uint32_t x86_saved_state(void)
{
	uint32_t a, b, c, d;

	if (!__get_cpuid(1, &a, &b, &c, &d) || !(c >> 27 & 1))
		return 0;
	__asm__ volatile(".byte 0x0f, 0x01, 0xd0" : "=a"(a), "=d"(d) : "c"(0)); /* xgetbv */
	return a;
}

/* Returns FEATURE_ bits: of a vector extension if the CPU has it and the OS saves its registers. */
static uint32_t x86_features(amx_permit_fn *permit)
{
	enum { AVX_STATE = 0x6, AVX512_STATE = 0xe6 };
	uint32_t a, b, c = 0, d, fma, features = 0, saved = x86_saved_state();

	if (__get_cpuid(1, &a, &b, &c, &d) && c >> 28 & 1 && (saved & AVX_STATE) == AVX_STATE)
		features |= FEATURE_AVX;
	fma = c >> 12 & 1;
	if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) {
		if (features & FEATURE_AVX && fma && b >> 5 & 1)
			features |= FEATURE_FMA;
		if (b >> 16 & 1 && (saved & AVX512_STATE) == AVX512_STATE)
			features |= FEATURE_AVX512;
		if (features & FEATURE_AVX512 && c >> 11 & 1)
			features |= FEATURE_AVX512_VNNI;
	}
	if (features & FEATURE_AVX512 && __get_cpuid_count(7, 1, &a, &b, &c, &d) && a >> 5 & 1)
		features |= FEATURE_AVX512_BF16;
	if (__get_cpuid(1, &a, &b, &c, &d) && d >> 19 & 1) /* CLFSH */
		features |= FEATURE_FLUSH;
	if (__get_cpuid(0x80000008, &a, &b, &c, &d) && b & 1)
		features |= FEATURE_CLZERO;
	if (!amx_explain_unusable(saved, permit)) {
		const struct amx_cpu cpu = amx_read_cpuid(saved);

		features |= FEATURE_AMX_TILE;
		features |= (cpu.bf16 ? FEATURE_AMX_BF16 : 0) | (cpu.int8 ? FEATURE_AMX_INT8 : 0);
	}
	return features;
}

/* See os_explain_missing(). */
static const char *x86_explain_missing(uint32_t features, bool *withheld, amx_permit_fn *permit)
{
	const char *trouble = features & (FEATURE_AMX_TILE | FEATURE_AMX_BF16 | FEATURE_AMX_INT8)
				      ? amx_explain_unusable(x86_saved_state(), permit)
				      : NULL;

	*withheld = trouble && trouble != amx_absent;
	return trouble;
}

#endif
