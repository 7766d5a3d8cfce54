/* x86_amx.h: can tiles be used here? For x86_features.h only, which has the rest. */
#ifndef FLEET_X86_AMX_H
#define FLEET_X86_AMX_H

#include "native.h"

#include <cpuid.h>
#include <stdbool.h>

/* The facts about tiles that CPUID reports (Intel SDM 2A, CPUID), and the state that the OS saves
 * (SDM 1, 13.3). */
struct amx_cpu {
	bool tile, bf16, int8, xsave;
	uint32_t saved; /* XCR0 */
	uint32_t palettes, tiles, rows, row_bytes, depth, columns;
};

static const char amx_absent[] = "the CPU has no tiles (CPUID 7.0 EDX bit 24)";

/* Returns why tiles cannot be used, as far as CPU and OS tell; null: they can. */
static const char *amx_explain_missing(const struct amx_cpu *cpu)
{
	enum { TILE_STATE = 3 << 17 };

	if (!cpu->tile)
		return amx_absent;
	if (!cpu->bf16 && !cpu->int8)
		return "the CPU multiplies neither bf16 nor int8 on tiles (CPUID 7.0 EDX bits 22 "
		       "and 25)";
	if (!cpu->xsave)
		return "the OS does not use XSAVE (CPUID 1 ECX bit 27)";
	if ((cpu->saved & TILE_STATE) != TILE_STATE)
		return "the OS does not save tiles (XCR0 bits 17 and 18)";
	if (!cpu->palettes || cpu->tiles < 8 || cpu->rows < 16 || cpu->row_bytes < 64)
		return "the CPU's tiles are less than 8 of 16 rows of 64 bytes (CPUID 1Dh)";
	if (cpu->depth < 16 || cpu->columns < 64)
		return "the CPU multiplies less than 16 rows of 64 bytes at once (CPUID 1Eh)";
	return NULL;
}

static struct amx_cpu amx_read_cpuid(uint32_t saved)
{
	struct amx_cpu cpu = {.saved = saved};
	uint32_t a, b, c, d;

	if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) {
		cpu.tile = d >> 24 & 1;
		cpu.bf16 = d >> 22 & 1;
		cpu.int8 = d >> 25 & 1;
	}
	cpu.xsave = __get_cpuid(1, &a, &b, &c, &d) && c >> 27 & 1;
	if (!cpu.tile || !__get_cpuid_count(0x1d, 0, &a, &b, &c, &d))
		return cpu;
	cpu.palettes = a;
	__cpuid_count(0x1d, 1, a, b, c, d);
	cpu.row_bytes = b & 0xffff;
	cpu.tiles = b >> 16;
	cpu.rows = c & 0xffff;
	__cpuid_count(0x1e, 0, a, b, c, d);
	cpu.depth = b & 0xff;
	cpu.columns = b >> 8 & 0xffff;
	return cpu;
}

/* Asks the OS for permission to use tiles; returns null, or why there is none. */
typedef const char *amx_permit_fn(void);

/* Returns why tiles cannot be used; null: they can. Asks the OS only once, so that the first call
 * must come before any thread starts. permit: null where the OS need not be asked. */
static const char *amx_explain_unusable(uint32_t saved, amx_permit_fn *permit)
{
	static bool asked;
	static const char *trouble;

	if (!asked) {
		const struct amx_cpu cpu = amx_read_cpuid(saved);

		trouble = amx_explain_missing(&cpu);
		if (!trouble && permit)
			trouble = permit();
		asked = true;
	}
	return trouble;
}

#endif
