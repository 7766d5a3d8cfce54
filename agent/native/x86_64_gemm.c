/*
 * x86_64: products of matrices on vectors. See native.h.
 *
 * A turn is one step of k: two vectors of B, and each row of A broadcast and multiplied with both.
 * The sums stay in the first registers. What assemblers learned late is written as bytes; the
 * widest registers are never asked of the compiler, and what a CPU lacks is never run:
 * os_features().
 */
#include "x86_64_gemm.h"

#define GEMM static __attribute__((noinline)) void

/* The registers above 15 are the compiler's only where it was asked for AVX-512. */
#ifdef __AVX512F__
#define HIGH                                                                                       \
	, "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23", "xmm24",         \
		"xmm25", "xmm26", "xmm27"
#else
#define HIGH
#endif

#define VECTORS                                                                                    \
	"xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10",   \
		"xmm11", "xmm12", "xmm13", "xmm14", "xmm15" HIGH

/* Where a loop is in its tile: a3 and a6 are rows 3 and 6 of A. */
struct walk {
	const char *a, *a3, *a6, *b, *ahead;
	uint64_t steps;
};

static struct walk walk_of(const struct gemm_tile *tile)
{
	return (struct walk){.a = tile->a,
			     .a3 = tile->a + 3 * tile->a_row,
			     .a6 = tile->a + 6 * tile->a_row,
			     .b = tile->b,
			     .ahead = tile->ahead,
			     .steps = tile->steps};
}

/* All sums are 0, or what C holds; then the turns; then C is what they are. */
#define PRODUCT(zero, load, turn, store)                                                           \
	zero "cmpq $0, %c[add](%[tile])\n\t"                                                       \
	     "je 1f\n\t" load ".p2align 6\n"                                                       \
	     "1:\n\t" turn "dec %[steps]\n\t"                                                      \
	     "jne 1b\n\t" store "vzeroupper"

#define OPERANDS(walk, tile)                                                                       \
	: [a] "+&r"((walk).a), [a3] "+&r"((walk).a3), [a6] "+&r"((walk).a6), [b] "+&r"((walk).b),  \
	  [ahead] "+&r"((walk).ahead), [steps] "+&r"((walk).steps), [c] "=&r"(c)                   \
	: [tile] "r"(tile), [row] "r"((tile)->a_row), [step] "r"((tile)->a_step),                  \
	  [c_row] "r"((tile)->c_row), [ahead_step] "r"((tile)->ahead_step),                        \
	  [add] "i"(offsetof(struct gemm_tile, add)), [c_at] "i"(offsetof(struct gemm_tile, c))    \
	: "memory", "cc", VECTORS

#define AHEAD                                                                                      \
	"prefetcht2 (%[ahead])\n\t"                                                                \
	"add %[ahead_step], %[ahead]\n\t"

/* ---- 512 bits: 8 rows by 48 columns, sums in zmm0 to zmm23, three a row ---------------------- */

#define ROW_512(place, multiply, left, middle, right)                                              \
	"vbroadcastss " place ", %%zmm27\n\t" multiply(left, 24) multiply(middle, 25)              \
		multiply(right, 26)

#define ROWS_512(multiply)                                                                         \
	ROW_512("(%[a])", multiply, 0, 1, 2)                                                       \
	ROW_512("(%[a],%[row])", multiply, 3, 4, 5)                                                \
	ROW_512("(%[a],%[row],2)", multiply, 6, 7, 8)                                              \
	ROW_512("(%[a3])", multiply, 9, 10, 11)                                                    \
	ROW_512("(%[a3],%[row])", multiply, 12, 13, 14)                                            \
	ROW_512("(%[a3],%[row],2)", multiply, 15, 16, 17)                                          \
	ROW_512("(%[a6])", multiply, 18, 19, 20)                                                   \
	ROW_512("(%[a6],%[row])", multiply, 21, 22, 23)

#define TURN_512(multiply, ahead)                                                                  \
	"vmovups (%[b]), %%zmm24\n\t"                                                              \
	"vmovups 64(%[b]), %%zmm25\n\t"                                                            \
	"vmovups 128(%[b]), %%zmm26\n\t" ROWS_512(multiply) ahead "add %[step], %[a]\n\t"          \
								  "add %[step], %[a3]\n\t"         \
								  "add %[step], %[a6]\n\t"         \
								  "add $192, %[b]\n\t"

#define FIRST_512  "0,3,6,9,12,15,18,21"
#define SECOND_512 "1,4,7,10,13,16,19,22"
#define THIRD_512  "2,5,8,11,14,17,20,23"

#define ZERO_512                                                                                   \
	".irp i, " FIRST_512 "," SECOND_512 "," THIRD_512 "\n\t"                                   \
	"vpxord %%zmm\\i, %%zmm\\i, %%zmm\\i\n\t"                                                  \
	".endr\n\t"

/* A column of vectors of C, row by row. */
#define COLUMN(sums, from, to)                                                                     \
	"mov %c[c_at](%[tile]), %[c]\n\t"                                                          \
	".irp i, " sums "\n\t"                                                                     \
	"vmovups " from ", " to "\n\t"                                                             \
	"add %[c_row], %[c]\n\t"                                                                   \
	".endr\n\t"

#define LOAD_512                                                                                   \
	COLUMN(FIRST_512, "(%[c])", "%%zmm\\i")                                                    \
	COLUMN(SECOND_512, "64(%[c])", "%%zmm\\i") COLUMN(THIRD_512, "128(%[c])", "%%zmm\\i")

#define STORE_512                                                                                  \
	COLUMN(FIRST_512, "%%zmm\\i", "(%[c])")                                                    \
	COLUMN(SECOND_512, "%%zmm\\i", "64(%[c])") COLUMN(THIRD_512, "%%zmm\\i", "128(%[c])")

#define PRODUCT_512(multiply, ahead)                                                               \
	PRODUCT(ZERO_512, LOAD_512, TURN_512(multiply, ahead), STORE_512)

#define EIGHT(multiply, a, b, c, d, e, f, g, h)                                                    \
	multiply(a, 24) multiply(b, 24) multiply(c, 24) multiply(d, 24) multiply(e, 24)            \
		multiply(f, 24) multiply(g, 24) multiply(h, 24)

/* Of values in zmm24 and zmm27, with as many sums as the loops have. */
#define PEAK_512(multiply)                                                                         \
	ZERO_512                                                                                   \
	"vmovups (%[values]), %%zmm24\n\t"                                                         \
	"vmovups 64(%[values]), %%zmm27\n\t"                                                       \
	".p2align 6\n"                                                                             \
	"1:\n\t" EIGHT(multiply, 0, 1, 2, 3, 4, 5, 6, 7)                                           \
		EIGHT(multiply, 8, 9, 10, 11, 12, 13, 14, 15)                                      \
			EIGHT(multiply, 16, 17, 18, 19, 20, 21, 22, 23) "dec %[turns]\n\t"         \
									"jne 1b\n\t"               \
									"vzeroupper"

#define PEAK_OPERANDS                                                                              \
	: [turns] "+&r"(turns) : [values] "r"(values) : "memory", "cc", VECTORS

#define FP32(sum, b) "vfmadd231ps %%zmm" #b ", %%zmm27, %%zmm" #sum "\n\t"

/* EVEX.512.0F38.W0 opcode, of zmm{b} (24 and up), zmm27 and zmm{sum} */
#define BYTES(prefix, opcode, sum, b)                                                              \
	".byte 0x62, 0x02 + (1 - " #sum "/8%%2)*0x80 + (1 - " #sum "/16)*0x10, " prefix            \
	", 0x40, " opcode ", 0xc0 + " #sum "%%8*8 + " #b " - 24\n\t"

/* vdpbf16ps: two products of bf16 to each sum. vpdpbusd: four of bytes, those of A unsigned. */
#define BF16(sum, b) BYTES("0x26", "0x52", sum, b)
#define VNNI(sum, b) BYTES("0x25", "0x50", sum, b)

GEMM x86_64_gemm_avx512(const struct gemm_tile *tile)
{
	struct walk walk = walk_of(tile);
	char *c;

	__asm__ volatile(PRODUCT_512(FP32, "") OPERANDS(walk, tile));
}

GEMM x86_64_gemm_ahead_avx512(const struct gemm_tile *tile)
{
	struct walk walk = walk_of(tile);
	char *c;

	__asm__ volatile(PRODUCT_512(FP32, AHEAD) OPERANDS(walk, tile));
}

GEMM x86_64_peak_avx512(const void *values, uint64_t turns)
{
	__asm__ volatile(PEAK_512(FP32) PEAK_OPERANDS);
}

GEMM x86_64_gemm_bf16(const struct gemm_tile *tile)
{
	struct walk walk = walk_of(tile);
	char *c;

	__asm__ volatile(PRODUCT_512(BF16, "") OPERANDS(walk, tile));
}

GEMM x86_64_gemm_ahead_bf16(const struct gemm_tile *tile)
{
	struct walk walk = walk_of(tile);
	char *c;

	__asm__ volatile(PRODUCT_512(BF16, AHEAD) OPERANDS(walk, tile));
}

GEMM x86_64_peak_bf16(const void *values, uint64_t turns)
{
	__asm__ volatile(PEAK_512(BF16) PEAK_OPERANDS);
}

GEMM x86_64_gemm_vnni(const struct gemm_tile *tile)
{
	struct walk walk = walk_of(tile);
	char *c;

	__asm__ volatile(PRODUCT_512(VNNI, "") OPERANDS(walk, tile));
}

GEMM x86_64_gemm_ahead_vnni(const struct gemm_tile *tile)
{
	struct walk walk = walk_of(tile);
	char *c;

	__asm__ volatile(PRODUCT_512(VNNI, AHEAD) OPERANDS(walk, tile));
}

GEMM x86_64_peak_vnni(const void *values, uint64_t turns)
{
	__asm__ volatile(PEAK_512(VNNI) PEAK_OPERANDS);
}

/* ---- 256 bits: 6 rows by 16 columns, sums in ymm0 to ymm11 ----------------------------------- */

#define ROW_256(place, left, right)                                                                \
	"vbroadcastss " place ", %%ymm14\n\t"                                                      \
	"vfmadd231ps %%ymm12, %%ymm14, %%ymm" #left "\n\t"                                         \
	"vfmadd231ps %%ymm13, %%ymm14, %%ymm" #right "\n\t"

#define TURN_256(ahead)                                                                            \
	"vmovups (%[b]), %%ymm12\n\t"                                                              \
	"vmovups 32(%[b]), %%ymm13\n\t" ROW_256("(%[a])", 0, 1) ROW_256("(%[a],%[row])", 2, 3)     \
		ROW_256("(%[a],%[row],2)", 4, 5) ROW_256("(%[a3])", 6, 7)                          \
			ROW_256("(%[a3],%[row])", 8, 9) ROW_256("(%[a3],%[row],2)", 10, 11) ahead  \
		"add %[step], %[a]\n\t"                                                            \
		"add %[step], %[a3]\n\t"                                                           \
		"add $64, %[b]\n\t"

#define ZERO_256                                                                                   \
	".irp i, 0,1,2,3,4,5,6,7,8,9,10,11\n\t"                                                    \
	"vxorps %%xmm\\i, %%xmm\\i, %%xmm\\i\n\t"                                                  \
	".endr\n\t"

#define LOAD_256                                                                                   \
	COLUMN("0,2,4,6,8,10", "(%[c])", "%%ymm\\i")                                               \
	COLUMN("1,3,5,7,9,11", "32(%[c])", "%%ymm\\i")

#define STORE_256                                                                                  \
	COLUMN("0,2,4,6,8,10", "%%ymm\\i", "(%[c])")                                               \
	COLUMN("1,3,5,7,9,11", "%%ymm\\i", "32(%[c])")

GEMM x86_64_gemm_avx2(const struct gemm_tile *tile)
{
	struct walk walk = walk_of(tile);
	char *c;

	__asm__ volatile(PRODUCT(ZERO_256, LOAD_256, TURN_256(""), STORE_256) OPERANDS(walk, tile));
}

GEMM x86_64_gemm_ahead_avx2(const struct gemm_tile *tile)
{
	struct walk walk = walk_of(tile);
	char *c;

	__asm__ volatile(PRODUCT(ZERO_256, LOAD_256, TURN_256(AHEAD), STORE_256)
				 OPERANDS(walk, tile));
}

GEMM x86_64_peak_avx2(const void *values, uint64_t turns)
{
	__asm__ volatile(ZERO_256 "vmovups (%[values]), %%ymm12\n\t"
				  "vmovups 32(%[values]), %%ymm14\n\t"
				  ".p2align 6\n"
				  "1:\n\t"
				  ".irp i, 0,1,2,3,4,5,6,7,8,9,10,11\n\t"
				  "vfmadd231ps %%ymm12, %%ymm14, %%ymm\\i\n\t"
				  ".endr\n\t"
				  "dec %[turns]\n\t"
				  "jne 1b\n\t"
				  "vzeroupper" PEAK_OPERANDS);
}

/* ---- the table ------------------------------------------------------------------------------- */

#define GEMM_512(kind, values, together, loop)                                                     \
	static const struct gemm kind = {.value = values,                                          \
					 .rows = 8,                                                \
					 .columns = 48,                                            \
					 .depth = together,                                        \
					 .pack = together,                                         \
					 .block = 48,                                              \
					 .peak_operations = 24 * 16 * 2 * (together),              \
					 .multiply = x86_64_gemm_##loop,                           \
					 .multiply_ahead = x86_64_gemm_ahead_##loop,               \
					 .peak = x86_64_peak_##loop}

GEMM_512(avx512, GEMM_FP32, 1, avx512);
GEMM_512(avx512_bf16, GEMM_BF16, 2, bf16);
GEMM_512(avx512_vnni, GEMM_UINT8, 4, vnni);

static const struct gemm avx2 = {
	.value = GEMM_FP32,
	.rows = 6,
	.columns = 16,
	.depth = 1,
	.pack = 1,
	.block = 16,
	.peak_operations = 12 * 8 * 2,
	.multiply = x86_64_gemm_avx2,
	.multiply_ahead = x86_64_gemm_ahead_avx2,
	.peak = x86_64_peak_avx2,
};

const struct variant arch_gemm[] = {
	{.name = "amx-bf16", .needs = FEATURE_AMX_BF16, .gemm = &x86_64_amx_bf16},
	{.name = "amx-int8", .needs = FEATURE_AMX_INT8, .gemm = &x86_64_amx_int8},
	{.name = "avx512-bf16", .needs = FEATURE_AVX512_BF16, .gemm = &avx512_bf16},
	{.name = "avx512-vnni", .needs = FEATURE_AVX512_VNNI, .gemm = &avx512_vnni},
	{.name = "avx512", .needs = FEATURE_AVX512, .gemm = &avx512},
	{.name = "avx2", .needs = FEATURE_FMA, .gemm = &avx2},
	{.name = NULL},
};
