/* s390x: loops that read and write single lines. See native.h. */
#define POINTER               "a"
#define CHANGED               "cc"
#define WORD                  "Q"(*word)
#define AGAIN                 "brct %[n], 1b"
#define SUM(to, a, b)         "la %[" to "], 0(%[" a "],%[" b "])\n\t"
#define COPY(to, from)        "lgr %[" to "], %[" from "]\n\t"
#define ADD(to, by)           "agr %[" to "], %[" by "]\n\t"
#define NEXT_LINE             "aghi %[line], 64\n\t"
#define NEXT_PAGE             "aghi %[at], 4096\n\t"
#define IF_BELOW(a, b, label) "clgr %[" a "], %[" b "]\n\tjl " label "\n\t"

#include "line_loops.h"

RECEIVE(s390x_message_lg, "lg %[seen], %[word]\n\t"
			  "cgr %[seen], %[old]\n\t"
			  "je 1b")

VARIANTS(arch_message, {.name = "lg", .receive = s390x_message_lg});

GO_BY_PAGES(s390x_load_lg, "lg %[word], 0(%[line])", "bcr 15, 0")
GO_BY_PAGES(s390x_store_lg, "stg %[line], 8(%[line])", "bcr 15, 0")

/* csg takes the line for writing before it compares; no line holds 0, so it brings the value. */
SWAP(s390x_swap_lg, "lghi %[next], 0\n\t"
		    "csg %[next], %[next], 0(%[line])\n\t"
		    "lgr %[line], %[next]")

flush_fn *const arch_flush = NULL;

VARIANTS(arch_fetch,
	 {.name = "lg", .swap = s390x_swap_lg, .load = s390x_load_lg, .store = s390x_store_lg});

GO_BY_BLOCKS(s390x_blocks_stg, EACH_WORD("stg %[line], \\at(%[line])"))

VARIANTS(arch_interleave, {.name = "stg", .blocks = s390x_blocks_stg});
