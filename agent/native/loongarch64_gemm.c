/* loongarch64: products of matrices on vectors: 8 rows by 24 columns, sums in xr8 to xr31. See
 * native.h.
 *
 * Instructions of LASX are written by their encodings, because assemblers before binutils 2.41 do
 * not know them; so their pointers have fixed registers. */
#include "native.h"

enum { COLUMNS = 24 };

/* The rows of A are in $t0 to $t7, B is in $t8. */
#define ROWS(text)  ".irp i, 0,1,2,3,4,5,6,7\n\t" text ".endr\n\t"
#define THREE(text) ".irp j, 0,1,2\n\t" text "\n\t.endr\n\t"

/* xvxor.v of a register with itself; xvld and xvst of `j` vectors from a register's address on */
#define ZERO(x)       ".word 0x75270000 | (" x ") << 10 | (" x ") << 5 | (" x ")"
#define LOAD(x, at)   ".word 0x2c800000 | (" at ") << 10 | (" x ")"
#define STORE(x, at)  ".word 0x2cc00000 | (" at ") << 10 | (" x ")"
#define SUM           "8+3*\\i+\\j"
#define VALUE         "3+\\i%%5"
#define T0            " | 12 << 5"
#define T8            " | 20 << 5"
#define NEXT_ROW_OF_C "add.d $t0, $t0, %[c_row]\n\t"

/* xvldrepl.w of a value of a row; xvfmadd.s sum, value, b, sum */
#define LOAD_VALUE ".word 0x32200000 | \\o << 10 | (12+\\i) << 5 | (" VALUE ")\n\t"
#define MULTIPLY   ".word 0x0a100000 | (" SUM ") << 15 | \\j << 10 | (" VALUE ") << 5 | (" SUM ")"

#define STEP                                                                                       \
	".irp o, 0,1,2,3\n\t" THREE(LOAD("\\j", "96*\\o+32*\\j") T8)                               \
		ROWS(LOAD_VALUE THREE(MULTIPLY)) ".endr\n\t"

#define AHEAD                                                                                      \
	"preld 0, %[ahead], 0\n\t"                                                                 \
	"add.d %[ahead], %[ahead], %[ahead_step]\n\t"

#define START                                                                                      \
	ROWS(THREE(ZERO(SUM)))                                                                     \
	"beqz %[add], 1f\n\t"                                                                      \
	"move $t0, %[c]\n\t" ROWS(THREE(LOAD(SUM, "32*\\j") T0)                                    \
					  NEXT_ROW_OF_C) "1:\n\t"                                  \
							 "move $t8, %[b]\n\t"                      \
							 "move $t0, %[a]\n\t"                      \
							 "add.d $t1, $t0, %[row]\n\t"              \
							 "add.d $t2, $t1, %[row]\n\t"              \
							 "add.d $t3, $t2, %[row]\n\t"              \
							 "add.d $t4, $t3, %[row]\n\t"              \
							 "add.d $t5, $t4, %[row]\n\t"              \
							 "add.d $t6, $t5, %[row]\n\t"              \
							 "add.d $t7, $t6, %[row]\n\t"              \
							 "2:\n\t"

#define END                                                                                        \
	"addi.d $t8, $t8, 384\n\t" ROWS(                                                           \
		"add.d $t\\i, $t\\i, %[step]\n\t") "addi.d %[steps], %[steps], -1\n\t"             \
						   "bnez %[steps], 2b\n\t"                         \
						   "move $t0, %[c]\n\t" ROWS(THREE(                \
							   STORE(SUM, "32*\\j") T0) NEXT_ROW_OF_C)

#define PRODUCT(ahead) START STEP ahead END

#define CHANGED                                                                                    \
	"memory", "$t0", "$t1", "$t2", "$t3", "$t4", "$t5", "$t6", "$t7", "$t8", "$f0", "$f1",     \
		"$f2", "$f3", "$f4", "$f5", "$f6", "$f7", "$f8", "$f9", "$f10", "$f11", "$f12",    \
		"$f13", "$f14", "$f15", "$f16", "$f17", "$f18", "$f19", "$f20", "$f21", "$f22",    \
		"$f23", "$f24", "$f25", "$f26", "$f27", "$f28", "$f29", "$f30", "$f31"

#define GEMM(name, product)                                                                        \
	TIMED void loongarch64_gemm_##name(const struct gemm_tile *tile)                           \
	{                                                                                          \
		const char *ahead = tile->ahead;                                                   \
		uint64_t steps = tile->steps;                                                      \
                                                                                                   \
		__asm__ volatile(product                                                           \
				 : [ahead] "+&r"(ahead), [steps] "+&r"(steps)                      \
				 : [a] "r"(tile->a), [b] "r"(tile->b), [c] "r"(tile->c),           \
				   [row] "r"(tile->a_row), [step] "r"(tile->a_step),               \
				   [c_row] "r"(tile->c_row), [add] "r"(tile->add),                 \
				   [ahead_step] "r"(tile->ahead_step)                              \
				 : CHANGED);                                                       \
	}

GEMM(lasx, PRODUCT(""))
GEMM(ahead_lasx, PRODUCT(AHEAD))

/* Of values in xr0 to xr7, with as many sums as the loops have. */
TIMED void loongarch64_peak_lasx(const void *values, uint64_t turns)
{
	__asm__ volatile(
		ROWS(THREE(ZERO(SUM))) "move $t0, %[values]\n\t" ROWS(
			LOAD("\\i", "32*\\i") T0
			"\n\t") "1:\n\t" ROWS(THREE(MULTIPLY)) "addi.d %[turns], %[turns], -1\n\t"
							       "bnez %[turns], 1b"
		: [turns] "+&r"(turns)
		: [values] "r"(values)
		: CHANGED);
}

static const struct gemm lasx =
	GEMM_OF(loongarch64, lasx, GEMM_FP32, 8, COLUMNS, 4, 1, false, 8 * COLUMNS * 2);

VARIANTS(arch_gemm, {.name = "lasx", .needs = FEATURE_LASX, .gemm = &lasx});
