/* loongarch64: loops that read and write single lines. See native.h. */
#define POINTER               "r"
#define CHANGED               "$t0"
#define WORD                  "r"(word)
#define AGAIN                 "addi.w %[n], %[n], -1\n\tbnez %[n], 1b"
#define SUM(to, a, b)         "add.d %[" to "], %[" a "], %[" b "]\n\t"
#define COPY(to, from)        "move %[" to "], %[" from "]\n\t"
#define NEXT_LINE             "addi.d %[line], %[line], 64\n\t"
#define NEXT_PAGE             "add.d %[at], %[at], $t0\n\t"
#define BEFORE_PAGES          "lu12i.w $t0, 1\n\t"
#define IF_BELOW(a, b, label) "bltu %[" a "], %[" b "], " label "\n\t"

#include "line_loops.h"

RECEIVE(loongarch64_message_ld, "ld.d %[seen], %[word], 0\n\t"
				"beq %[seen], %[old], 1b")

VARIANTS(arch_message, {.name = "ld", .receive = loongarch64_message_ld});

GO_BY_PAGES(loongarch64_load_ld, "ld.d %[word], %[line], 0", "dbar 0")
GO_BY_PAGES(loongarch64_store_ld, "st.d %[line], %[line], 8", "dbar 0")
SWAP(loongarch64_swap_ld, "amadd.d %[next], $zero, %[line]\n\t"
			  "move %[line], %[next]")

flush_fn *const arch_flush = NULL;

VARIANTS(arch_fetch, {.name = "ld",
		      .swap = loongarch64_swap_ld,
		      .load = loongarch64_load_ld,
		      .store = loongarch64_store_ld});

GO_BY_BLOCKS(loongarch64_blocks_st, EACH_WORD("st.d %[line], %[line], \\at"))

VARIANTS(arch_interleave, {.name = "st", .blocks = loongarch64_blocks_st});
