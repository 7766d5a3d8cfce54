/* x86_64: loops that go through memory, in turns of 8 vectors. See sweep.h. */
#include "sweep.h"
#include "x86_64_amx.h"

#define POINTER "r"
#define CHANGED "cc", VECTORS
#define VECTORS "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8"

/* One pointer, compared with the end. */
#define LOOP(bytes, turn)                                                                          \
	".p2align 6\n"                                                                             \
	"1:\n\t" turn "add $" #bytes ", %[at]\n\t"                                                 \
	"cmp %[end], %[at]\n\t"                                                                    \
	"jb 1b\n\t"

/* The same with a second pointer that runs along. */
#define LOOP_FROM(bytes, turn) LOOP(bytes, turn "add $" #bytes ", %[from]\n\t")

/* The address in all words of register 0. */
#define ADDRESS_512 "vpbroadcastq %[at], %%zmm0\n\t"
#define ADDRESS_256                                                                                \
	"vmovq %[at], %%xmm0\n\t"                                                                  \
	"vpunpcklqdq %%xmm0, %%xmm0, %%xmm0\n\t"                                                   \
	"vinsertf128 $1, %%xmm0, %%ymm0, %%ymm0\n\t"
#define ADDRESS_128                                                                                \
	"movq %[at], %%xmm0\n\t"                                                                   \
	"punpcklqdq %%xmm0, %%xmm0\n\t"

/* ---- 512 bits -------------------------------------------------------------------------------- */

SWEEP x86_64_read_avx512(char *at, const char *from, size_t bytes)
{
	GO_THROUGH(LOOP(512, EACH("vmovaps \\i*64(%[at]), %%zmm\\i")));
	return at;
}

SWEEP x86_64_write_avx512(char *at, const char *from, size_t bytes)
{
	GO_THROUGH(LOOP(512, ADDRESS_512 EACH("vmovaps %%zmm0, \\i*64(%[at])")));
	return at;
}

SWEEP x86_64_nt_avx512(char *at, const char *from, size_t bytes)
{
	GO_THROUGH(LOOP(512, ADDRESS_512 EACH("vmovntps %%zmm0, \\i*64(%[at])")));
	return at;
}

SWEEP x86_64_modify_avx512(char *at, const char *from, size_t bytes)
{
	GO_THROUGH("vpternlogd $255, %%zmm8, %%zmm8, %%zmm8\n\t" LOOP(
		512, EACH("vpsubq \\i*64(%[at]), %%zmm8, %%zmm\\i")
			     EACH("vmovaps %%zmm\\i, \\i*64(%[at])")));
	return at;
}

SWEEP x86_64_copy_avx512(char *at, const char *from, size_t bytes)
{
	GO_THROUGH(LOOP_FROM(512, EACH("vmovaps \\i*64(%[from]), %%zmm\\i")
					  EACH("vmovaps %%zmm\\i, \\i*64(%[at])")));
	return at;
}

SWEEP x86_64_ntcopy_avx512(char *at, const char *from, size_t bytes)
{
	GO_THROUGH(LOOP_FROM(512, EACH("vmovaps \\i*64(%[from]), %%zmm\\i")
					  EACH("vmovntps %%zmm\\i, \\i*64(%[at])")));
	return at;
}

/* ---- 256 bits -------------------------------------------------------------------------------- */

SWEEP x86_64_read_avx(char *at, const char *from, size_t bytes)
{
	GO_THROUGH(LOOP(256, EACH("vmovaps \\i*32(%[at]), %%ymm\\i")));
	return at;
}

SWEEP x86_64_write_avx(char *at, const char *from, size_t bytes)
{
	GO_THROUGH(LOOP(256, ADDRESS_256 EACH("vmovaps %%ymm0, \\i*32(%[at])")));
	return at;
}

SWEEP x86_64_nt_avx(char *at, const char *from, size_t bytes)
{
	GO_THROUGH(LOOP(256, ADDRESS_256 EACH("vmovntps %%ymm0, \\i*32(%[at])")));
	return at;
}

SWEEP x86_64_modify_avx(char *at, const char *from, size_t bytes)
{
	GO_THROUGH("vpcmpeqd %%xmm8, %%xmm8, %%xmm8\n\tvinsertf128 $1, %%xmm8, %%ymm8, "
		   "%%ymm8\n\t" LOOP(256, EACH("vxorps \\i*32(%[at]), %%ymm8, %%ymm\\i")
						  EACH("vmovaps %%ymm\\i, \\i*32(%[at])")));
	return at;
}

SWEEP x86_64_copy_avx(char *at, const char *from, size_t bytes)
{
	GO_THROUGH(LOOP_FROM(256, EACH("vmovaps \\i*32(%[from]), %%ymm\\i")
					  EACH("vmovaps %%ymm\\i, \\i*32(%[at])")));
	return at;
}

SWEEP x86_64_ntcopy_avx(char *at, const char *from, size_t bytes)
{
	GO_THROUGH(LOOP_FROM(256, EACH("vmovaps \\i*32(%[from]), %%ymm\\i")
					  EACH("vmovntps %%ymm\\i, \\i*32(%[at])")));
	return at;
}

/* ---- 128 bits -------------------------------------------------------------------------------- */

SWEEP x86_64_read_sse2(char *at, const char *from, size_t bytes)
{
	GO_THROUGH(LOOP(128, EACH("movaps \\i*16(%[at]), %%xmm\\i")));
	return at;
}

SWEEP x86_64_write_sse2(char *at, const char *from, size_t bytes)
{
	GO_THROUGH(LOOP(128, ADDRESS_128 EACH("movaps %%xmm0, \\i*16(%[at])")));
	return at;
}

SWEEP x86_64_nt_sse2(char *at, const char *from, size_t bytes)
{
	GO_THROUGH(LOOP(128, ADDRESS_128 EACH("movntps %%xmm0, \\i*16(%[at])")));
	return at;
}

SWEEP x86_64_modify_sse2(char *at, const char *from, size_t bytes)
{
	GO_THROUGH("pcmpeqd %%xmm8, %%xmm8\n\t" LOOP(
		128, EACH("movaps \\i*16(%[at]), %%xmm\\i\n\tpsubq %%xmm8, %%xmm\\i")
			     EACH("movaps %%xmm\\i, \\i*16(%[at])")));
	return at;
}

SWEEP x86_64_copy_sse2(char *at, const char *from, size_t bytes)
{
	GO_THROUGH(LOOP_FROM(128, EACH("movaps \\i*16(%[from]), %%xmm\\i")
					  EACH("movaps %%xmm\\i, \\i*16(%[at])")));
	return at;
}

SWEEP x86_64_ntcopy_sse2(char *at, const char *from, size_t bytes)
{
	GO_THROUGH(LOOP_FROM(128, EACH("movaps \\i*16(%[from]), %%xmm\\i")
					  EACH("movntps %%xmm\\i, \\i*16(%[at])")));
	return at;
}

/* ---- other ways ------------------------------------------------------------------------------ */

/* Asks for what comes 2 KiB later. Beyond the end that does no harm. */
#define PREFETCH(lines) ".irp i, " lines "\n\tprefetcht0 2048+\\i*64(%[at])\n\t.endr\n\t"

SWEEP x86_64_read_prefetch512(char *at, const char *from, size_t bytes)
{
	GO_THROUGH(LOOP(512, PREFETCH("0,1,2,3,4,5,6,7") EACH("vmovaps \\i*64(%[at]), %%zmm\\i")));
	return at;
}

SWEEP x86_64_read_prefetch256(char *at, const char *from, size_t bytes)
{
	GO_THROUGH(LOOP(256, PREFETCH("0,1,2,3") EACH("vmovaps \\i*32(%[at]), %%ymm\\i")));
	return at;
}

/* Two vectors of one of four streams. */
#define TWO(load, first, second, width, base)                                                      \
	load " (%[" base "]), %%" first "\n\t" load " " width "(%[" base "]), %%" second "\n\t"
#define STEP(width, base) "add $2*" width ", %[" base "]\n\t"
#define STEPS(width)      STEP(width, "b") STEP(width, "c") STEP(width, "d")

/* Four quarters at once: `at` goes through the first of them, and ends at the second. */
SWEEP x86_64_read_streams512(char *at, const char *from, size_t bytes)
{
	const char *end = at + bytes / 4;
	char *b = at + bytes / 4, *c = at + bytes / 2, *d = at + bytes / 4 * 3;

	(void)from;
	__asm__ volatile(LOOP(128, TWO("vmovaps", "zmm0", "zmm1", "64", "at")
					   TWO("vmovaps", "zmm2", "zmm3", "64", "b")
						   TWO("vmovaps", "zmm4", "zmm5", "64", "c")
							   TWO("vmovaps", "zmm6", "zmm7", "64", "d")
								   STEPS("64"))
			 : [at] "+&r"(at), [b] "+&r"(b), [c] "+&r"(c), [d] "+&r"(d)
			 : [end] "r"(end)
			 : "memory", "cc", VECTORS);
	return d;
}

SWEEP x86_64_read_streams256(char *at, const char *from, size_t bytes)
{
	const char *end = at + bytes / 4;
	char *b = at + bytes / 4, *c = at + bytes / 2, *d = at + bytes / 4 * 3;

	(void)from;
	__asm__ volatile(LOOP(64, TWO("vmovaps", "ymm0", "ymm1", "32", "at")
					  TWO("vmovaps", "ymm2", "ymm3", "32", "b")
						  TWO("vmovaps", "ymm4", "ymm5", "32", "c")
							  TWO("vmovaps", "ymm6", "ymm7", "32", "d")
								  STEPS("32"))
			 : [at] "+&r"(at), [b] "+&r"(b), [c] "+&r"(c), [d] "+&r"(d)
			 : [end] "r"(end)
			 : "memory", "cc", VECTORS);
	return d;
}

/* A byte of the address, never 0. */
SWEEP x86_64_write_stosb(char *at, const char *from, size_t bytes)
{
	(void)from;
	__asm__ volatile("rep stosb"
			 : "+D"(at), "+c"(bytes)
			 : "a"((uintptr_t)at >> 12 | 1)
			 : "memory");
	return at;
}

SWEEP x86_64_zero_stosb(char *at, const char *from, size_t bytes)
{
	(void)from;
	__asm__ volatile("rep stosb" : "+D"(at), "+c"(bytes) : "a"(0) : "memory");
	return at;
}

SWEEP x86_64_copy_movsb(char *at, const char *from, size_t bytes)
{
	__asm__ volatile("rep movsb" : "+D"(at), "+S"(from), "+c"(bytes) : : "memory");
	return at;
}

/* clzero by its bytes, since older assemblers lack it; it clears the line rax points to. */
SWEEP x86_64_zero_clzero(char *at, const char *from, size_t bytes)
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

/* ---- the table ------------------------------------------------------------------------------- */

/* The widest first; what only suits some sizes comes after. */
const struct variant arch_stream[] = {
	{.name = "avx512",
	 .needs = FEATURE_AVX512,
	 .stream = {x86_64_read_avx512, x86_64_write_avx512, x86_64_nt_avx512, NULL,
		    x86_64_modify_avx512, x86_64_copy_avx512, x86_64_ntcopy_avx512}},
	{.name = "avx",
	 .needs = FEATURE_AVX,
	 .stream = {x86_64_read_avx, x86_64_write_avx, x86_64_nt_avx, NULL, x86_64_modify_avx,
		    x86_64_copy_avx, x86_64_ntcopy_avx}},
	{.name = "sse2",
	 .stream = {x86_64_read_sse2, x86_64_write_sse2, x86_64_nt_sse2, NULL, x86_64_modify_sse2,
		    x86_64_copy_sse2, x86_64_ntcopy_sse2}},
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
	 .stream = {[OPERATION_WRITE] = x86_64_write_stosb, [OPERATION_ZERO] = x86_64_zero_stosb}},
	{.name = "movsb", .stream = {[OPERATION_COPY] = x86_64_copy_movsb}},
	{.name = "clzero",
	 .needs = FEATURE_CLZERO,
	 .stream = {[OPERATION_ZERO] = x86_64_zero_clzero}},
	{.name = NULL},
};
