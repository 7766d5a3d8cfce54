/* An architecture with a loop that dies of an instruction that is not there, whatever the OS tells.
 */
#include "native/native.h"

#include <errno.h>

const char arch_name[] = "deadly";

const struct variant arch_cas[] = {{.name = NULL}};
const struct variant arch_readwrite[] = {{.name = NULL}};
const struct variant arch_contend[] = {{.name = NULL}};
const struct variant arch_interleave[] = {{.name = NULL}};
const struct variant arch_message[] = {{.name = NULL}};
const struct variant arch_fetch[] = {{.name = NULL}};
flush_fn *const arch_flush = NULL;
const struct variant arch_chase[] = {{.name = NULL}};

static char *die(char *at, const char *from, size_t bytes)
{
	(void)from;
	(void)bytes;
	__builtin_trap();
	return at;
}

const struct variant arch_stream[] = {{.name = "deadly", .stream = {[OPERATION_READ] = die}},
				      {.name = NULL}};

const struct variant arch_gemm[] = {{.name = NULL}};

adds_fn *const arch_adds = NULL;

int arch_get_clock(struct clock *clock)
{
	clock->note = "this architecture has no counter";
	return -ENOTSUP;
}
