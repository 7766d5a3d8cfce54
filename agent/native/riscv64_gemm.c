/* riscv64: products of matrices on vectors: 6 rows by 16 columns, sums in v8 to v31. See native.h.
 *
 * Sixteen columns are one group of registers: 4 of 128 bits, 2 of 256, 1 of 512, half of 1024. So
 * one loop fills vectors of every length; groups begin at each fourth register, whatever they take.
 * In-order cores wait for loads, so both matrices are loaded a turn before they are needed.
 *
 * Encodings, and registers that are not named: see native/riscv64_stream.c. */
#include "native.h"

enum { COLUMNS = 16, PEAK_UNROLLED = 4 };

/* A vtype: elements of 32 bits, and the shortest group that holds 16 of them; ta, ma. */
static uint64_t sixteen_columns(void)
{
	enum { HALF = 7, ONE = 0, TWO = 1, FOUR = 2 };
	uint64_t vector_bytes, group;

	__asm__ volatile("csrr %0, 0xc22" : "=r"(vector_bytes)); /* vlenb */
	switch (vector_bytes) {
	case 16:
		group = FOUR;
		break;
	case 32:
		group = TWO;
		break;
	case 64:
		group = ONE;
		break;
	default:
		group = HALF;
	}
	return 0xd0 | group;
}

/* vsetvl x0, columns, type */
#define GROUPS ".insn r 0x57, 7, 0x40, x0, %[columns], %[type]\n\t"

/* vmv.v.i v, 0; vle32.v v, (base); vse32.v v, (base) */
#define ZERO(v)        ".insn i 0x57, 3, x" v ", x0, 0x5e0\n\t"
#define LOAD(v, base)  ".insn i 0x07, 6, x" v ", %[" base "], 0x20\n\t"
#define STORE(v, base) ".insn i 0x27, 6, x" v ", %[" base "], 0x20\n\t"

#define SUMS(text) ".irp i, 8,12,16,20,24,28\n\t" text ".endr\n\t"
#define ROWS(text) text(0) text(1) text(2) text(3) text(4) text(5)
#define NEXT_ROW   "add %[c], %[c], %[c_row]\n\t"

/* vfmacc.vf sum, value, b: the values of one turn are in fa0 to fa5, of the next in ft0 to ft5. */
#define MULTIPLY(sum, value, b)    ".insn r 0x57, 5, 0x59, x" sum ", x" value ", x" b "\n\t"
#define LOAD_VALUE(value, row, at) "flw f" value #row ", " at "(%[a" #row "])\n\t"
#define FA                         "1"
#define FT                         ""
#define FA_0(row)                  LOAD_VALUE(FA, row, "0")
#define FT_4(row)                  LOAD_VALUE(FT, row, "4")
#define FA_8(row)                  LOAD_VALUE(FA, row, "8")
#define FT_12(row)                 LOAD_VALUE(FT, row, "12")
#define NOTHING(row)

/* What a turn multiplies; between it the values of the next are loaded. */
#define TURN(value, b, next)                                                                       \
	MULTIPLY("8", value "0", b)                                                                \
	next(0) MULTIPLY("12", value "1", b) next(1) MULTIPLY("16", value "2", b) next(2)          \
		MULTIPLY("20", value "3", b) next(3) MULTIPLY("24", value "4", b) next(4)          \
			MULTIPLY("28", value "5", b) next(5)

#define NEXT_B(v) LOAD(v, "b") "addi %[b], %[b], 64\n\t"

#define STEP                                                                                       \
	NEXT_B("0")                                                                                \
	NEXT_B("4")                                                                                \
	ROWS(FA_0)                                                                                 \
	TURN(FA, "0", FT_4)                                                                        \
	NEXT_B("0")                                                                                \
	TURN(FT, "4", FA_8) NEXT_B("4") TURN(FA, "0", FT_12) TURN(FT, "4", NOTHING)

/* prefetch.r of Zicbop: elsewhere it does nothing. */
#define AHEAD                                                                                      \
	"ori x0, %[ahead], 1\n\t"                                                                  \
	"add %[ahead], %[ahead], %[ahead_step]\n\t"

#define START                                                                                      \
	GROUPS SUMS(ZERO("\\i")) "beqz %[add], 1f\n\t" SUMS(                                       \
		LOAD("\\i", "c") NEXT_ROW) "mv %[c], %[first]\n1:\n\t"

#define ADVANCE(row) "add %[a" #row "], %[a" #row "], %[step]\n\t"

#define END                                                                                        \
	"addi %[steps], %[steps], -1\n\t"                                                          \
	"bnez %[steps], 1b\n\t" SUMS(STORE("\\i", "c") NEXT_ROW)

#define PRODUCT(ahead) START STEP ahead ROWS(ADVANCE) END

#define CHANGED                                                                                    \
	"memory", "fa0", "fa1", "fa2", "fa3", "fa4", "fa5", "ft0", "ft1", "ft2", "ft3", "ft4", "ft5"

#define GEMM(name, product)                                                                        \
	TIMED void riscv64_gemm_##name(const struct gemm_tile *tile)                               \
	{                                                                                          \
		const char *a0 = tile->a, *a1 = tile->a + tile->a_row,                             \
			   *a2 = tile->a + 2 * tile->a_row, *a3 = tile->a + 3 * tile->a_row,       \
			   *a4 = tile->a + 4 * tile->a_row, *a5 = tile->a + 5 * tile->a_row,       \
			   *b = tile->b, *ahead = tile->ahead;                                     \
		char *c = tile->c;                                                                 \
		uint64_t steps = tile->steps;                                                      \
                                                                                                   \
		__asm__ volatile(product                                                           \
				 : [a0] "+&r"(a0), [a1] "+&r"(a1), [a2] "+&r"(a2), [a3] "+&r"(a3), \
				   [a4] "+&r"(a4), [a5] "+&r"(a5), [b] "+&r"(b),                   \
				   [ahead] "+&r"(ahead), [c] "+&r"(c), [steps] "+&r"(steps)        \
				 : [columns] "r"(COLUMNS), [type] "r"(sixteen_columns()),          \
				   [step] "r"(tile->a_step), [c_row] "r"(tile->c_row),             \
				   [add] "r"(tile->add), [ahead_step] "r"(tile->ahead_step),       \
				   [first] "r"(tile->c)                                            \
				 : CHANGED);                                                       \
	}

GEMM(rvv, PRODUCT(""))
GEMM(ahead_rvv, PRODUCT(AHEAD))

#define SAME(row) "flw fa" #row ", 64(%[values])\n\t"

/* Of values in fa0 to fa5 and v0, with as many sums as the loops have. */
TIMED void riscv64_peak_rvv(const void *values, uint64_t turns)
{
	__asm__ volatile(
		GROUPS SUMS(ZERO("\\i")) LOAD("0", "values") ROWS(
			SAME) "1:\n\t"
			      ".rept 4\n\t" TURN(FA, "0", NOTHING) ".endr\n\t"
								   "addi %[turns], %[turns], -1\n\t"
								   "bnez %[turns], 1b"
		: [turns] "+&r"(turns)
		: [columns] "r"(COLUMNS), [type] "r"(sixteen_columns()), [values] "r"(values)
		: CHANGED);
}

static const struct gemm rvv =
	GEMM_OF(riscv64, rvv, GEMM_FP32, 6, COLUMNS, 4, 1, false, PEAK_UNROLLED * 6 * COLUMNS * 2);

VARIANTS(arch_gemm, {.name = "rvv", .needs = FEATURE_RVV, .gemm = &rvv});
