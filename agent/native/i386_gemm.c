/* i386: products of matrices on vectors: 2 rows by 12 columns, sums in xmm0 to xmm5. See native.h.
 *
 * SSE2 has no fused multiply-add: a product takes two instructions and a register. Which registers
 * are free: native/i386.c; why those of vectors are not named: native/i386_stream.c. */
#include "native.h"

#define ZERO ".irp i, 0,1,2,3,4,5\n\txorps %%xmm\\i, %%xmm\\i\n\t.endr\n\t"

/* C goes by in the register of A, which is loaded behind it. */
#define ROWS_OF_C(move) "mov %[c], %[a]\n\t" move("0", "1", "2") move("3", "4", "5")
#define LOAD_ROW(i, j, k)                                                                          \
	"movaps (%[a]), %%xmm" i "\n\t"                                                            \
	"movaps 16(%[a]), %%xmm" j "\n\t"                                                          \
	"movaps 32(%[a]), %%xmm" k "\n\t"                                                          \
	"add %[c_row], %[a]\n\t"
#define STORE_ROW(i, j, k)                                                                         \
	"movaps %%xmm" i ", (%[a])\n\t"                                                            \
	"movaps %%xmm" j ", 16(%[a])\n\t"                                                          \
	"movaps %%xmm" k ", 32(%[a])\n\t"                                                          \
	"add %[c_row], %[a]\n\t"

/* A value of a row by three vectors of B. */
#define MULTIPLY(at, sum)                                                                          \
	"movaps 48*\\o+" at "(%[b]), %%xmm7\n\t"                                                   \
	"mulps %%xmm6, %%xmm7\n\t"                                                                 \
	"addps %%xmm7, %%xmm" sum "\n\t"
#define ROW(place, i, j, k)                                                                        \
	"movss 4*\\o(" place "), %%xmm6\n\t"                                                       \
	"shufps $0, %%xmm6, %%xmm6\n\t" MULTIPLY("0", i) MULTIPLY("16", j) MULTIPLY("32", k)

#define STEP                                                                                       \
	".irp o, 0,1,2,3\n\t" ROW("%[a]", "0", "1", "2")                                           \
		ROW("%[a],%[row]", "3", "4", "5") ".endr\n\t"

#define AHEAD                                                                                      \
	"prefetcht2 (%[ahead])\n\t"                                                                \
	"add %[ahead_step], %[ahead]\n\t"

#define START                                                                                      \
	ZERO "cmpl $0, %[add]\n\tje 1f\n\t" ROWS_OF_C(LOAD_ROW) "1:\n\tmov %[a0], %[a]\n2:\n\t"

#define END                                                                                        \
	"add $192, %[b]\n\t"                                                                       \
	"add %[step], %[a]\n\t"                                                                    \
	"dec %[steps]\n\t"                                                                         \
	"jne 2b\n\t" ROWS_OF_C(STORE_ROW)

#define GEMM(name, product)                                                                        \
	TIMED void i386_gemm_##name(const struct gemm_tile *tile)                                  \
	{                                                                                          \
		struct gemm_tile left = *tile; /* in memory, as a loop has few registers */        \
		uint32_t steps = (uint32_t)left.steps;                                             \
		const char *at;                                                                    \
                                                                                                   \
		__asm__ volatile(product                                                           \
				 : [a] "=&r"(at), [b] "+&r"(left.b), [steps] "+&r"(steps),         \
				   [ahead] "+&r"(left.ahead)                                       \
				 : [row] "r"(left.a_row), [a0] "m"(left.a), [c] "m"(left.c),       \
				   [step] "m"(left.a_step), [c_row] "m"(left.c_row),               \
				   [add] "m"(left.add), [ahead_step] "m"(left.ahead_step)          \
				 : "memory", "cc");                                                \
	}

GEMM(sse2, START STEP END)
GEMM(ahead_sse2, START STEP AHEAD END)

/* Of values in xmm7, with as many sums as the loops have. Fewer turns than 2^32 are asked for. */
TIMED void i386_peak_sse2(const void *values, uint64_t turns)
{
	uint32_t left = (uint32_t)turns;

	__asm__ volatile(ZERO "movaps (%[values]), %%xmm7\n"
			      "1:\n\t"
			      ".irp i, 0,1,2,3,4,5\n\t"
			      "movaps %%xmm7, %%xmm6\n\t"
			      "mulps %%xmm7, %%xmm6\n\t"
			      "addps %%xmm6, %%xmm\\i\n\t"
			      ".endr\n\t"
			      "dec %[turns]\n\t"
			      "jne 1b"
			 : [turns] "+&r"(left)
			 : [values] "r"(values)
			 : "memory", "cc");
}

static const struct gemm sse2 = GEMM_OF(i386, sse2, GEMM_FP32, 2, 12, 4, 1, false, 6 * 4 * 2);

VARIANTS(arch_gemm, {.name = "sse2", .needs = FEATURE_SSE2, .gemm = &sse2});
