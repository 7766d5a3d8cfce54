/* loongarch64: loops that go through memory, 256 bytes a turn. See sweep.h.
 *
 * Instructions of LSX and LASX are written by their encodings, because assemblers before binutils
 * 2.41 do not know them; so their pointers have fixed registers. */
#include "sweep.h"

#define POINTER "r"
#define CHANGED                                                                                    \
	"$t0", "$t1", "$t2", "$t3", "$t4", "$t5", "$t6", "$t7", "$f0", "$f1", "$f2", "$f3", "$f4", \
		"$f5", "$f6", "$f7"

/* `at` in $t0, whose number is 12, and `from` in $t1. */
#define VECTORS(turn)                                                                              \
	"move $t0, %[at]\n\tmove $t1, %[from]\n\t.p2align 6\n1:\n\t" turn                          \
	"addi.d $t0, $t0, 256\n\tbltu $t0, %[end], 1b\n\tmove %[at], $t0\n\t"
#define AT    " | 12 << 5 | "
#define FROM  " | 13 << 5 | "
#define ALONG "addi.d $t1, $t1, 256\n\t"

/* xvld, xvst, xvaddi.du by 1, xvreplgr2vr.d of the address to register 0 */
#define LASX_LOAD(base) EACH(".word 0x2c800000 | (32*\\i) << 10" base "\\i")
#define LASX_STORE(x)   EACH(".word 0x2cc00000 | (32*\\i) << 10" AT x)
#define LASX_ADD_ONE    EACH(".word 0x768b8000 | 1 << 10 | \\i << 5 | \\i")
#define LASX_ADDRESS    ".word 0x769f0c00" AT "0\n\t"

SWEEP(loongarch64_read_lasx, VECTORS(LASX_LOAD(AT)))
SWEEP(loongarch64_write_lasx, VECTORS(LASX_ADDRESS LASX_STORE("0")))
SWEEP(loongarch64_modify_lasx, VECTORS(LASX_LOAD(AT) LASX_ADD_ONE LASX_STORE("\\i")))
SWEEP(loongarch64_copy_lasx, VECTORS(LASX_LOAD(FROM) LASX_STORE("\\i") ALONG))

#define TWICE(text) ".irp o, 0,128\n\t" text ".endr\n\t"

/* vld, vst, vaddi.du by 1, vreplgr2vr.d of the address to register 0 */
#define LSX_LOAD(base) EACH(".word 0x2c000000 | (\\o+16*\\i) << 10" base "\\i")
#define LSX_STORE(x)   EACH(".word 0x2c400000 | (\\o+16*\\i) << 10" AT x)
#define LSX_ADD_ONE    EACH(".word 0x728b8000 | 1 << 10 | \\i << 5 | \\i")
#define LSX_ADDRESS    ".word 0x729f0c00" AT "0\n\t"

SWEEP(loongarch64_read_lsx, VECTORS(TWICE(LSX_LOAD(AT))))
SWEEP(loongarch64_write_lsx, VECTORS(LSX_ADDRESS TWICE(LSX_STORE("0"))))
SWEEP(loongarch64_modify_lsx, VECTORS(TWICE(LSX_LOAD(AT) LSX_ADD_ONE LSX_STORE("\\i"))))
SWEEP(loongarch64_copy_lsx, VECTORS(TWICE(LSX_LOAD(FROM) LSX_STORE("\\i")) ALONG))

#define LOOP(turn) ".p2align 6\n1:\n\t" turn "bltu %[at], %[end], 1b\n\t"
#define STEP(base) "addi.d %[" base "], %[" base "], 256\n\t"

/* Registers $t0 to $t7, 4 times. */
#define FOUR_TIMES(text) ".irp o, 0,64,128,192\n\t" text ".endr\n\t"
#define LOAD(base)       EACH("ld.d $t\\i, %[" base "], \\o+8*\\i")
#define STORE(word)      EACH("st.d " word ", %[at], \\o+8*\\i")

SWEEP(loongarch64_read_ld, LOOP(FOUR_TIMES(LOAD("at")) STEP("at")))
SWEEP(loongarch64_write_ld, LOOP(FOUR_TIMES(STORE("%[at]")) STEP("at")))
SWEEP(loongarch64_modify_ld,
      LOOP(FOUR_TIMES(LOAD("at") EACH("addi.d $t\\i, $t\\i, 1") STORE("$t\\i")) STEP("at")))
SWEEP(loongarch64_copy_ld, LOOP(FOUR_TIMES(LOAD("from") STORE("$t\\i")) STEP("at") STEP("from")))

VARIANTS(arch_stream, {.name = "lasx", .needs = FEATURE_LASX, .stream = LOOPS(loongarch64, lasx)},
	 {.name = "lsx", .needs = FEATURE_LSX, .stream = LOOPS(loongarch64, lsx)},
	 {.name = "ld", .stream = LOOPS(loongarch64, ld)});
