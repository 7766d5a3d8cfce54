/* An architecture of which nothing is known: no asm, no counter. All that is left is C and the OS.
 */
#include "native/native.h"

#include <errno.h>

const char arch_name[] = "bare";

const struct variant arch_cas[] = {{.name = NULL}};
const struct variant arch_readwrite[] = {{.name = NULL}};
const struct variant arch_contend[] = {{.name = NULL}};
const struct variant arch_interleave[] = {{.name = NULL}};
const struct variant arch_message[] = {{.name = NULL}};
const struct variant arch_fetch[] = {{.name = NULL}};
flush_fn *const arch_flush = NULL;
const struct variant arch_chase[] = {{.name = NULL}};
const struct variant arch_stream[] = {{.name = NULL}};
const struct variant arch_gemm[] = {{.name = NULL}};

adds_fn *const arch_adds = NULL;

int arch_get_clock(struct clock *clock)
{
	clock->note = "this architecture has no counter";
	return -ENOTSUP;
}
