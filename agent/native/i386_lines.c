/* i386: loops that read and write single lines. See native.h. */
/* Not every i386 has lfence and mfence; a locked instruction waits for loads and stores on all. */
#define X86_SECOND_WORD  "4"
#define X86_AFTER_LOADS  "lock orl $0, (%%esp)"
#define X86_AFTER_STORES "lock orl $0, (%%esp)"

#include "x86_lines.h"

/* ---- interleave ------------------------------------------------------------------------------ */

/* `line` goes through a block, in which all of each line takes its address. */
static __attribute__((noinline)) char *i386_blocks_sse2(char *at, size_t block, size_t step,
							const char *end)
{
	char *line, *stop;

	__asm__ volatile(".p2align 5\n"
			 "1:\n\t"
			 "mov %[at], %[line]\n\t"
			 "lea (%[at],%[block]), %[stop]\n\t"
			 "2:\n\t"
			 "movd %[line], %%xmm0\n\t"
			 "pshufd $0, %%xmm0, %%xmm0\n\t"
			 "movaps %%xmm0, (%[line])\n\t"
			 "movaps %%xmm0, 16(%[line])\n\t"
			 "movaps %%xmm0, 32(%[line])\n\t"
			 "movaps %%xmm0, 48(%[line])\n\t"
			 "add $64, %[line]\n\t"
			 "cmp %[stop], %[line]\n\t"
			 "jb 2b\n\t"
			 "add %[step], %[at]\n\t"
			 "cmp %[end], %[at]\n\t"
			 "jb 1b"
			 : [at] "+&r"(at), [line] "=&r"(line), [stop] "=&r"(stop)
			 : [block] "r"(block), [step] "r"(step), [end] "m"(end)
			 : "memory", "cc");
	return at;
}

static __attribute__((noinline)) char *i386_nt_blocks_sse2(char *at, size_t block, size_t step,
							   const char *end)
{
	char *line, *stop;

	__asm__ volatile(".p2align 5\n"
			 "1:\n\t"
			 "mov %[at], %[line]\n\t"
			 "lea (%[at],%[block]), %[stop]\n\t"
			 "2:\n\t"
			 "movd %[line], %%xmm0\n\t"
			 "pshufd $0, %%xmm0, %%xmm0\n\t"
			 "movntps %%xmm0, (%[line])\n\t"
			 "movntps %%xmm0, 16(%[line])\n\t"
			 "movntps %%xmm0, 32(%[line])\n\t"
			 "movntps %%xmm0, 48(%[line])\n\t"
			 "add $64, %[line]\n\t"
			 "cmp %[stop], %[line]\n\t"
			 "jb 2b\n\t"
			 "add %[step], %[at]\n\t"
			 "cmp %[end], %[at]\n\t"
			 "jb 1b\n\t"
			 "sfence"
			 : [at] "+&r"(at), [line] "=&r"(line), [stop] "=&r"(stop)
			 : [block] "r"(block), [step] "r"(step), [end] "m"(end)
			 : "memory", "cc");
	return at;
}

const struct variant arch_interleave[] = {
	{.name = "sse2",
	 .needs = FEATURE_SSE2,
	 .blocks = i386_blocks_sse2,
	 .nt_blocks = i386_nt_blocks_sse2},
	{.name = NULL},
};
