/* ppc64le: loops that read and write single lines. See native.h. */
#define POINTER               "b"
#define CHANGED               "cr0"
#define WORD                  "b"(word)
#define AGAIN                 "addi %[n], %[n], -1\n\tcmpwi %[n], 0\n\tbne 1b"
#define SUM(to, a, b)         "add %[" to "], %[" a "], %[" b "]\n\t"
#define COPY(to, from)        "mr %[" to "], %[" from "]\n\t"
#define NEXT_LINE             "addi %[line], %[line], 64\n\t"
#define NEXT_PAGE             "addi %[at], %[at], 4096\n\t"
#define IF_BELOW(a, b, label) "cmpld %[" a "], %[" b "]\n\tblt " label "\n\t"

#include "line_loops.h"

RECEIVE(ppc64le_message_ld, "ld %[seen], 0(%[word])\n\t"
			    "cmpd %[seen], %[old]\n\t"
			    "beq 1b")

VARIANTS(arch_message, {.name = "ld", .receive = ppc64le_message_ld});

GO_BY_PAGES(ppc64le_load_ld, "ld %[word], 0(%[line])",
	    "lwsync\n\t"
	    "isync")
GO_BY_PAGES(ppc64le_store_ld, "std %[line], 8(%[line])", "sync")
SWAP(ppc64le_swap_ld, "ldarx %[next], 0, %[line]\n\t"
		      "stdcx. %[next], 0, %[line]\n\t"
		      "bne 1b\n\t"
		      "mr %[line], %[next]")
FLUSH(ppc64le_flush, "dcbf 0, %0", "sync")

VARIANTS(arch_fetch, {.name = "ld",
		      .swap = ppc64le_swap_ld,
		      .load = ppc64le_load_ld,
		      .store = ppc64le_store_ld});

GO_BY_BLOCKS(ppc64le_blocks_std, EACH_WORD("std %[line], \\at(%[line])"))

VARIANTS(arch_interleave, {.name = "std", .blocks = ppc64le_blocks_std});
