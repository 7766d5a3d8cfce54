/* riscv64: loops that read and write single lines. See native.h. */
#define POINTER               "r"
#define CHANGED               "t0"
#define WORD                  "A"(*word)
#define AGAIN                 "addiw %[n], %[n], -1\n\tbnez %[n], 1b"
#define SUM(to, a, b)         "add %[" to "], %[" a "], %[" b "]\n\t"
#define COPY(to, from)        "mv %[" to "], %[" from "]\n\t"
#define NEXT_LINE             "addi %[line], %[line], 64\n\t"
#define NEXT_PAGE             "add %[at], %[at], t0\n\t"
#define BEFORE_PAGES          "li t0, 4096\n\t"
#define IF_BELOW(a, b, label) "bltu %[" a "], %[" b "], " label "\n\t"

#include "line_loops.h"

RECEIVE(riscv64_message_ld, "ld %[seen], %[word]\n\t"
			    "beq %[seen], %[old], 1b")

VARIANTS(arch_message, {.name = "ld", .receive = riscv64_message_ld});

GO_BY_PAGES(riscv64_load_ld, "ld %[word], 0(%[line])", "fence r, rw")
GO_BY_PAGES(riscv64_store_ld, "sd %[line], 8(%[line])", "fence rw, rw")
SWAP(riscv64_swap_ld, "amoadd.d %[next], zero, (%[line])\n\t"
		      "mv %[line], %[next]")
FLUSH(riscv64_flush, ".insn i 0x0f, 2, x0, %0, 2" /* cbo.flush */, "fence iorw, iorw")

VARIANTS(arch_fetch, {.name = "ld",
		      .swap = riscv64_swap_ld,
		      .load = riscv64_load_ld,
		      .store = riscv64_store_ld});

GO_BY_BLOCKS(riscv64_blocks_sd, EACH_WORD("sd %[line], \\at(%[line])"))

VARIANTS(arch_interleave, {.name = "sd", .blocks = riscv64_blocks_sd});
