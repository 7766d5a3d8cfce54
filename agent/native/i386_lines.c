/* i386: loops that read and write single lines. See native.h. */
/* Not every i386 has lfence and mfence; a locked instruction waits for loads and stores on all. */
#define X86_SECOND_WORD  "4"
#define X86_AFTER_LOADS  "lock orl $0, (%%esp)"
#define X86_AFTER_STORES "lock orl $0, (%%esp)"
#define CHANGED          "cc"
#define BLOCKS_END       "m" /* as a loop has few registers */

#include "x86_lines.h"

/* A vector of the address, stored to all of the line. */
#define FILL(store)                                                                                \
	"movd %[line], %%xmm0\n\t"                                                                 \
	"pshufd $0, %%xmm0, %%xmm0\n\t" store " %%xmm0, (%[line])\n\t" store                       \
	" %%xmm0, 16(%[line])\n\t" store " %%xmm0, 32(%[line])\n\t" store " %%xmm0, 48(%[line])"

GO_BY_BLOCKS(i386_blocks_sse2, FILL("movaps"))
GO_BY_BLOCKS_THEN(i386_nt_blocks_sse2, "sfence", FILL("movntps"))

VARIANTS(arch_interleave, {.name = "sse2",
			   .needs = FEATURE_SSE2,
			   .blocks = i386_blocks_sse2,
			   .nt_blocks = i386_nt_blocks_sse2});
