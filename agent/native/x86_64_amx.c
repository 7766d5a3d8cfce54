/*
 * x86_64: products of matrices on tiles (Intel SDM 1, chapter 18). See native.h.
 *
 * The instructions are bytes: assemblers have them since 2020 only, and no compiler flag shall
 * decide. So registers are fixed. Tiles 0 to 3 are sums, 4 and 5 rows of A, 6 and 7 columns of B:
 * 32 rows by 32 columns. A step is 64 bytes of k.
 */
#include "x86_64_gemm.h"

#define GEMM static __attribute__((noinline)) void

/* ldtilecfg (%rax); tilerelease */
#define CONFIGURE ".byte 0xc4, 0xe2, 0x78, 0x49, 0x00\n\t"
#define RELEASE   ".byte 0xc4, 0xe2, 0x78, 0x49, 0xc0\n\t"

/* tilezero %tmm0 to %tmm3 */
#define ZERO                                                                                       \
	".byte 0xc4, 0xe2, 0x7b, 0x49, 0xc0\n\t"                                                   \
	".byte 0xc4, 0xe2, 0x7b, 0x49, 0xc8\n\t"                                                   \
	".byte 0xc4, 0xe2, 0x7b, 0x49, 0xd0\n\t"                                                   \
	".byte 0xc4, 0xe2, 0x7b, 0x49, 0xd8\n\t"

/* tileloadd (%rsi,%rdx,1), %tmm4 and (%r8,%rdx,1), %tmm5 */
#define LOAD_A0 ".byte 0xc4, 0xe2, 0x7b, 0x4b, 0x24, 0x16\n\t"
#define LOAD_A1 ".byte 0xc4, 0xc2, 0x7b, 0x4b, 0x2c, 0x10\n\t"

/* tileloadd (%rdi,%rcx,1), %tmm6 and 0x400(%rdi,%rcx,1), %tmm7 */
#define LOAD_B0 ".byte 0xc4, 0xe2, 0x7b, 0x4b, 0x34, 0x0f\n\t"
#define LOAD_B1 ".byte 0xc4, 0xe2, 0x7b, 0x4b, 0xbc, 0x0f, 0x00, 0x04, 0x00, 0x00\n\t"

/* tileloadd (%r9,%r10,1), %tmm0; (%r11,%r10,1), %tmm1; 0x40(%r9,%r10,1), %tmm2; ... %tmm3 */
#define LOAD_C                                                                                     \
	".byte 0xc4, 0x82, 0x7b, 0x4b, 0x04, 0x11\n\t"                                             \
	".byte 0xc4, 0x82, 0x7b, 0x4b, 0x0c, 0x13\n\t"                                             \
	".byte 0xc4, 0x82, 0x7b, 0x4b, 0x54, 0x11, 0x40\n\t"                                       \
	".byte 0xc4, 0x82, 0x7b, 0x4b, 0x5c, 0x13, 0x40\n\t"

/* tilestored of the same */
#define STORE_C                                                                                    \
	".byte 0xc4, 0x82, 0x7a, 0x4b, 0x04, 0x11\n\t"                                             \
	".byte 0xc4, 0x82, 0x7a, 0x4b, 0x0c, 0x13\n\t"                                             \
	".byte 0xc4, 0x82, 0x7a, 0x4b, 0x54, 0x11, 0x40\n\t"                                       \
	".byte 0xc4, 0x82, 0x7a, 0x4b, 0x5c, 0x13, 0x40\n\t"

/* tdpbf16ps (tdpbssd) %tmm6, %tmm4, %tmm0; %tmm6, %tmm5, %tmm1; %tmm7, %tmm4, %tmm2; ... %tmm3 */
#define BF16_00 ".byte 0xc4, 0xe2, 0x4a, 0x5c, 0xc4\n\t"
#define BF16_10 ".byte 0xc4, 0xe2, 0x4a, 0x5c, 0xcd\n\t"
#define BF16_01 ".byte 0xc4, 0xe2, 0x42, 0x5c, 0xd4\n\t"
#define BF16_11 ".byte 0xc4, 0xe2, 0x42, 0x5c, 0xdd\n\t"
#define INT8_00 ".byte 0xc4, 0xe2, 0x4b, 0x5e, 0xc4\n\t"
#define INT8_10 ".byte 0xc4, 0xe2, 0x4b, 0x5e, 0xcd\n\t"
#define INT8_01 ".byte 0xc4, 0xe2, 0x43, 0x5e, 0xd4\n\t"
#define INT8_11 ".byte 0xc4, 0xe2, 0x43, 0x5e, 0xdd\n\t"

/* Each product as soon as its tiles are there. */
#define PRODUCT(kind, ahead)                                                                       \
	ZERO "test %[add], %[add]\n\t"                                                             \
	     "je 1f\n\t" LOAD_C ".p2align 6\n"                                                     \
	     "1:\n\t" LOAD_A0 LOAD_B0 kind##_00 LOAD_A1 kind##_10 LOAD_B1                          \
		     kind##_01 kind##_11 ahead "add %[step], %%rsi\n\t"                            \
					       "add %[step], %%r8\n\t"                             \
					       "add $0x800, %%rdi\n\t"                             \
					       "dec %[steps]\n\t"                                  \
					       "jne 1b\n\t" STORE_C

#define AHEAD                                                                                      \
	"prefetcht2 (%[ahead])\n\t"                                                                \
	"prefetcht2 64(%[ahead])\n\t"                                                              \
	"prefetcht2 128(%[ahead])\n\t"                                                             \
	"prefetcht2 192(%[ahead])\n\t"                                                             \
	"add %[ahead_step], %[ahead]\n\t"

#define DECLARE(tile)                                                                              \
	register const char *a0 __asm__("rsi") = (tile)->a;                                        \
	register const char *a1 __asm__("r8") = (tile)->a + 16 * (tile)->a_row;                    \
	register size_t a_row __asm__("rdx") = (tile)->a_row;                                      \
	register const char *b __asm__("rdi") = (tile)->b;                                         \
	register size_t b_row __asm__("rcx") = 64;                                                 \
	register char *c0 __asm__("r9") = (tile)->c;                                               \
	register size_t c_row __asm__("r10") = (tile)->c_row;                                      \
	register char *c1 __asm__("r11") = (tile)->c + 16 * (tile)->c_row;                         \
	const char *ahead_at = (tile)->ahead;                                                      \
	uint64_t left = (tile)->steps

#define OPERANDS(tile)                                                                             \
	: "+r"(a0), "+r"(a1), "+r"(b), [steps] "+r"(left), [ahead] "+r"(ahead_at)                  \
	: "r"(a_row), "r"(b_row), "r"(c0), "r"(c_row), "r"(c1), [step] "r"((tile)->a_step),        \
	  [add] "r"((tile)->add), [ahead_step] "r"((tile)->ahead_step)                             \
	: "memory", "cc"

GEMM x86_64_gemm_amx_bf16(const struct gemm_tile *tile)
{
	DECLARE(tile);

	__asm__ volatile(PRODUCT(BF16, "") OPERANDS(tile));
}

GEMM x86_64_gemm_ahead_amx_bf16(const struct gemm_tile *tile)
{
	DECLARE(tile);

	__asm__ volatile(PRODUCT(BF16, AHEAD) OPERANDS(tile));
}

GEMM x86_64_gemm_amx_int8(const struct gemm_tile *tile)
{
	DECLARE(tile);

	__asm__ volatile(PRODUCT(INT8, "") OPERANDS(tile));
}

GEMM x86_64_gemm_ahead_amx_int8(const struct gemm_tile *tile)
{
	DECLARE(tile);

	__asm__ volatile(PRODUCT(INT8, AHEAD) OPERANDS(tile));
}

/* ---- on tiles only --------------------------------------------------------------------------- */

enum { PRODUCTS = 16, TILE_SUMS = 16 * 16 };

#define FOUR(kind) kind##_00 kind##_10 kind##_01 kind##_11
#define PEAK(kind)                                                                                 \
	ZERO LOAD_A0 LOAD_A1 LOAD_B0 LOAD_B1 ".p2align 6\n"                                        \
					     "1:\n\t" FOUR(kind) FOUR(kind) FOUR(kind)             \
						     FOUR(kind) "dec %[turns]\n\t"                 \
								"jne 1b"

#define DECLARE_PEAK(values)                                                                       \
	register const void *a0 __asm__("rsi") = values, *a1 __asm__("r8") = values;               \
	register const void *b __asm__("rdi") = values;                                            \
	register size_t a_row __asm__("rdx") = 64, b_row __asm__("rcx") = 64

#define PEAK_OPERANDS                                                                              \
	: [turns] "+r"(turns) : "r"(a0), "r"(a1), "r"(b), "r"(a_row), "r"(b_row) : "memory", "cc"

GEMM x86_64_peak_amx_bf16(const void *values, uint64_t turns)
{
	DECLARE_PEAK(values);

	__asm__ volatile(PEAK(BF16) PEAK_OPERANDS);
}

GEMM x86_64_peak_amx_int8(const void *values, uint64_t turns)
{
	DECLARE_PEAK(values);

	__asm__ volatile(PEAK(INT8) PEAK_OPERANDS);
}

/* ---- their state ----------------------------------------------------------------------------- */

/* Palette 1: 8 tiles of 16 rows of 64 bytes. */
static const struct {
	uint8_t palette, start_row, reserved[14];
	uint16_t row_bytes[16];
	uint8_t rows[16];
} __attribute__((aligned(64))) configuration = {
	.palette = 1,
	.row_bytes = {64, 64, 64, 64, 64, 64, 64, 64},
	.rows = {16, 16, 16, 16, 16, 16, 16, 16},
};

GEMM x86_64_amx_begin(void)
{
	__asm__ volatile(CONFIGURE : : "a"(&configuration), "m"(configuration));
}

/* So that later switches of threads need not save tiles. */
GEMM x86_64_amx_end(void)
{
	__asm__ volatile(RELEASE);
}

const struct gemm x86_64_amx_bf16 = {
	.value = GEMM_BF16,
	.rows = 32,
	.columns = 32,
	.depth = 32,
	.pack = 2,
	.block = 16,
	.peak_operations = PRODUCTS * TILE_SUMS * 32 * 2,
	.multiply = x86_64_gemm_amx_bf16,
	.multiply_ahead = x86_64_gemm_ahead_amx_bf16,
	.peak = x86_64_peak_amx_bf16,
	.begin = x86_64_amx_begin,
	.end = x86_64_amx_end,
};

const struct gemm x86_64_amx_int8 = {
	.value = GEMM_INT8,
	.rows = 32,
	.columns = 32,
	.depth = 64,
	.pack = 4,
	.block = 16,
	.peak_operations = PRODUCTS * TILE_SUMS * 64 * 2,
	.multiply = x86_64_gemm_amx_int8,
	.multiply_ahead = x86_64_gemm_ahead_amx_int8,
	.peak = x86_64_peak_amx_int8,
	.begin = x86_64_amx_begin,
	.end = x86_64_amx_end,
};
