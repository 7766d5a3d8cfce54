/* ppc64le: loops that read and write single lines. See native.h. */
#include "native.h"

/* A load and a branch on what it brought: the clock's barriers hold back its reading. */
static __attribute__((noinline)) uintptr_t ppc64le_message_ld(const uintptr_t *word, uintptr_t old)
{
	uintptr_t seen;

	__asm__ volatile(".p2align 5\n"
			 "1:\n\t"
			 "ld %[seen], 0(%[word])\n\t"
			 "cmpd %[seen], %[old]\n\t"
			 "beq 1b"
			 : [seen] "=&r"(seen)
			 : [word] "b"(word), [old] "r"(old)
			 : "memory", "cr0");
	return seen;
}

const struct variant arch_message[] = {
	{.name = "ld", .receive = ppc64le_message_ld},
	{.name = NULL},
};

/* ---- fetch ----------------------------------------------------------------------------------- */

/* `line` goes through a page, `at` is where the next begins; the end waits for all loads. */
static __attribute__((noinline)) char *ppc64le_load_ld(char *at, size_t stride, const char *end)
{
	char *line;
	uintptr_t word;

	__asm__ volatile(".p2align 5\n"
			 "1:\n\t"
			 "add %[line], %[at], %[stride]\n\t"
			 "addi %[at], %[at], 4096\n\t"
			 "2:\n\t"
			 "ld %[word], 0(%[line])\n\t"
			 "add %[line], %[line], %[stride]\n\t"
			 "cmpld %[line], %[at]\n\t"
			 "blt 2b\n\t"
			 "cmpld %[at], %[end]\n\t"
			 "blt 1b\n\t"
			 "lwsync\n\t"
			 "isync"
			 : [at] "+&b"(at), [line] "=&b"(line), [word] "=&r"(word)
			 : [stride] "r"(stride), [end] "r"(end)
			 : "memory", "cr0");
	return at;
}

/* The line's second word takes its address; the end waits for all stores. */
static __attribute__((noinline)) char *ppc64le_store_ld(char *at, size_t stride, const char *end)
{
	char *line;

	__asm__ volatile(".p2align 5\n"
			 "1:\n\t"
			 "add %[line], %[at], %[stride]\n\t"
			 "addi %[at], %[at], 4096\n\t"
			 "2:\n\t"
			 "std %[line], 8(%[line])\n\t"
			 "add %[line], %[line], %[stride]\n\t"
			 "cmpld %[line], %[at]\n\t"
			 "blt 2b\n\t"
			 "cmpld %[at], %[end]\n\t"
			 "blt 1b\n\t"
			 "sync"
			 : [at] "+&b"(at), [line] "=&b"(line)
			 : [stride] "r"(stride), [end] "r"(end)
			 : "memory", "cr0");
	return at;
}

static __attribute__((noinline)) void *ppc64le_swap_ld(void *line, uint32_t n)
{
	uintptr_t next;

	__asm__ volatile(".p2align 5\n"
			 "1:\n\t"
			 "ldarx %[next], 0, %[line]\n\t"
			 "stdcx. %[next], 0, %[line]\n\t"
			 "bne 1b\n\t"
			 "mr %[line], %[next]\n\t"
			 "addi %[n], %[n], -1\n\t"
			 "cmpwi %[n], 0\n\t"
			 "bne 1b"
			 : [line] "+&b"(line), [next] "=&r"(next), [n] "+&b"(n)
			 :
			 : "memory", "cr0");
	return line;
}

static void ppc64le_flush(char *at, size_t bytes, size_t step)
{
	for (char *line = at; line < at + bytes; line += step)
		__asm__ volatile("dcbf 0, %0" : : "r"(line) : "memory");
	__asm__ volatile("sync" : : : "memory");
}

flush_fn *const arch_flush = ppc64le_flush;

const struct variant arch_fetch[] = {
	{.name = "ld", .swap = ppc64le_swap_ld, .load = ppc64le_load_ld, .store = ppc64le_store_ld},
	{.name = NULL},
};

/* ---- interleave ------------------------------------------------------------------------------ */

/* `line` goes through a block, in which all of each line takes its address. */
static __attribute__((noinline)) char *ppc64le_blocks_std(char *at, size_t block, size_t step,
							  const char *end)
{
	char *line, *stop;

	__asm__ volatile(".p2align 5\n"
			 "1:\n\t"
			 "mr %[line], %[at]\n\t"
			 "add %[stop], %[at], %[block]\n\t"
			 "2:\n\t"
			 "std %[line], 0(%[line])\n\t"
			 "std %[line], 8(%[line])\n\t"
			 "std %[line], 16(%[line])\n\t"
			 "std %[line], 24(%[line])\n\t"
			 "std %[line], 32(%[line])\n\t"
			 "std %[line], 40(%[line])\n\t"
			 "std %[line], 48(%[line])\n\t"
			 "std %[line], 56(%[line])\n\t"
			 "addi %[line], %[line], 64\n\t"
			 "cmpld %[line], %[stop]\n\t"
			 "blt 2b\n\t"
			 "add %[at], %[at], %[step]\n\t"
			 "cmpld %[at], %[end]\n\t"
			 "blt 1b"
			 : [at] "+&b"(at), [line] "=&b"(line), [stop] "=&b"(stop)
			 : [block] "r"(block), [step] "r"(step), [end] "r"(end)
			 : "memory", "cr0");
	return at;
}

const struct variant arch_interleave[] = {
	{.name = "std", .blocks = ppc64le_blocks_std},
	{.name = NULL},
};
