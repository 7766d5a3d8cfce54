/* s390x: loops that read and write single lines. See native.h. */
#include "native.h"

/* A load and a branch on what it brought: the clock's barriers hold back its reading. */
static __attribute__((noinline)) uintptr_t s390x_message_lg(const uintptr_t *word, uintptr_t old)
{
	uintptr_t seen;

	__asm__ volatile(".p2align 5\n"
			 "1:\n\t"
			 "lg %[seen], %[word]\n\t"
			 "cgr %[seen], %[old]\n\t"
			 "je 1b"
			 : [seen] "=&d"(seen)
			 : [word] "Q"(*word), [old] "d"(old)
			 : "memory", "cc");
	return seen;
}

const struct variant arch_message[] = {
	{.name = "lg", .receive = s390x_message_lg},
	{.name = NULL},
};

/* ---- fetch ----------------------------------------------------------------------------------- */

/* `line` goes through a page, `at` is where the next begins; the end waits for all loads. */
static __attribute__((noinline)) char *s390x_load_lg(char *at, size_t stride, const char *end)
{
	char *line;
	uintptr_t word;

	__asm__ volatile(".p2align 5\n"
			 "1:\n\t"
			 "la %[line], 0(%[at],%[stride])\n\t"
			 "aghi %[at], 4096\n\t"
			 "2:\n\t"
			 "lg %[word], 0(%[line])\n\t"
			 "la %[line], 0(%[line],%[stride])\n\t"
			 "clgr %[line], %[at]\n\t"
			 "jl 2b\n\t"
			 "clgr %[at], %[end]\n\t"
			 "jl 1b\n\t"
			 "bcr 15, 0"
			 : [at] "+&a"(at), [line] "=&a"(line), [word] "=&r"(word)
			 : [stride] "a"(stride), [end] "r"(end)
			 : "memory", "cc");
	return at;
}

/* The line's second word takes its address; the end waits for all stores. */
static __attribute__((noinline)) char *s390x_store_lg(char *at, size_t stride, const char *end)
{
	char *line;

	__asm__ volatile(".p2align 5\n"
			 "1:\n\t"
			 "la %[line], 0(%[at],%[stride])\n\t"
			 "aghi %[at], 4096\n\t"
			 "2:\n\t"
			 "stg %[line], 8(%[line])\n\t"
			 "la %[line], 0(%[line],%[stride])\n\t"
			 "clgr %[line], %[at]\n\t"
			 "jl 2b\n\t"
			 "clgr %[at], %[end]\n\t"
			 "jl 1b\n\t"
			 "bcr 15, 0"
			 : [at] "+&a"(at), [line] "=&a"(line)
			 : [stride] "a"(stride), [end] "r"(end)
			 : "memory", "cc");
	return at;
}

/* csg takes the line for writing before it compares; no line holds 0, so it brings the value. */
static __attribute__((noinline)) void *s390x_swap_lg(void *line, uint32_t n)
{
	uintptr_t next;

	__asm__ volatile(".p2align 5\n"
			 "1:\n\t"
			 "lghi %[next], 0\n\t"
			 "csg %[next], %[next], 0(%[line])\n\t"
			 "lgr %[line], %[next]\n\t"
			 "brct %[n], 1b"
			 : [line] "+&a"(line), [next] "=&r"(next), [n] "+&r"(n)
			 :
			 : "memory", "cc");
	return line;
}

flush_fn *const arch_flush = NULL;

const struct variant arch_fetch[] = {
	{.name = "lg", .swap = s390x_swap_lg, .load = s390x_load_lg, .store = s390x_store_lg},
	{.name = NULL},
};

/* ---- interleave ------------------------------------------------------------------------------ */

/* `line` goes through a block, in which all of each line takes its address. */
static __attribute__((noinline)) char *s390x_blocks_stg(char *at, size_t block, size_t step,
							const char *end)
{
	char *line, *stop;

	__asm__ volatile(".p2align 5\n"
			 "1:\n\t"
			 "lgr %[line], %[at]\n\t"
			 "la %[stop], 0(%[at],%[block])\n\t"
			 "2:\n\t"
			 "stg %[line], 0(%[line])\n\t"
			 "stg %[line], 8(%[line])\n\t"
			 "stg %[line], 16(%[line])\n\t"
			 "stg %[line], 24(%[line])\n\t"
			 "stg %[line], 32(%[line])\n\t"
			 "stg %[line], 40(%[line])\n\t"
			 "stg %[line], 48(%[line])\n\t"
			 "stg %[line], 56(%[line])\n\t"
			 "aghi %[line], 64\n\t"
			 "clgr %[line], %[stop]\n\t"
			 "jl 2b\n\t"
			 "agr %[at], %[step]\n\t"
			 "clgr %[at], %[end]\n\t"
			 "jl 1b"
			 : [at] "+&a"(at), [line] "=&a"(line), [stop] "=&a"(stop)
			 : [block] "a"(block), [step] "r"(step), [end] "r"(end)
			 : "memory", "cc");
	return at;
}

const struct variant arch_interleave[] = {
	{.name = "stg", .blocks = s390x_blocks_stg},
	{.name = NULL},
};
