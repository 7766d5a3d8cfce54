/* aarch64: products of matrices on vectors: 8 rows by 12 columns, sums in v8 to v31. See native.h.
 *
 * `neon` multiplies three vectors of B with one value of each row. `bfmmla` and `i8mm` multiply 2
 * by 2 results at once, of two rows by two columns; what assemblers learned late is a number. */
#include "native.h"

#define VECTORS                                                                                    \
	"v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13",    \
		"v14", "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24",       \
		"v25", "v26", "v27", "v28", "v29", "v30", "v31"

#define SUMS "8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31"
#define ZERO ".irp i, " SUMS "\n\tmovi v\\i\\().2d, #0\n\t.endr\n\t"

#define PRODUCT(load, turn, store)                                                                 \
	ZERO "cbz %[add], 1f\n\t" load "mov %[c], %[first]\n"                                      \
	     "1:\n\t" turn "add %[a0], %[a0], %[step]\n\t"                                         \
	     "add %[a2], %[a2], %[step]\n\t"                                                       \
	     "add %[a4], %[a4], %[step]\n\t"                                                       \
	     "add %[a6], %[a6], %[step]\n\t"                                                       \
	     "sub %[steps], %[steps], #1\n\t"                                                      \
	     "cbnz %[steps], 1b\n\t" store

#define CHANGED "memory", "cc", VECTORS

#define GEMM(name, product, changed)                                                               \
	TIMED void aarch64_gemm_##name(const struct gemm_tile *tile)                               \
	{                                                                                          \
		const char *a0 = tile->a, *a2 = tile->a + 2 * tile->a_row,                         \
			   *a4 = tile->a + 4 * tile->a_row, *a6 = tile->a + 6 * tile->a_row,       \
			   *b = tile->b, *ahead = tile->ahead;                                     \
		char *c = tile->c;                                                                 \
		uint64_t steps = tile->steps;                                                      \
                                                                                                   \
		__asm__ volatile(                                                                  \
			product                                                                    \
			: [a0] "+&r"(a0), [a2] "+&r"(a2), [a4] "+&r"(a4), [a6] "+&r"(a6),          \
			  [b] "+&r"(b), [ahead] "+&r"(ahead), [c] "+&r"(c), [steps] "+&r"(steps)   \
			: [row] "r"(tile->a_row), [step] "r"(tile->a_step),                        \
			  [c_row] "r"(tile->c_row), [add] "r"(tile->add),                          \
			  [ahead_step] "r"(tile->ahead_step), [first] "r"(tile->c)                 \
			: changed);                                                                \
	}

/* Multiplies values in v0 and v6, with as many sums as the loops have. */
#define PEAK(name, instruction)                                                                    \
	TIMED void aarch64_peak_##name(const void *values, uint64_t turns)                         \
	{                                                                                          \
		__asm__ volatile(ZERO "ldp q0, q6, [%[values]]\n"                                  \
				      "1:\n\t"                                                     \
				      ".irp i, " SUMS "\n\t" instruction "\n\t"                    \
				      ".endr\n\t"                                                  \
				      "sub %[turns], %[turns], #1\n\t"                             \
				      "cbnz %[turns], 1b"                                          \
				 : [turns] "+&r"(turns)                                            \
				 : [values] "r"(values)                                            \
				 : CHANGED);                                                       \
	}

#define AHEAD                                                                                      \
	"prfm pldl2keep, [%[ahead]]\n\t"                                                           \
	"add %[ahead], %[ahead], %[ahead_step]\n\t"

#define ROW(place, i, j, k)                                                                        \
	"ldr s3, " place "\n\t"                                                                    \
	"fmla v" #i ".4s, v0.4s, v3.s[0]\n\t"                                                      \
	"fmla v" #j ".4s, v1.4s, v3.s[0]\n\t"                                                      \
	"fmla v" #k ".4s, v2.4s, v3.s[0]\n\t"

#define TURN_NEON(ahead)                                                                           \
	"ldp q0, q1, [%[b]]\n\t"                                                                   \
	"ldr q2, [%[b], #32]\n\t"                                                                  \
	"add %[b], %[b], #48\n\t" ROW("[%[a0]]", 8, 9, 10) ROW("[%[a0], %[row]]", 11, 12, 13)      \
		ROW("[%[a2]]", 14, 15, 16) ROW("[%[a2], %[row]]", 17, 18, 19)                      \
			ROW("[%[a4]]", 20, 21, 22) ROW("[%[a4], %[row]]", 23, 24, 25)              \
				ROW("[%[a6]]", 26, 27, 28) ROW("[%[a6], %[row]]", 29, 30, 31)      \
					ahead

#define MOVE_ROW(pair, one, i, j, k)                                                               \
	pair " q" #i ", q" #j ", [%[c]]\n\t" one " q" #k ", [%[c], #32]\n\t"                       \
	     "add %[c], %[c], %[c_row]\n\t"

#define MOVE_ROWS(pair, one)                                                                       \
	MOVE_ROW(pair, one, 8, 9, 10)                                                              \
	MOVE_ROW(pair, one, 11, 12, 13)                                                            \
	MOVE_ROW(pair, one, 14, 15, 16)                                                            \
	MOVE_ROW(pair, one, 17, 18, 19)                                                            \
	MOVE_ROW(pair, one, 20, 21, 22)                                                            \
	MOVE_ROW(pair, one, 23, 24, 25)                                                            \
	MOVE_ROW(pair, one, 26, 27, 28)                                                            \
	MOVE_ROW(pair, one, 29, 30, 31)

#define PRODUCT_NEON(ahead)                                                                        \
	PRODUCT(MOVE_ROWS("ldp", "ldr"), TURN_NEON(ahead), MOVE_ROWS("stp", "str"))

GEMM(neon, PRODUCT_NEON(""), CHANGED)
GEMM(ahead_neon, PRODUCT_NEON(AHEAD), CHANGED)
PEAK(neon, "fmla v\\i\\().4s, v0.4s, v6.s[0]")

/* bfmmla (smmla) v{sum}.4s, v6, v{b}, with the numbers added; of bf16 4 values of k, of bytes 8 */
#define BFMMLA "0x6e40ecc0"
#define SMMLA  "0x4e80a4c0"

/* Half of what a step takes of two rows, by all columns: six sums from `first` on. */
#define ROWS(code, place, first)                                                                   \
	"ldr q6, [" place "]\n\t"                                                                  \
	"ldr q7, [" place ", %[row]]\n\t\\half v6.2d, v6.2d, v7.2d\n\t"                            \
	".irp i, 0,1,2,3,4,5\n\t"                                                                  \
	".inst " code " + (\\i << 16) + \\i + " first "\n\t"                                       \
	".endr\n\t"

#define HALVES(code)                                                                               \
	".irp half, zip1,zip2\n\t"                                                                 \
	"ldp q0, q1, [%[b]]\n\t"                                                                   \
	"ldp q2, q3, [%[b], #32]\n\t"                                                              \
	"ldp q4, q5, [%[b], #64]\n\t"                                                              \
	"add %[b], %[b], #96\n\t" ROWS(code, "%[a0]", "8") ROWS(code, "%[a2]", "14")               \
		ROWS(code, "%[a4]", "20") ROWS(code, "%[a6]", "26") ".endr\n\t"

/* Two rows of C, of which four values each are two blocks. */
#define LOAD_BLOCKS(cursor, i, j)                                                                  \
	"ldr q0, [%[c], #" #cursor "]\n\t"                                                         \
	"ldr q1, [x16, #" #cursor "]\n\t"                                                          \
	"zip1 v" #i ".2d, v0.2d, v1.2d\n\t"                                                        \
	"zip2 v" #j ".2d, v0.2d, v1.2d\n\t"

#define STORE_BLOCKS(cursor, i, j)                                                                 \
	"zip1 v0.2d, v" #i ".2d, v" #j ".2d\n\t"                                                   \
	"zip2 v1.2d, v" #i ".2d, v" #j ".2d\n\t"                                                   \
	"str q0, [%[c], #" #cursor "]\n\t"                                                         \
	"str q1, [x16, #" #cursor "]\n\t"

#define TWO_ROWS(move, g, h, i, j, k, l)                                                           \
	"add x16, %[c], %[c_row]\n\t" move(0, g, h) move(16, i, j)                                 \
		move(32, k, l) "add %[c], x16, %[c_row]\n\t"

#define BLOCKS(move)                                                                               \
	TWO_ROWS(move, 8, 9, 10, 11, 12, 13)                                                       \
	TWO_ROWS(move, 14, 15, 16, 17, 18, 19)                                                     \
	TWO_ROWS(move, 20, 21, 22, 23, 24, 25) TWO_ROWS(move, 26, 27, 28, 29, 30, 31)

#define PRODUCT_BLOCKS(multiply, ahead)                                                            \
	PRODUCT(BLOCKS(LOAD_BLOCKS), HALVES(multiply) ahead, BLOCKS(STORE_BLOCKS))

#define BLOCKS_CHANGED CHANGED, "x16"

GEMM(bfmmla, PRODUCT_BLOCKS(BFMMLA, ""), BLOCKS_CHANGED)
GEMM(ahead_bfmmla, PRODUCT_BLOCKS(BFMMLA, AHEAD), BLOCKS_CHANGED)
PEAK(bfmmla, ".inst " BFMMLA " + \\i")

GEMM(i8mm, PRODUCT_BLOCKS(SMMLA, ""), BLOCKS_CHANGED)
GEMM(ahead_i8mm, PRODUCT_BLOCKS(SMMLA, AHEAD), BLOCKS_CHANGED)
PEAK(i8mm, ".inst " SMMLA " + \\i")

#define GEMM_8_12(name, type, k, side, operations)                                                 \
	GEMM_OF(aarch64, name, type, 8, 12, k, side, false, 24 * (operations))

static const struct gemm neon = GEMM_8_12(neon, GEMM_FP32, 1, 1, 4 * 2);
static const struct gemm bfmmla = GEMM_8_12(bfmmla, GEMM_BF16, 8, 4, 16 * 2);
static const struct gemm i8mm = GEMM_8_12(i8mm, GEMM_INT8, 16, 8, 32 * 2);

VARIANTS(arch_gemm, {.name = "bfmmla", .needs = FEATURE_BF16, .gemm = &bfmmla},
	 {.name = "i8mm", .needs = FEATURE_I8MM, .gemm = &i8mm}, {.name = "neon", .gemm = &neon});
