/* riscv64: loops that go through memory, 512 bytes a turn by vectors and 256 by words. See sweep.h.
 *
 * Instructions of V and Zicboz are written by their encodings, because assemblers before binutils
 * 2.38 do not know them. No vector register is named as changed, because compilers without V do not
 * know their names, and with V the ABI lets every function change all. */
#include "sweep.h"

#define POINTER "r"
#define CHANGED "t0", "t1", "t2", "a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7"

#define LOOP(turn) ".p2align 6\n1:\n\t" turn "bltu %[at], %[end], 1b\n\t"

/* Elements of one byte, 8 registers a group: t0 is how many bytes a group takes. 512 is asked for,
 * so that 4 groups divide 2 KiB; VLMAX, a power of two of at least 128, may be less. */
#define GROUPS "li t1, 512\n\t" BYTES
#define BYTES  ".insn i 0x57, 7, t0, t1, 0xc3\n\t" /* vsetvli t0, t1, e8, m8, ta, ma */

/* The same for the groups v0, v8, v16 and v24. */
#define GROUPED(text) ".irp i, 0,8,16,24\n\t" text "\n\t.endr\n\t"
#define LOAD(base)    ".insn i 0x07, 0, x\\i, %[" base "], 0x20\n\t" /* vle8.v v\i, (base) */
#define STORE(v)      ".insn i 0x27, 0, x" v ", %[at], 0x20\n\t"     /* vse8.v v, (at) */
#define STEP(base)    "add %[" base "], %[" base "], t0\n\t"

/* ntl.all, a hint to the access that follows: it will not be needed again in any cache. */
#define NTL "add x0, x0, t0\n\t"

/* The address in all words of group v0: vsetvli t2, t1, e64, m8, ta, ma; vmv.v.x v0, at. */
#define ADDRESS ".insn i 0x57, 7, t2, t1, 0xdb\n\t.insn i 0x57, 4, x0, %[at], 0x5e0\n\t" BYTES

SWEEP(riscv64_read_rvv, GROUPS LOOP(GROUPED(LOAD("at") STEP("at"))))
SWEEP(riscv64_write_rvv, GROUPS LOOP(ADDRESS GROUPED(STORE("0") STEP("at"))))
SWEEP(riscv64_nt_rvv, GROUPS LOOP(ADDRESS GROUPED(NTL STORE("0") STEP("at"))))

/* vadd.vi v, v, 1 */
#define ADD_ONE ".insn i 0x57, 3, x\\i, x1, 0x20+\\i\n\t"

SWEEP(riscv64_modify_rvv, GROUPS LOOP(GROUPED(LOAD("at") ADD_ONE STORE("\\i") STEP("at"))))
SWEEP(riscv64_copy_rvv,
      GROUPS LOOP(GROUPED(LOAD("from") STEP("from")) GROUPED(STORE("\\i") STEP("at"))))
SWEEP(riscv64_ntcopy_rvv,
      GROUPS LOOP(GROUPED(LOAD("from") STEP("from")) GROUPED(NTL STORE("\\i") STEP("at"))))

/* Registers a0 to a7, which are x10 to x17, 4 times. */
#define FOUR_TIMES(text) ".irp o, 0,64,128,192\n\t" text ".endr\n\t"
#define LOAD_WORD(base)  "ld x1\\i, \\o+8*\\i(%[" base "])"
#define STORE_WORD(word) "sd " word ", \\o+8*\\i(%[at])"
#define STEP_256(base)   "addi %[" base "], %[" base "], 256\n\t"

SWEEP(riscv64_read_ld, LOOP(FOUR_TIMES(EACH(LOAD_WORD("at"))) STEP_256("at")))
SWEEP(riscv64_write_ld, LOOP(FOUR_TIMES(EACH(STORE_WORD("%[at]"))) STEP_256("at")))
SWEEP(riscv64_nt_ld, LOOP(FOUR_TIMES(EACH(NTL STORE_WORD("%[at]"))) STEP_256("at")))
SWEEP(riscv64_modify_ld, LOOP(FOUR_TIMES(EACH(LOAD_WORD("at")) EACH("addi x1\\i, x1\\i, 1")
						 EACH(STORE_WORD("x1\\i"))) STEP_256("at")))
SWEEP(riscv64_copy_ld, LOOP(FOUR_TIMES(EACH(LOAD_WORD("from")) EACH(STORE_WORD("x1\\i")))
				    STEP_256("at") STEP_256("from")))
SWEEP(riscv64_ntcopy_ld, LOOP(FOUR_TIMES(EACH(LOAD_WORD("from")) EACH(NTL STORE_WORD("x1\\i")))
				      STEP_256("at") STEP_256("from")))

/* cbo.zero of blocks of 64 bytes: os_features() looks at their size. */
SWEEP(riscv64_zero_cbo, LOOP(".insn i 0x0f, 2, x0, %[at], 4\n\taddi %[at], %[at], 64\n\t"))

VARIANTS(arch_stream, {.name = "rvv", .needs = FEATURE_RVV, .stream = LOOPS_AND_NT(riscv64, rvv)},
	 {.name = "ld", .stream = LOOPS_AND_NT(riscv64, ld)},
	 {.name = "cbo",
	  .needs = FEATURE_CBO_ZERO,
	  .stream = {[OPERATION_ZERO] = riscv64_zero_cbo}});
