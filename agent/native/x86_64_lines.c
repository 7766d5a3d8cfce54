/* x86_64: loops that read and write single lines. See native.h. */
#define X86_SECOND_WORD  "8"
#define X86_AFTER_LOADS  "lfence"
#define X86_AFTER_STORES "mfence"

#include "x86_lines.h"

/* ---- interleave ------------------------------------------------------------------------------ */

/* The loops' frame: `line` goes through a block, in which all of each line takes its address. */
#define BLOCKS_BEGIN                                                                               \
	".p2align 5\n"                                                                             \
	"1:\n\t"                                                                                   \
	"mov %[at], %[line]\n\t"                                                                   \
	"lea (%[at],%[block]), %[stop]\n\t"                                                        \
	"2:\n\t"
#define BLOCKS_END                                                                                 \
	"add $64, %[line]\n\t"                                                                     \
	"cmp %[stop], %[line]\n\t"                                                                 \
	"jb 2b\n\t"                                                                                \
	"add %[step], %[at]\n\t"                                                                   \
	"cmp %[end], %[at]\n\t"                                                                    \
	"jb 1b"
#define BLOCKS_OPERANDS                                                                            \
	: [at] "+&r"(at), [line] "=&r"(line), [stop] "=&r"(stop)                                   \
	: [block] "r"(block), [step] "r"(step), [end] "r"(end)                                     \
	: "memory", "cc", "xmm0"

static __attribute__((noinline)) char *x86_64_blocks_avx512(char *at, size_t block, size_t step,
							    const char *end)
{
	char *line, *stop;

	__asm__ volatile(BLOCKS_BEGIN "vpbroadcastq %[line], %%zmm0\n\t"
				      "vmovaps %%zmm0, (%[line])\n\t" BLOCKS_END BLOCKS_OPERANDS);
	return at;
}

static __attribute__((noinline)) char *x86_64_nt_blocks_avx512(char *at, size_t block, size_t step,
							       const char *end)
{
	char *line, *stop;

	__asm__ volatile(BLOCKS_BEGIN "vpbroadcastq %[line], %%zmm0\n\t"
				      "vmovntps %%zmm0, (%[line])\n\t" BLOCKS_END
				      "\n\tsfence" BLOCKS_OPERANDS);
	return at;
}

static __attribute__((noinline)) char *x86_64_blocks_avx(char *at, size_t block, size_t step,
							 const char *end)
{
	char *line, *stop;

	__asm__ volatile(BLOCKS_BEGIN "vmovq %[line], %%xmm0\n\t"
				      "vpunpcklqdq %%xmm0, %%xmm0, %%xmm0\n\t"
				      "vinsertf128 $1, %%xmm0, %%ymm0, %%ymm0\n\t"
				      "vmovaps %%ymm0, (%[line])\n\t"
				      "vmovaps %%ymm0, 32(%[line])\n\t" BLOCKS_END BLOCKS_OPERANDS);
	return at;
}

static __attribute__((noinline)) char *x86_64_nt_blocks_avx(char *at, size_t block, size_t step,
							    const char *end)
{
	char *line, *stop;

	__asm__ volatile(BLOCKS_BEGIN "vmovq %[line], %%xmm0\n\t"
				      "vpunpcklqdq %%xmm0, %%xmm0, %%xmm0\n\t"
				      "vinsertf128 $1, %%xmm0, %%ymm0, %%ymm0\n\t"
				      "vmovntps %%ymm0, (%[line])\n\t"
				      "vmovntps %%ymm0, 32(%[line])\n\t" BLOCKS_END
				      "\n\tsfence" BLOCKS_OPERANDS);
	return at;
}

static __attribute__((noinline)) char *x86_64_blocks_sse2(char *at, size_t block, size_t step,
							  const char *end)
{
	char *line, *stop;

	__asm__ volatile(BLOCKS_BEGIN "movq %[line], %%xmm0\n\t"
				      "punpcklqdq %%xmm0, %%xmm0\n\t"
				      "movaps %%xmm0, (%[line])\n\t"
				      "movaps %%xmm0, 16(%[line])\n\t"
				      "movaps %%xmm0, 32(%[line])\n\t"
				      "movaps %%xmm0, 48(%[line])\n\t" BLOCKS_END BLOCKS_OPERANDS);
	return at;
}

static __attribute__((noinline)) char *x86_64_nt_blocks_sse2(char *at, size_t block, size_t step,
							     const char *end)
{
	char *line, *stop;

	__asm__ volatile(BLOCKS_BEGIN "movq %[line], %%xmm0\n\t"
				      "punpcklqdq %%xmm0, %%xmm0\n\t"
				      "movntps %%xmm0, (%[line])\n\t"
				      "movntps %%xmm0, 16(%[line])\n\t"
				      "movntps %%xmm0, 32(%[line])\n\t"
				      "movntps %%xmm0, 48(%[line])\n\t" BLOCKS_END
				      "\n\tsfence" BLOCKS_OPERANDS);
	return at;
}

/*
 * As mm_amx writes a row, 32 bytes at a time: after prefetches of the next one, which is behind the
 * others' blocks.
 */
static __attribute__((noinline)) char *x86_64_blocks_prefetchnta(char *at, size_t block,
								 size_t step, const char *end)
{
	char *line, *stop;

	__asm__ volatile(".p2align 5\n"
			 "1:\n\t"
			 "lea (%[at],%[step]), %[line]\n\t"
			 "lea (%[line],%[block]), %[stop]\n\t"
			 "2:\n\t"
			 "prefetchnta (%[line])\n\t"
			 "add $32, %[line]\n\t"
			 "cmp %[stop], %[line]\n\t"
			 "jne 2b\n\t"
			 "mov %[at], %[line]\n\t"
			 "lea (%[at],%[block]), %[stop]\n\t"
			 "3:\n\t"
			 "vmovq %[line], %%xmm0\n\t"
			 "vpunpcklqdq %%xmm0, %%xmm0, %%xmm0\n\t"
			 "vinsertf128 $1, %%xmm0, %%ymm0, %%ymm0\n\t"
			 "vmovups %%ymm0, (%[line])\n\t"
			 "add $32, %[line]\n\t"
			 "cmp %[stop], %[line]\n\t"
			 "jne 3b\n\t"
			 "add %[step], %[at]\n\t"
			 "cmp %[end], %[at]\n\t"
			 "jb 1b" BLOCKS_OPERANDS);
	return at;
}

const struct variant arch_interleave[] = {
	{.name = "avx512",
	 .needs = FEATURE_AVX512,
	 .blocks = x86_64_blocks_avx512,
	 .nt_blocks = x86_64_nt_blocks_avx512},
	{.name = "avx",
	 .needs = FEATURE_AVX,
	 .blocks = x86_64_blocks_avx,
	 .nt_blocks = x86_64_nt_blocks_avx},
	{.name = "sse2", .blocks = x86_64_blocks_sse2, .nt_blocks = x86_64_nt_blocks_sse2},
	{.name = "prefetchnta", .needs = FEATURE_AVX, .blocks = x86_64_blocks_prefetchnta},
	{.name = NULL},
};
