/* s390x: products of matrices on vectors: 8 rows by 12 columns, sums in v8 to v31. See native.h.
 *
 * v0 to v15 overlap floating-point registers, which are named as changed; why v16 to v31 are not:
 * native/s390x_stream.c. */
#include "native.h"

/* Arithmetic on vectors of fp32 needs a z14, and says so: compilers build for older models. */
#define Z14(text) ".machine push\n\t.machine z14\n\t" text ".machine pop"

#define SUMS "8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31\n\t"
#define ZERO ".irp i, " SUMS "vzero %%v\\i\n\t.endr\n\t"

/* C goes by in the register of A, which is loaded behind it. */
#define ROWS_OF_C(move)                                                                            \
	"lg %[a], %[first]\n\t" move("8", "10") move("11", "13") move("14", "16") move("17", "19") \
		move("20", "22") move("23", "25") move("26", "28") move("29", "31")
#define LOAD_ROW(from, to)  "vlm %%v" from ", %%v" to ", 0(%[a])\n\tag %[a], %[c_row]\n\t"
#define STORE_ROW(from, to) "vstm %%v" from ", %%v" to ", 0(%[a])\n\tag %[a], %[c_row]\n\t"

/* A value of a row in all of v3 (or the register after, in turn), by three vectors of B. */
#define ROW(value, place, i, j, k)                                                                 \
	"vlrepf %%v" #value ", 0(" place ")\n\t"                                                   \
	"vfmasb %%v" #i ", %%v" #value ", %%v0, %%v" #i "\n\t"                                     \
	"vfmasb %%v" #j ", %%v" #value ", %%v1, %%v" #j "\n\t"                                     \
	"vfmasb %%v" #k ", %%v" #value ", %%v2, %%v" #k "\n\t"

#define STEP                                                                                       \
	"vlm %%v0, %%v2, 0(%[b])\n\t"                                                              \
	"la %[b], 48(%[b])\n\t" ROW(3, "%[a]", 8, 9, 10) ROW(4, "%[row],%[a]", 11, 12, 13)         \
		ROW(5, "%[row2],%[a]", 14, 15, 16) ROW(6, "%[row3],%[a]", 17, 18, 19)              \
			ROW(7, "%[a4]", 20, 21, 22) ROW(3, "%[row],%[a4]", 23, 24, 25)             \
				ROW(4, "%[row2],%[a4]", 26, 27, 28)                                \
					ROW(5, "%[row3],%[a4]", 29, 30, 31)

/* Of a line that will be loaded from. */
#define AHEAD                                                                                      \
	"pfd 1, 0(%[ahead])\n\t"                                                                   \
	"agr %[ahead], %[ahead_step]\n\t"

#define START                                                                                      \
	ZERO "clghsi %[add], 0\n\tje 1f\n\t" ROWS_OF_C(LOAD_ROW) "1:\n\tlg %[a], %[a0]\n2:\n\t"
#define END                                                                                        \
	"agr %[a], %[step]\n\t"                                                                    \
	"agr %[a4], %[step]\n\t"                                                                   \
	"brctg %[steps], 2b\n\t" ROWS_OF_C(STORE_ROW)

#define PRODUCT(ahead) Z14(START STEP ahead END)

#define CHANGED                                                                                    \
	"memory", "cc", "f0", "f1", "f2", "f3", "f4", "f5", "f6", "f7", "f8", "f9", "f10", "f11",  \
		"f12", "f13", "f14", "f15"

#define GEMM(name, product)                                                                        \
	TIMED void s390x_gemm_##name(const struct gemm_tile *tile)                                 \
	{                                                                                          \
		struct gemm_tile left = *tile; /* in memory, as a loop has few registers */        \
		const char *at, *a4 = left.a + 4 * left.a_row;                                     \
                                                                                                   \
		__asm__ volatile(                                                                  \
			product                                                                    \
			: [a] "=&a"(at), [a4] "+&a"(a4), [b] "+&a"(left.b),                        \
			  [ahead] "+&a"(left.ahead), [steps] "+&d"(left.steps)                     \
			: [row] "a"(left.a_row), [row2] "a"(2 * left.a_row),                       \
			  [row3] "a"(3 * left.a_row), [step] "d"(left.a_step),                     \
			  [ahead_step] "d"(left.ahead_step), [a0] "m"(left.a),                     \
			  [first] "m"(left.c), [c_row] "m"(left.c_row), [add] "Q"(left.add)        \
			: CHANGED);                                                                \
	}

GEMM(vx, PRODUCT(""))
GEMM(ahead_vx, PRODUCT(AHEAD))

/* Of values in v0 and v3, with as many sums as the loops have. */
TIMED void s390x_peak_vx(const void *values, uint64_t turns)
{
	__asm__ volatile(Z14(ZERO "vlm %%v0, %%v3, 0(%[values])\n"
				  "1:\n\t"
				  ".irp i, " SUMS "vfmasb %%v\\i, %%v3, %%v0, %%v\\i\n\t"
				  ".endr\n\t"
				  "brctg %[turns], 1b\n\t")
			 : [turns] "+&d"(turns)
			 : [values] "a"(values)
			 : CHANGED);
}

static const struct gemm vx = GEMM_OF(s390x, vx, GEMM_FP32, 8, 12, 1, 1, false, 24 * 4 * 2);

VARIANTS(arch_gemm, {.name = "vx", .needs = FEATURE_VXE, .gemm = &vx});
