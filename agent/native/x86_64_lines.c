/* x86_64: loops that read and write single lines. See native.h. */
#define X86_SECOND_WORD  "8"
#define X86_AFTER_LOADS  "lfence"
#define X86_AFTER_STORES "mfence"
#define CHANGED          "cc", "xmm0"

#include "x86_lines.h"

/* A vector of the address, stored to all of the line. */
#define FILL_512(store) "vpbroadcastq %[line], %%zmm0\n\t" store " %%zmm0, (%[line])"
#define FILL_256(store)                                                                            \
	"vmovq %[line], %%xmm0\n\t"                                                                \
	"vpunpcklqdq %%xmm0, %%xmm0, %%xmm0\n\t"                                                   \
	"vinsertf128 $1, %%xmm0, %%ymm0, %%ymm0\n\t" store " %%ymm0, (%[line])\n\t" store          \
	" %%ymm0, 32(%[line])"
#define FILL_128(store)                                                                            \
	"movq %[line], %%xmm0\n\t"                                                                 \
	"punpcklqdq %%xmm0, %%xmm0\n\t" store " %%xmm0, (%[line])\n\t" store                       \
	" %%xmm0, 16(%[line])\n\t" store " %%xmm0, 32(%[line])\n\t" store " %%xmm0, 48(%[line])"

GO_BY_BLOCKS(x86_64_blocks_avx512, FILL_512("vmovaps"))
GO_BY_BLOCKS_THEN(x86_64_nt_blocks_avx512, "sfence", FILL_512("vmovntps"))
GO_BY_BLOCKS(x86_64_blocks_avx, FILL_256("vmovaps"))
GO_BY_BLOCKS_THEN(x86_64_nt_blocks_avx, "sfence", FILL_256("vmovntps"))
GO_BY_BLOCKS(x86_64_blocks_sse2, FILL_128("movaps"))
GO_BY_BLOCKS_THEN(x86_64_nt_blocks_sse2, "sfence", FILL_128("movntps"))

/* As mm_amx writes a row, 32 bytes at a time, after prefetching the next, behind others' blocks. */
TIMED char *x86_64_blocks_prefetchnta(char *at, size_t block, size_t step, const char *end)
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
			 "jb 1b"
			 : [at] "+&r"(at), [line] "=&r"(line), [stop] "=&r"(stop)
			 : [block] "r"(block), [step] "r"(step), [end] "r"(end)
			 : "memory", CHANGED);
	return at;
}

VARIANTS(arch_interleave,
	 {.name = "avx512",
	  .needs = FEATURE_AVX512,
	  .blocks = x86_64_blocks_avx512,
	  .nt_blocks = x86_64_nt_blocks_avx512},
	 {.name = "avx",
	  .needs = FEATURE_AVX,
	  .blocks = x86_64_blocks_avx,
	  .nt_blocks = x86_64_nt_blocks_avx},
	 {.name = "sse2", .blocks = x86_64_blocks_sse2, .nt_blocks = x86_64_nt_blocks_sse2},
	 {.name = "prefetchnta", .needs = FEATURE_AVX, .blocks = x86_64_blocks_prefetchnta});
