/* ppc64le: loops that go through memory, 256 bytes a turn. See sweep.h. */
#include "sweep.h"

#define POINTER "b"
#define CHANGED "cr0", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8"

/* What needs POWER9 says so itself: compilers build for POWER8. */
#define POWER9(text) ".machine push\n\t.machine power9\n\t" text ".machine pop"

#define LOOP(step, turn) ".p2align 6\n1:\n\t" turn step "cmpld %[at], %[end]\n\tblt 1b\n\t"
#define STEP(base)       "addi %[" base "], %[" base "], 256\n\t"

/* Registers v0 to v7, twice; lxv and stxv count them from 32. */
#define TWICE(text) ".irp o, 0,128\n\t" text ".endr\n\t"
#define LOAD(base)  EACH("lxv 32+\\i, \\o+16*\\i(%[" base "])")
#define STORE(v)    EACH("stxv 32+" v ", \\o+16*\\i(%[at])")

SWEEP(ppc64le_read_vsx, POWER9(LOOP(STEP("at"), TWICE(LOAD("at")))))
SWEEP(ppc64le_write_vsx, POWER9(LOOP(STEP("at"), "mtvsrdd 32, %[at], %[at]\n\t" TWICE(STORE("0")))))

/* Minus a register of all ones. */
SWEEP(ppc64le_modify_vsx,
      POWER9("vspltisb 8, -1\n\t" LOOP(STEP("at"),
				       TWICE(LOAD("at") EACH("vsubudm \\i, \\i, 8") STORE("\\i")))))
SWEEP(ppc64le_copy_vsx, POWER9(LOOP(STEP("at") STEP("from"), TWICE(LOAD("from") STORE("\\i")))))

/* dcbz clears a block of 128 bytes: os_features() looks at its size. */
SWEEP(ppc64le_zero_dcbz, LOOP("addi %[at], %[at], 128\n\t", "dcbz 0, %[at]\n\t"))

VARIANTS(arch_stream, {.name = "vsx", .needs = FEATURE_POWER9, .stream = LOOPS(ppc64le, vsx)},
	 {.name = "dcbz", .needs = FEATURE_DCBZ, .stream = {[OPERATION_ZERO] = ppc64le_zero_dcbz}});
