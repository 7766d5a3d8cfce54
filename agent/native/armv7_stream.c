/* armv7: loops that go through memory, 256 bytes a turn. See sweep.h.
 *
 * d16 to d31 are not named as changed, because compilers for smaller units do not know them, and
 * for larger ones the ABI lets every function change them; d8 to d15 a function must keep. */
#include "sweep.h"

#define POINTER "r"
#define CHANGED "cc", "d0", "d1", "d2", "d3", "d4", "d5", "d6", "d7"

/* What needs Advanced SIMD says so itself; the rest of the file may then use it as well. */
#define NEON(text) ".fpu neon\n\t" text

/* Loads and stores move the pointer on. */
#define LOOP(turn) ".p2align 6\n1:\n\t" turn "cmp %[at], %[end]\n\tblo 1b\n\t"
#define LOW        "{d0-d7}\n\t"
#define HIGH       "{d16-d23}\n\t"

SWEEP(armv7_read_neon,
      NEON(LOOP(".rept 2\n\tvldmia %[at]!, " LOW "vldmia %[at]!, " HIGH ".endr\n\t")))

/* The address in all words of d0 to d7, which are q0 to q3. */
SWEEP(armv7_write_neon, NEON(LOOP(".irp q, q0,q1,q2,q3\n\tvdup.32 \\q, %[at]\n\t.endr\n\t"
				  ".rept 4\n\tvstmia %[at]!, " LOW ".endr\n\t")))

/* Minus a register of all ones. vldmia without ! leaves the pointer where it is. */
SWEEP(armv7_modify_neon,
      NEON("vmov.i8 q12, #255\n\t" LOOP(".rept 4\n\tvldmia %[at], " LOW ".irp q, q0,q1,q2,q3\n\t"
					"vsub.i32 \\q, \\q, q12\n\t.endr\n\tvstmia %[at]!, " LOW
					".endr\n\t")))
SWEEP(armv7_copy_neon, NEON(LOOP(".rept 2\n\tvldmia %[from]!, " LOW "vldmia %[from]!, " HIGH
				 "vstmia %[at]!, " LOW "vstmia %[at]!, " HIGH ".endr\n\t")))

VARIANTS(arch_stream, {.name = "neon", .needs = FEATURE_NEON, .stream = LOOPS(armv7, neon)});
