/* armv7: loops that read and write single lines. See native.h. */
#define POINTER               "r"
#define CHANGED               "cc"
#define WORD                  "Q"(*word)
#define AGAIN                 "subs %[n], %[n], #1\n\tbne 1b"
#define SUM(to, a, b)         "add %[" to "], %[" a "], %[" b "]\n\t"
#define COPY(to, from)        "mov %[" to "], %[" from "]\n\t"
#define NEXT_LINE             "add %[line], %[line], #64\n\t"
#define NEXT_PAGE             "add %[at], %[at], #4096\n\t"
#define IF_BELOW(a, b, label) "cmp %[" a "], %[" b "]\n\tbcc " label "\n\t"

#include "line_loops.h"

RECEIVE(armv7_message_ldr, "ldr %[seen], %[word]\n\t"
			   "cmp %[seen], %[old]\n\t"
			   "beq 1b")

VARIANTS(arch_message, {.name = "ldr", .receive = armv7_message_ldr});

GO_BY_PAGES(armv7_load_ldr, "ldr %[word], [%[line]]",
	    "dmb ish\n\t"
	    "isb")
GO_BY_PAGES(armv7_store_ldr, "str %[line], [%[line], #4]", "dsb ish")
SWAP(armv7_swap_ldr, "ldrex %[next], [%[line]]\n\t"
		     "strex %[failed], %[next], [%[line]]\n\t"
		     "cmp %[failed], #0\n\t"
		     "bne 1b\n\t"
		     "mov %[line], %[next]")

flush_fn *const arch_flush = NULL;

VARIANTS(arch_fetch,
	 {.name = "ldr", .swap = armv7_swap_ldr, .load = armv7_load_ldr, .store = armv7_store_ldr});

#undef CHANGED
#define CHANGED "cc", "r2", "r3"

GO_BY_BLOCKS(armv7_blocks_strd, "mov r2, %[line]\n\t"
				"mov r3, %[line]\n\t" EACH_WORD("strd r2, r3, [%[line], #\\at]"))

VARIANTS(arch_interleave, {.name = "strd", .blocks = armv7_blocks_strd});
