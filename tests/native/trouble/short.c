/* An architecture whose loops do less than they are told: a copy ends early, a chase leaves out a
 * load. */
#include "native/native.h"

#include <errno.h>
#include <string.h>

const char arch_name[] = "short";

const struct variant arch_cas[] = {{.name = NULL}};
const struct variant arch_readwrite[] = {{.name = NULL}};

static void *chase(void *line, uint32_t n16)
{
	for (uint32_t i = 1; i < 16 * n16; i++)
		line = *(void *volatile *)line;
	return line;
}

static char *copy(char *at, const char *from, size_t bytes)
{
	return (char *)memcpy(at, from, bytes - 64) + bytes - 64;
}

static char *blocks(char *at, size_t block, size_t step, const char *end)
{
	(void)block;
	(void)end;
	return at + step;
}

static char *load(char *at, size_t stride, const char *end)
{
	(void)stride;
	return at + (end - at) / 2;
}

static uint32_t add(uint32_t *word, uint32_t n)
{
	return __atomic_fetch_add(word, n - 1, __ATOMIC_RELAXED);
}

static void lock_once_less(struct lock *lock, struct lock_node *own, uint32_t n)
{
	(void)own;
	add(&lock->word, n);
}

const struct variant arch_contend[] = {{.name = "short",
					.add = {[OPERATION_FAA] = add},
					.lock = {[OPERATION_TICKET] = lock_once_less}},
				       {.name = NULL}};
const struct variant arch_interleave[] = {{.name = "short", .blocks = blocks}, {.name = NULL}};
const struct variant arch_message[] = {{.name = NULL}};
const struct variant arch_fetch[] = {{.name = "short", .load = load}, {.name = NULL}};
flush_fn *const arch_flush = NULL;
const struct variant arch_chase[] = {{.name = "short", .chase = chase}, {.name = NULL}};
const struct variant arch_stream[] = {{.name = "short", .stream = {[OPERATION_COPY] = copy}},
				      {.name = NULL}};

const struct variant arch_gemm[] = {{.name = NULL}};

adds_fn *const arch_adds = NULL;

int arch_get_clock(struct clock *clock)
{
	clock->note = "this architecture has no counter";
	return -ENOTSUP;
}
