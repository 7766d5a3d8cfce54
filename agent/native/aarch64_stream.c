/* aarch64: loops that go through memory, 256 bytes or 8 scalable vectors a turn. See sweep.h. */
#include "sweep.h"

#define POINTER "r"
#define CHANGED "cc", VECTORS
#define VECTORS                                                                                    \
	"v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v16", "v17", "v18", "v19", "v20", "v21",  \
		"v22", "v23", "v24"

/* The same instruction for pairs of registers, 256 bytes in all. */
#define PAIRS(instruction, base)                                                                   \
	instruction " q0, q1, [%[" base "]]\n\t" instruction " q2, q3, [%[" base                   \
		    "], #32]\n\t" instruction " q4, q5, [%[" base "], #64]\n\t" instruction        \
		    " q6, q7, [%[" base "], #96]\n\t" instruction " q16, q17, [%[" base            \
		    "], #128]\n\t" instruction " q18, q19, [%[" base "], #160]\n\t" instruction    \
		    " q20, q21, [%[" base "], #192]\n\t" instruction " q22, q23, [%[" base         \
		    "], #224]\n\t"

/* The address in both words of register 0, and that register stored 16 times. */
#define ADDRESS "dup v0.2d, %[at]\n\t"
#define STORES(instruction)                                                                        \
	".irp i, 0,32,64,96,128,160,192,224\n\t" instruction " q0, q0, [%[at], #\\i]\n\t.endr\n\t"

/* One pointer, compared with the end. */
#define LOOP(step, turn)                                                                           \
	".p2align 6\n"                                                                             \
	"1:\n\t" turn step "cmp %[at], %[end]\n\t"                                                 \
	"b.lo 1b\n\t"
#define STEP(pointer) "add %[" pointer "], %[" pointer "], #256\n\t"

SWEEP(aarch64_read_neon, LOOP(STEP("at"), PAIRS("ldp", "at")))
SWEEP(aarch64_write_neon, LOOP(STEP("at"), ADDRESS STORES("stp")))
SWEEP(aarch64_nt_neon, LOOP(STEP("at"), ADDRESS STORES("stnp")))
SWEEP(aarch64_modify_neon,
      "movi v24.16b, #255\n\t" LOOP(
	      STEP("at"),
	      PAIRS("ldp", "at") ".irp i, 0,1,2,3,4,5,6,7,16,17,18,19,20,21,22,23\n\tsub "
				 "v\\i\\().2d, v\\i\\().2d, v24.2d\n\t.endr\n\t" PAIRS("stp",
										       "at")))
SWEEP(aarch64_copy_neon, LOOP(STEP("at") STEP("from"), PAIRS("ldp", "from") PAIRS("stp", "at")))
SWEEP(aarch64_ntcopy_neon, LOOP(STEP("at") STEP("from"), PAIRS("ldp", "from") PAIRS("stnp", "at")))

#define SVE(step, turn)   ".arch_extension sve\n\t" LOOP(step, turn)
#define SVE_STEP(pointer) "addvl %[" pointer "], %[" pointer "], #8\n\t"

SWEEP(aarch64_read_sve, SVE(SVE_STEP("at"), EACH("ldr z\\i, [%[at], #\\i, mul vl]")))
SWEEP(aarch64_write_sve,
      SVE(SVE_STEP("at"), "mov z0.d, %[at]\n\t" EACH("str z0, [%[at], #\\i, mul vl]")))
SWEEP(aarch64_modify_sve,
      SVE(SVE_STEP("at"),
	  EACH("ldr z\\i, [%[at], #\\i, mul vl]") EACH("add z\\i\\().d, z\\i\\().d, #1")
		  EACH("str z\\i, [%[at], #\\i, mul vl]")))
SWEEP(aarch64_copy_sve,
      SVE(SVE_STEP("at") SVE_STEP("from"),
	  EACH("ldr z\\i, [%[from], #\\i, mul vl]") EACH("str z\\i, [%[at], #\\i, mul vl]")))

/* dczid_el0 tells how many words a block has, as a power of two (Arm ARM D19.2.39). */
TIMED char *aarch64_zero_zva(char *at, const char *from, size_t bytes)
{
	const char *end = at + bytes;
	uint64_t block;

	(void)from;
	__asm__ volatile("mrs %0, dczid_el0" : "=r"(block));
	block = UINT64_C(4) << (block & 15);
	__asm__ volatile(LOOP("add %[at], %[at], %[block]\n\t", "dc zva, %[at]\n\t")
			 : [at] "+&r"(at)
			 : [end] "r"(end), [block] "r"(block)
			 : "memory", "cc");
	return at;
}

VARIANTS(arch_stream, {.name = "neon", .stream = LOOPS_AND_NT(aarch64, neon)},
	 {.name = "sve", .needs = FEATURE_SVE, .stream = LOOPS(aarch64, sve)},
	 {.name = "zva", .needs = FEATURE_ZVA, .stream = {[OPERATION_ZERO] = aarch64_zero_zva}});
