/* s390x: loops that go through memory, 256 bytes a turn: one line. See sweep.h.
 *
 * Only v16 to v31 are used, since v0 to v15 overlap registers that a function must keep. They are
 * not named as changed, because compilers for older models do not use them, and for newer ones the
 * ABI lets every function change them. */
#include "sweep.h"

#define POINTER "a"
#define CHANGED "cc"

/* What needs a z13 says so itself: compilers build for older models. */
#define Z13(text) ".machine push\n\t.machine z13\n\t" text ".machine pop"

#define LOOP(step, turn) ".p2align 6\n1:\n\t" turn step "clgr %[at], %[end]\n\tjl 1b\n\t"
#define STEP(base)       "aghi %[" base "], 256\n\t"

SWEEP(s390x_read_vx, Z13(LOOP(STEP("at"), "vlm %%v16, %%v31, 0(%[at])\n\t")))

/* The address at first fills all registers, and then, in each turn, v16: no two lines are alike. */
SWEEP(s390x_write_vx,
      Z13(".irp i, 17,18,19,20,21,22,23,24,25,26,27,28,29,30,31\n\t"
	  "vlvgp %%v\\i, %[at], %[at]\n\t.endr\n\t" LOOP(STEP("at"),
							 "vlvgp %%v16, %[at], %[at]\n\t"
							 "vstm %%v16, %%v31, 0(%[at])\n\t")))

/* Minus a register of all ones, in two halves. */
SWEEP(s390x_modify_vx,
      Z13("vone %%v24\n\t" LOOP(STEP("at"), ".irp o, 0,128\n\t"
					    "vlm %%v16, %%v23, \\o(%[at])\n\t"
					    ".irp i, 16,17,18,19,20,21,22,23\n\t"
					    "vsg %%v\\i, %%v\\i, %%v24\n\t.endr\n\t"
					    "vstm %%v16, %%v23, \\o(%[at])\n\t.endr\n\t")))
SWEEP(s390x_copy_vx, Z13(LOOP(STEP("at") STEP("from"), "vlm %%v16, %%v31, 0(%[from])\n\t"
						       "vstm %%v16, %%v31, 0(%[at])\n\t")))

SWEEP(s390x_zero_xc, LOOP(STEP("at"), "xc 0(256, %[at]), 0(%[at])\n\t"))
SWEEP(s390x_copy_mvc, LOOP(STEP("at") STEP("from"), "mvc 0(256, %[at]), 0(%[from])\n\t"))

VARIANTS(arch_stream, {.name = "vx", .needs = FEATURE_VX, .stream = LOOPS(s390x, vx)},
	 {.name = "mvc", .stream = {[OPERATION_COPY] = s390x_copy_mvc}},
	 {.name = "xc", .stream = {[OPERATION_ZERO] = s390x_zero_xc}});
