/* x86_lines.h: loops that read and write single lines, for native/{x86_64,i386}_lines.c only. They
 * define X86_SECOND_WORD, how far a line's second word is from its first, and X86_AFTER_LOADS and
 * X86_AFTER_STORES, the instructions that wait for all of them; and CHANGED, as in line_loops.h. */
#ifndef FLEET_X86_LINES_H
#define FLEET_X86_LINES_H

#define POINTER               "r"
#define WORD                  "m"(*word)
#define AGAIN                 "dec %[n]\n\tjne 1b"
#define SUM(to, a, b)         "lea (%[" a "],%[" b "]), %[" to "]\n\t"
#define COPY(to, from)        "mov %[" from "], %[" to "]\n\t"
#define ADD(to, by)           "add %[" by "], %[" to "]\n\t"
#define NEXT_LINE             "add $64, %[line]\n\t"
#define NEXT_PAGE             "add $4096, %[at]\n\t"
#define IF_BELOW(a, b, label) "cmp %[" b "], %[" a "]\n\tjb " label "\n\t"

#include "line_loops.h"

RECEIVE(x86_message_mov, "mov %[word], %[seen]\n\t"
			 "cmp %[old], %[seen]\n\t"
			 "je 1b")

VARIANTS(arch_message, {.name = "mov", .receive = x86_message_mov});

GO_BY_PAGES(x86_load_mov, "mov (%[line]), %[word]", X86_AFTER_LOADS)
GO_BY_PAGES(x86_store_mov, "mov %[line], " X86_SECOND_WORD "(%[line])", X86_AFTER_STORES)
SWAP(x86_swap_mov, "xor %[next], %[next]\n\t"
		   "lock xadd %[next], (%[line])\n\t"
		   "mov %[next], %[line]")
FLUSH(x86_flush, "clflush (%0)", X86_AFTER_STORES)

VARIANTS(arch_fetch,
	 {.name = "mov", .swap = x86_swap_mov, .load = x86_load_mov, .store = x86_store_mov});

#endif
