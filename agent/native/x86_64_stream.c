/* x86_64: loops that go through memory, in turns of 8 vectors. See sweep.h. */
#include "sweep.h"
#include "x86_64_amx.h"
#include "x86_stream.h"

#define POINTER "r"
#define CHANGED "cc", VECTORS
#define VECTORS "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8"

/* The address in all words of register 0. */
#define ADDRESS_512 "vpbroadcastq %[at], %%zmm0\n\t"
#define ADDRESS_256                                                                                \
	"vmovq %[at], %%xmm0\n\t"                                                                  \
	"vpunpcklqdq %%xmm0, %%xmm0, %%xmm0\n\t"                                                   \
	"vinsertf128 $1, %%xmm0, %%ymm0, %%ymm0\n\t"
#define ADDRESS_128                                                                                \
	"movq %[at], %%xmm0\n\t"                                                                   \
	"punpcklqdq %%xmm0, %%xmm0\n\t"

VECTOR_LOOPS(x86_64, avx512, 512, "64", "%%zmm", "vmov", ADDRESS_512)
SWEEP(x86_64_modify_avx512, "vpternlogd $255, %%zmm8, %%zmm8, %%zmm8\n\t" LOOP(
				    512, EACH("vpsubq \\i*64(%[at]), %%zmm8, %%zmm\\i")
						 EACH("vmovaps %%zmm\\i, \\i*64(%[at])")))

VECTOR_LOOPS(x86_64, avx, 256, "32", "%%ymm", "vmov", ADDRESS_256)
SWEEP(x86_64_modify_avx, "vpcmpeqd %%xmm8, %%xmm8, %%xmm8\n\tvinsertf128 $1, %%xmm8, %%ymm8, "
			 "%%ymm8\n\t" LOOP(256, EACH("vxorps \\i*32(%[at]), %%ymm8, %%ymm\\i")
							EACH("vmovaps %%ymm\\i, \\i*32(%[at])")))

VECTOR_LOOPS(x86_64, sse2, 128, "16", "%%xmm", "mov", ADDRESS_128)
SWEEP(x86_64_modify_sse2,
      "pcmpeqd %%xmm8, %%xmm8\n\t" LOOP(
	      128, EACH("movaps \\i*16(%[at]), %%xmm\\i\n\tpsubq %%xmm8, %%xmm\\i")
			   EACH("movaps %%xmm\\i, \\i*16(%[at])")))

/* Asks for what comes 2 KiB later. Beyond the end that does no harm. */
#define PREFETCH(lines) ".irp i, " lines "\n\tprefetcht0 2048+\\i*64(%[at])\n\t.endr\n\t"

SWEEP(x86_64_read_prefetch512,
      LOOP(512, PREFETCH("0,1,2,3,4,5,6,7") EACH("vmovaps \\i*64(%[at]), %%zmm\\i")))
SWEEP(x86_64_read_prefetch256,
      LOOP(256, PREFETCH("0,1,2,3") EACH("vmovaps \\i*32(%[at]), %%ymm\\i")))

/* Two vectors of one of four streams. */
#define TWO(register, first, second, width, base)                                                  \
	"vmovaps (%[" base "]), %%" register first "\n\t"                                          \
						   "vmovaps " width "(%[" base                     \
						   "]), %%" register second "\n\t"
#define STEP(width, base) "add $2*" width ", %[" base "]\n\t"

/* Four quarters at once: `at` goes through the first of them, and ends at the second. */
#define STREAMS(name, step, register, width)                                                       \
	TIMED char *name(char *at, const char *from, size_t bytes)                                 \
	{                                                                                          \
		const char *end = at + bytes / 4;                                                  \
		char *b = at + bytes / 4, *c = at + bytes / 2, *d = at + bytes / 4 * 3;            \
                                                                                                   \
		(void)from;                                                                        \
		__asm__ volatile(LOOP(step,                                                        \
				      TWO(register, "0", "1", width,                               \
					  "at") TWO(register, "2", "3", width,                     \
						    "b") TWO(register, "4", "5", width, "c")       \
					      TWO(register, "6", "7", width, "d") STEP(width, "b") \
						      STEP(width, "c") STEP(width, "d"))           \
				 : [at] "+&r"(at), [b] "+&r"(b), [c] "+&r"(c), [d] "+&r"(d)        \
				 : [end] "r"(end)                                                  \
				 : "memory", "cc", VECTORS);                                       \
		return d;                                                                          \
	}

STREAMS(x86_64_read_streams512, 128, "zmm", "64")
STREAMS(x86_64_read_streams256, 64, "ymm", "32")

/* clzero by its bytes, since older assemblers lack it; it clears the line rax points to. */
TIMED char *x86_64_zero_clzero(char *at, const char *from, size_t bytes)
{
	const char *end = at + bytes;

	(void)from;
	__asm__ volatile(".p2align 6\n"
			 "1:\n\t"
			 ".byte 0x0f, 0x01, 0xfc\n\t"
			 "add $64, %[at]\n\t"
			 "cmp %[end], %[at]\n\t"
			 "jb 1b"
			 : [at] "+&a"(at)
			 : [end] "r"(end)
			 : "memory", "cc");
	return at;
}

/* The widest first; what only suits some sizes comes after. */
VARIANTS(arch_stream,
	 {.name = "avx512", .needs = FEATURE_AVX512, .stream = LOOPS_AND_NT(x86_64, avx512)},
	 {.name = "avx", .needs = FEATURE_AVX, .stream = LOOPS_AND_NT(x86_64, avx)},
	 {.name = "sse2", .stream = LOOPS_AND_NT(x86_64, sse2)},
	 {.name = "prefetch",
	  .needs = FEATURE_AVX512,
	  .stream = {[OPERATION_READ] = x86_64_read_prefetch512}},
	 {.name = "prefetch",
	  .needs = FEATURE_AVX,
	  .stream = {[OPERATION_READ] = x86_64_read_prefetch256}},
	 {.name = "streams",
	  .needs = FEATURE_AVX512,
	  .stream = {[OPERATION_READ] = x86_64_read_streams512}},
	 {.name = "streams",
	  .needs = FEATURE_AVX,
	  .stream = {[OPERATION_READ] = x86_64_read_streams256}},
	 {.name = "tile", .needs = FEATURE_AMX_TILE, .tiles = &x86_64_tile},
	 {.name = "tileblock", .needs = FEATURE_AMX_TILE, .tiles = &x86_64_tileblock},
	 {.name = "stosb",
	  .stream = {[OPERATION_WRITE] = x86_write_stosb, [OPERATION_ZERO] = x86_zero_stosb}},
	 {.name = "movsb", .stream = {[OPERATION_COPY] = x86_copy_movsb}},
	 {.name = "clzero",
	  .needs = FEATURE_CLZERO,
	  .stream = {[OPERATION_ZERO] = x86_64_zero_clzero}});
