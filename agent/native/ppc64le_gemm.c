/* ppc64le: products of matrices on vectors: 8 rows by 16 columns, sums in vs32 to vs63. See
 * native.h.
 *
 * The upper half of the vector-scalar registers are v0 to v31. Those of the lower half that are
 * used, vs0 to vs11, hold what is multiplied; a function need not keep them. */
#include "native.h"

/* What needs POWER9 says so itself: compilers build for POWER8. */
#define POWER9(text) ".machine push\n\t.machine power9\n\t" text ".machine pop"

/* All four vectors of a row, whose first sum is `i`. */
#define SUMS(text)                                                                                 \
	".irp i, 32,36,40,44,48,52,56,60\n\t"                                                      \
	".irp j, 0,1,2,3\n\t" text "\n\t.endr\n\t"

#define ZERO     SUMS("xxlxor \\i+\\j, \\i+\\j, \\i+\\j") ".endr\n\t"
#define NEXT_ROW "add %[c], %[c], %[c_row]\n\t.endr\n\t"
#define LOAD     SUMS("lxv \\i+\\j, 16*\\j(%[c])") NEXT_ROW
#define STORE    SUMS("stxv \\i+\\j, 16*\\j(%[c])") NEXT_ROW

/* A value of a row in all of its register, by the four vectors of B. */
#define VALUES(first, base)                                                                        \
	"lxvwsx " #first ", 0, %[" base "]\n\t"                                                    \
	"lxvwsx " #first "+1, %[" base "], %[row]\n\t"                                             \
	"lxvwsx " #first "+2, %[" base "], %[row2]\n\t"                                            \
	"lxvwsx " #first "+3, %[" base "], %[row3]\n\t"
#define MULTIPLY SUMS("xvmaddasp \\i+\\j, 4+(\\i-32)/4, \\j") ".endr\n\t"

#define STEP                                                                                       \
	"lxv 0, 0(%[b])\n\t"                                                                       \
	"lxv 1, 16(%[b])\n\t"                                                                      \
	"lxv 2, 32(%[b])\n\t"                                                                      \
	"lxv 3, 48(%[b])\n\t" VALUES(4, "a") VALUES(8, "a4") MULTIPLY "addi %[b], %[b], 64\n\t"

#define AHEAD                                                                                      \
	"dcbt 0, %[ahead]\n\t"                                                                     \
	"add %[ahead], %[ahead], %[ahead_step]\n\t"

#define START "cmpdi %[add], 0\n\tbeq 1f\n\t" LOAD "mr %[c], %[first]\n1:\n\t"
#define END                                                                                        \
	"add %[a], %[a], %[step]\n\t"                                                              \
	"add %[a4], %[a4], %[step]\n\t"                                                            \
	"addi %[steps], %[steps], -1\n\t"                                                          \
	"cmpdi %[steps], 0\n\t"                                                                    \
	"bne 1b\n\t" STORE

#define PRODUCT(ahead) POWER9(ZERO START STEP ahead END)

#define CHANGED                                                                                    \
	"memory", "cr0", "fr0", "fr1", "fr2", "fr3", "fr4", "fr5", "fr6", "fr7", "fr8", "fr9",     \
		"fr10", "fr11", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", \
		"v11", "v12", "v13", "v14", "v15", "v16", "v17", "v18", "v19", "v20", "v21",       \
		"v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31"

#define GEMM(name, product)                                                                        \
	TIMED void ppc64le_gemm_##name(const struct gemm_tile *tile)                               \
	{                                                                                          \
		const char *a = tile->a, *a4 = tile->a + 4 * tile->a_row, *b = tile->b,            \
			   *ahead = tile->ahead;                                                   \
		char *c = tile->c;                                                                 \
		uint64_t steps = tile->steps;                                                      \
                                                                                                   \
		__asm__ volatile(product                                                           \
				 : [a] "+&b"(a), [a4] "+&b"(a4), [b] "+&b"(b),                     \
				   [ahead] "+&b"(ahead), [c] "+&b"(c), [steps] "+&b"(steps)        \
				 : [row] "b"(tile->a_row), [row2] "b"(2 * tile->a_row),            \
				   [row3] "b"(3 * tile->a_row), [step] "b"(tile->a_step),          \
				   [c_row] "b"(tile->c_row), [add] "b"(tile->add),                 \
				   [ahead_step] "b"(tile->ahead_step), [first] "b"(tile->c)        \
				 : CHANGED);                                                       \
	}

GEMM(vsx, PRODUCT(""))
GEMM(ahead_vsx, PRODUCT(AHEAD))

/* Of values in vs0 to vs11, with as many sums as the loops have. */
TIMED void ppc64le_peak_vsx(const void *values, uint64_t turns)
{
	__asm__ volatile(POWER9(ZERO ".irp i, 0,1,2,3,4,5,6,7,8,9,10,11\n\t"
				     "lxv \\i, 16*\\i(%[values])\n\t.endr\n"
				     "1:\n\t" MULTIPLY "addi %[turns], %[turns], -1\n\t"
				     "cmpdi %[turns], 0\n\t"
				     "bne 1b\n\t")
			 : [turns] "+&b"(turns)
			 : [values] "b"(values)
			 : CHANGED);
}

static const struct gemm vsx = GEMM_OF(ppc64le, vsx, GEMM_FP32, 8, 16, 1, 1, false, 32 * 4 * 2);

VARIANTS(arch_gemm, {.name = "vsx", .needs = FEATURE_POWER9, .gemm = &vsx});
