/* aarch64: loops that read and write single lines. See native.h. */
#define POINTER               "r"
#define CHANGED               "cc", "v0"
#define WORD                  "Q"(*word)
#define AGAIN                 "sub %w[n], %w[n], #1\n\tcbnz %w[n], 1b"
#define SUM(to, a, b)         "add %[" to "], %[" a "], %[" b "]\n\t"
#define COPY(to, from)        "mov %[" to "], %[" from "]\n\t"
#define NEXT_LINE             "add %[line], %[line], #64\n\t"
#define NEXT_PAGE             "add %[at], %[at], #4096\n\t"
#define IF_BELOW(a, b, label) "cmp %[" a "], %[" b "]\n\tb.lo " label "\n\t"

#include "line_loops.h"

RECEIVE(aarch64_message_ldr, "ldr %[seen], %[word]\n\t"
			     "cmp %[seen], %[old]\n\t"
			     "b.eq 1b")

VARIANTS(arch_message, {.name = "ldr", .receive = aarch64_message_ldr});

GO_BY_PAGES(aarch64_load_ldr, "ldr %[word], [%[line]]",
	    "dmb ishld\n\t"
	    "isb")
GO_BY_PAGES(aarch64_store_ldr, "str %[line], [%[line], #8]", "dsb ish")
SWAP(aarch64_swap_lse, ".arch_extension lse\n\t"
		       "ldadd xzr, %[next], [%[line]]\n\t"
		       "mov %[line], %[next]")
SWAP(aarch64_swap_ldr, "ldxr %[next], [%[line]]\n\t"
		       "stxr %w[failed], %[next], [%[line]]\n\t"
		       "cbnz %w[failed], 1b\n\t"
		       "mov %[line], %[next]")
FLUSH(aarch64_flush, "dc civac, %0", "dsb ish")

VARIANTS(arch_fetch, {.name = "lse", .needs = FEATURE_LSE, .swap = aarch64_swap_lse},
	 {.name = "ldr",
	  .swap = aarch64_swap_ldr,
	  .load = aarch64_load_ldr,
	  .store = aarch64_store_ldr});

GO_BY_BLOCKS(aarch64_blocks_neon, "dup v0.2d, %[line]\n\t"
				  "stp q0, q0, [%[line]]\n\t"
				  "stp q0, q0, [%[line], #32]")
GO_BY_BLOCKS(aarch64_nt_blocks_neon, "dup v0.2d, %[line]\n\t"
				     "stnp q0, q0, [%[line]]\n\t"
				     "stnp q0, q0, [%[line], #32]")

VARIANTS(arch_interleave,
	 {.name = "neon", .blocks = aarch64_blocks_neon, .nt_blocks = aarch64_nt_blocks_neon});
