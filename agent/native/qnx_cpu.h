/* qnx_cpu.h: what QNX and the CPU itself report on this architecture. For native/qnx.c only. */
#ifndef FLEET_QNX_CPU_H
#define FLEET_QNX_CPU_H

#include "native.h"

#include <stdbool.h>
#include <sys/neutrino.h>

#if defined(__x86_64__)
#include "x86_features.h"

static uint32_t qnx_features(uint32_t flags)
{
	(void)flags;
	return x86_features(NULL);
}

static const char *qnx_explain_missing(uint32_t features, bool *withheld)
{
	return x86_explain_missing(features, withheld, NULL);
}

/* ClockCycles() promises no order with the memory accesses around it: lfence, as in x86_tsc.h. */
static uint64_t qnx_ticks(void)
{
	__asm__ volatile("lfence" : : : "memory");
	uint64_t ticks = ClockCycles();

	__asm__ volatile("lfence" : : : "memory");
	return ticks;
}

/* Kinds of levels in CPUID leaves 0Bh and 1Fh (Intel SDM 2A, CPUID). */
enum { LEVEL_NONE, LEVEL_SMT, LEVEL_CORE, LEVEL_MODULE, LEVEL_TILE, LEVEL_DIE, LEVELS_MOST };

/* Reads how far each level shifts the id to get that of the level above. Returns false if there is
 * no such leaf. */
static bool read_levels(uint32_t leaf, struct cpu_facts *facts)
{
	uint32_t a, b, c, d, id = 0, shift = 0;

	for (uint32_t level = 0;
	     level < LEVELS_MOST && __get_cpuid_count(leaf, level, &a, &b, &c, &d); level++) {
		uint32_t kind = c >> 8 & 0xff;

		id = d;
		if (!b || kind == LEVEL_NONE)
			break;
		if (kind == LEVEL_CORE)
			facts->core = id >> shift;
		else if (kind == LEVEL_MODULE)
			facts->cluster = id >> shift;
		else if (kind == LEVEL_DIE)
			facts->die = id >> shift;
		shift = a & 31;
		facts->package = id >> shift;
	}
	if (facts->package == UNKNOWN)
		return false;
	facts->hardware_id = id;
	return true;
}

/* Returns an APIC id without the low bits in which the up to `threads` CPUs of a group differ. */
static int64_t sharing_group_id(int64_t id, uint32_t threads)
{
	while (threads > 1) {
		threads = (threads + 1) / 2;
		id >>= 1;
	}
	return id;
}

/* Intel's leaf 4 and AMD's 8000001Dh have one form: sets, ways, line and how many ids share it. */
static void read_caches(uint32_t leaf, struct cpu_facts *facts)
{
	static const char *const kinds[] = {NULL, "Data", "Instruction", "Unified"};
	uint32_t a, b, c, d;

	for (uint32_t i = 0; facts->cache_count < CPU_CACHES; i++) {
		if (!__get_cpuid_count(leaf, i, &a, &b, &c, &d) || !(a & 31) || (a & 31) > 3)
			return;
		uint32_t line = (b & 0xfff) + 1;
		uint64_t lines = (uint64_t)((b >> 22) + 1) * ((b >> 12 & 0x3ff) + 1) * (c + 1ul);

		facts->caches[facts->cache_count++] = (struct cpu_cache){
			.level = a >> 5 & 7,
			.kind = kinds[a & 31],
			.bytes = (int64_t)(lines * line),
			.line_bytes = line,
			.group = sharing_group_id(facts->hardware_id, (a >> 14 & 0xfff) + 1),
		};
	}
}

/* Fills in the facts of the CPU that the calling thread is on. */
static void qnx_ask_cpu(struct cpu_facts *facts)
{
	const uint32_t amd_caches = 0x8000001d;

	if (!read_levels(0x1f, facts) && !read_levels(0x0b, facts))
		return;
	read_caches(4, facts);
	if (!facts->cache_count)
		read_caches(amd_caches, facts);
}

#elif defined(__aarch64__)

#include <sys/syspage.h>

/* Headers without the flag leave us with what every Armv8 CPU has. */
static uint32_t qnx_features(uint32_t flags)
{
#ifdef AARCH64_CPU_FLAG_LSE
	return flags & AARCH64_CPU_FLAG_LSE ? FEATURE_LSE : 0;
#else
	(void)flags;
	return 0;
#endif
}

static const char *qnx_explain_missing(uint32_t features, bool *withheld)
{
	(void)features;
	*withheld = false;
	return NULL;
}

/* ClockCycles() promises no order with the memory accesses around it: isb, as in aarch64.c. */
static uint64_t qnx_ticks(void)
{
	__asm__ volatile("isb" : : : "memory");
	uint64_t ticks = ClockCycles();

	__asm__ volatile("isb" : : : "memory");
	return ticks;
}

/* ID registers need a privilege; what hardware_id says of clusters is the controller's to read. */
static void qnx_ask_cpu(struct cpu_facts *facts)
{
	(void)facts;
}

#endif
#endif
