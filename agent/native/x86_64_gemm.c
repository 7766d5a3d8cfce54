/* x86_64: products of matrices on vectors. See native.h.
 *
 * A turn loads vectors of B, broadcasts a value of each row of A, and multiplies it with all of
 * them. A step is four turns. The sums stay in the first registers. What assemblers learned late is
 * written as bytes; the widest registers are never asked of the compiler, and what a CPU lacks is
 * never run: os_features(). */
#include "x86_64_amx.h"

enum { TURNS = 4 }; /* of a step */

/* The registers above 15 are the compiler's only where it was asked for AVX-512. */
#ifdef __AVX512F__
#define HIGH                                                                                       \
	, "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23", "xmm24",         \
		"xmm25", "xmm26", "xmm27", "xmm28", "xmm29", "xmm30"
#else
#define HIGH
#endif

#define VECTORS                                                                                    \
	"xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10",   \
		"xmm11", "xmm12", "xmm13", "xmm14", "xmm15" HIGH

/* Strip by strip: all sums are 0, or what C holds; then the steps; then C is what they are. It is
 * one statement, so that a strip begins while the stores of the one before are under way. a4 is row
 * 4 of A, row3 the bytes of three rows; `left`: strips to come. `store` leaves c at the next. */
#define PRODUCT(zero, load, step, store)                                                           \
	".p2align 6\n"                                                                             \
	"2:\n\t"                                                                                   \
	"mov %c[at_a](%[left]), %[a]\n\t"                                                          \
	"lea (%[a],%[row],4), %[a4]\n\t"                                                           \
	"mov %c[at_b](%[left]), %[b]\n\t"                                                          \
	"mov %c[at_steps](%[left]), %[steps]\n\t" zero "cmpq $0, %c[at_add](%[left])\n\t"          \
	"je 1f\n\t" load "1:\n\t" step "add %[step], %[a]\n\t"                                     \
	"add %[step], %[a4]\n\t"                                                                   \
	"dec %[steps]\n\t"                                                                         \
	"jne 1b\n\t" store "mov %[c], %c[at_c](%[left])\n\t"                                       \
	"mov %c[at_a_strip](%[left]), %[a]\n\t"                                                    \
	"add %[a], %c[at_a](%[left])\n\t"                                                          \
	"decq %c[at_strips](%[left])\n\t"                                                          \
	"jne 2b\n\t"                                                                               \
	"vzeroupper"

#define AT(member) [at_##member] "i"(offsetof(struct gemm_tile, member))

#define MULTIPLY(name, product)                                                                    \
	TIMED void x86_64_gemm_##name(const struct gemm_tile *tile)                                \
	{                                                                                          \
		struct gemm_tile left = *tile;                                                     \
		const char *a, *a4, *b, *ahead = tile->ahead;                                      \
		char *c;                                                                           \
		uint64_t steps;                                                                    \
                                                                                                   \
		__asm__ volatile(product                                                           \
				 : [a] "=&r"(a), [a4] "=&r"(a4), [b] "=&r"(b),                     \
				   [ahead] "+&r"(ahead), [steps] "=&r"(steps), [c] "=&r"(c)        \
				 : [left] "r"(&left), [row] "r"(tile->a_row),                      \
				   [row3] "r"(3 * tile->a_row), [step] "r"(tile->a_step),          \
				   [c_row] "r"(tile->c_row), [ahead_step] "r"(tile->ahead_step),   \
				   AT(a), AT(a_strip), AT(b), AT(c), AT(strips), AT(steps),        \
				   AT(add)                                                         \
				 : "memory", "cc", VECTORS);                                       \
	}

#define AHEAD                                                                                      \
	"prefetcht2 (%[ahead])\n\t"                                                                \
	"add %[ahead_step], %[ahead]\n\t"

/* A column of vectors of C, row by row. */
#define COLUMN(sums, from, to)                                                                     \
	"mov %c[at_c](%[left]), %[c]\n\t"                                                          \
	".irp i, " sums "\n\t"                                                                     \
	"vmovups " from ", " to "\n\t"                                                             \
	"add %[c_row], %[c]\n\t"                                                                   \
	".endr\n\t"

#define ROW_512(place, multiply, left)                                                             \
	"vbroadcastss 4*\\turn" place ", %%zmm30\n\t"                                              \
	".irp i, 0,1,2\n\t" multiply(#left "+\\i", "27+\\i") ".endr\n\t"

#define LOAD_B_512                                                                                 \
	"vmovups 192*\\turn(%[b]), %%zmm27\n\t"                                                    \
	"vmovups 192*\\turn+64(%[b]), %%zmm28\n\t"                                                 \
	"vmovups 192*\\turn+128(%[b]), %%zmm29\n\t"

#define ROWS_512(multiply)                                                                         \
	ROW_512("(%[a])", multiply, 0)                                                             \
	ROW_512("(%[a],%[row])", multiply, 3)                                                      \
	ROW_512("(%[a],%[row],2)", multiply, 6)                                                    \
	ROW_512("(%[a],%[row3])", multiply, 9)                                                     \
	ROW_512("(%[a4])", multiply, 12)                                                           \
	ROW_512("(%[a4],%[row])", multiply, 15)                                                    \
	ROW_512("(%[a4],%[row],2)", multiply, 18)                                                  \
	ROW_512("(%[a4],%[row3])", multiply, 21)                                                   \
	ROW_512("(%[a4],%[row],4)", multiply, 24)

#define STEP_512(multiply, ahead)                                                                  \
	".irp turn, 0,1,2,3\n\t" LOAD_B_512 ROWS_512(multiply) ".endr\n\t" ahead                   \
							       "add $4*192, %[b]\n\t"

#define FIRST_512  "0,3,6,9,12,15,18,21,24"
#define SECOND_512 "1,4,7,10,13,16,19,22,25"
#define THIRD_512  "2,5,8,11,14,17,20,23,26"
#define SUMS_512   FIRST_512 "," SECOND_512 "," THIRD_512

#define ZERO_512                                                                                   \
	".irp i, " SUMS_512 "\n\t"                                                                 \
	"vpxord %%zmm\\i, %%zmm\\i, %%zmm\\i\n\t"                                                  \
	".endr\n\t"

#define LOAD_512                                                                                   \
	COLUMN(FIRST_512, "(%[c])", "%%zmm\\i")                                                    \
	COLUMN(SECOND_512, "64(%[c])", "%%zmm\\i") COLUMN(THIRD_512, "128(%[c])", "%%zmm\\i")

#define STORE_512                                                                                  \
	COLUMN(FIRST_512, "%%zmm\\i", "(%[c])")                                                    \
	COLUMN(SECOND_512, "%%zmm\\i", "64(%[c])") COLUMN(THIRD_512, "%%zmm\\i", "128(%[c])")

#define PRODUCT_512(multiply, ahead)                                                               \
	PRODUCT(ZERO_512, LOAD_512, STEP_512(multiply, ahead), STORE_512)

/* Multiplies values in zmm27 and zmm30, with as many sums as the loops have. */
#define PEAK_512(multiply)                                                                         \
	ZERO_512                                                                                   \
	"vmovups (%[values]), %%zmm27\n\t"                                                         \
	"vmovups 64(%[values]), %%zmm30\n\t"                                                       \
	".p2align 6\n"                                                                             \
	"1:\n\t"                                                                                   \
	".irp i, " SUMS_512 "\n\t" multiply("\\i", "27") ".endr\n\t"                               \
							 "dec %[turns]\n\t"                        \
							 "jne 1b\n\t"                              \
							 "vzeroupper"

#define PEAK(name, loop)                                                                           \
	TIMED void x86_64_peak_##name(const void *values, uint64_t turns)                          \
	{                                                                                          \
		__asm__ volatile(loop                                                              \
				 : [turns] "+&r"(turns)                                            \
				 : [values] "r"(values)                                            \
				 : "memory", "cc", VECTORS);                                       \
	}

/* EVEX.512.0F38.W0 opcode, of zmm{b} (24 and up), zmm30 and zmm{sum}: numbers to the assembler */
#define BYTES(prefix, opcode, sum, b)                                                              \
	".byte 0x62, 0x92 - (" sum ")/8%%2*0x80 - (" sum ")/16*0x10, " prefix ", 0x40, " opcode    \
	", 0xc0 + (" sum ")%%8*8 + " b " - 24\n\t"

/* vdpbf16ps: two products of bf16 to each sum. vpdpbusd: four of bytes, those of A unsigned. */
#define FP32(sum, b) BYTES("0x0d", "0xb8", sum, b)
#define BF16(sum, b) BYTES("0x0e", "0x52", sum, b)
#define VNNI(sum, b) BYTES("0x0d", "0x50", sum, b)

MULTIPLY(avx512, PRODUCT_512(FP32, ""))
MULTIPLY(ahead_avx512, PRODUCT_512(FP32, AHEAD))
PEAK(avx512, PEAK_512(FP32))

MULTIPLY(bf16, PRODUCT_512(BF16, ""))
MULTIPLY(ahead_bf16, PRODUCT_512(BF16, AHEAD))
PEAK(bf16, PEAK_512(BF16))

MULTIPLY(vnni, PRODUCT_512(VNNI, ""))
MULTIPLY(ahead_vnni, PRODUCT_512(VNNI, AHEAD))
PEAK(vnni, PEAK_512(VNNI))

#define ROW_256(place, left, right)                                                                \
	"vbroadcastss " place ", %%ymm14\n\t"                                                      \
	"vfmadd231ps %%ymm12, %%ymm14, %%ymm" #left "\n\t"                                         \
	"vfmadd231ps %%ymm13, %%ymm14, %%ymm" #right "\n\t"

#define LOAD_B_256                                                                                 \
	"vmovups 64*\\turn(%[b]), %%ymm12\n\t"                                                     \
	"vmovups 64*\\turn+32(%[b]), %%ymm13\n\t"

#define ROWS_256                                                                                   \
	ROW_256("4*\\turn(%[a])", 0, 1)                                                            \
	ROW_256("4*\\turn(%[a],%[row])", 2, 3)                                                     \
	ROW_256("4*\\turn(%[a],%[row],2)", 4, 5)                                                   \
	ROW_256("4*\\turn(%[a],%[row3])", 6, 7)                                                    \
	ROW_256("4*\\turn(%[a4])", 8, 9)                                                           \
	ROW_256("4*\\turn(%[a4],%[row])", 10, 11)

#define STEP_256(ahead)                                                                            \
	".irp turn, 0,1,2,3\n\t" LOAD_B_256 ROWS_256 ".endr\n\t" ahead "add $4*64, %[b]\n\t"

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

#define PRODUCT_256(ahead) PRODUCT(ZERO_256, LOAD_256, STEP_256(ahead), STORE_256)

MULTIPLY(avx2, PRODUCT_256(""))
MULTIPLY(ahead_avx2, PRODUCT_256(AHEAD))
PEAK(avx2, ZERO_256 "vmovups (%[values]), %%ymm12\n\t"
		    "vmovups 32(%[values]), %%ymm14\n\t"
		    ".p2align 6\n"
		    "1:\n\t"
		    ".irp i, 0,1,2,3,4,5,6,7,8,9,10,11\n\t"
		    "vfmadd231ps %%ymm12, %%ymm14, %%ymm\\i\n\t"
		    ".endr\n\t"
		    "dec %[turns]\n\t"
		    "jne 1b\n\t"
		    "vzeroupper")

#define GEMM_512(name, type, side)                                                                 \
	GEMM_OF(x86_64, name, type, 9, 48, TURNS *(side), side, true, 27 * 16 * 2 * (side))

static const struct gemm avx512 = GEMM_512(avx512, GEMM_FP32, 1);
static const struct gemm avx512_bf16 = GEMM_512(bf16, GEMM_BF16, 2);
static const struct gemm avx512_vnni = GEMM_512(vnni, GEMM_UINT8, 4);
static const struct gemm avx2 = GEMM_OF(x86_64, avx2, GEMM_FP32, 6, 16, TURNS, 1, true, 12 * 8 * 2);

VARIANTS(arch_gemm, {.name = "amx-bf16", .needs = FEATURE_AMX_BF16, .gemm = &x86_64_amx_bf16},
	 {.name = "amx-int8", .needs = FEATURE_AMX_INT8, .gemm = &x86_64_amx_int8},
	 {.name = "avx512-bf16", .needs = FEATURE_AVX512_BF16, .gemm = &avx512_bf16},
	 {.name = "avx512-vnni", .needs = FEATURE_AVX512_VNNI, .gemm = &avx512_vnni},
	 {.name = "avx512", .needs = FEATURE_AVX512, .gemm = &avx512},
	 {.name = "avx2", .needs = FEATURE_FMA, .gemm = &avx2});
