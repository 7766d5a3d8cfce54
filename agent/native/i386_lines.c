/* i386: loops that read and write single lines. See native.h. */
#include "native.h"

/* A load and a branch on what it brought: the clock's barriers hold back its reading. */
static __attribute__((noinline)) uintptr_t i386_message_mov(const uintptr_t *word, uintptr_t old)
{
	uintptr_t seen;

	__asm__ volatile(".p2align 5\n"
			 "1:\n\t"
			 "mov %[word], %[seen]\n\t"
			 "cmp %[old], %[seen]\n\t"
			 "je 1b"
			 : [seen] "=&r"(seen)
			 : [word] "m"(*word), [old] "r"(old)
			 : "memory", "cc");
	return seen;
}

const struct variant arch_message[] = {
	{.name = "mov", .receive = i386_message_mov},
	{.name = NULL},
};

/* ---- fetch ----------------------------------------------------------------------------------- */

/* `line` goes through a page, `at` is where the next begins; the end waits for all loads. */
static __attribute__((noinline)) char *i386_load_mov(char *at, size_t stride, const char *end)
{
	char *line;
	uintptr_t word;

	__asm__ volatile(".p2align 5\n"
			 "1:\n\t"
			 "lea (%[at],%[stride]), %[line]\n\t"
			 "add $4096, %[at]\n\t"
			 "2:\n\t"
			 "mov (%[line]), %[word]\n\t"
			 "add %[stride], %[line]\n\t"
			 "cmp %[at], %[line]\n\t"
			 "jb 2b\n\t"
			 "cmp %[end], %[at]\n\t"
			 "jb 1b\n\t"
			 "lock orl $0, (%%esp)"
			 : [at] "+&r"(at), [line] "=&r"(line), [word] "=&r"(word)
			 : [stride] "r"(stride), [end] "r"(end)
			 : "memory", "cc");
	return at;
}

/* The line's second word takes its address; the end waits for all stores. */
static __attribute__((noinline)) char *i386_store_mov(char *at, size_t stride, const char *end)
{
	char *line;

	__asm__ volatile(".p2align 5\n"
			 "1:\n\t"
			 "lea (%[at],%[stride]), %[line]\n\t"
			 "add $4096, %[at]\n\t"
			 "2:\n\t"
			 "mov %[line], 4(%[line])\n\t"
			 "add %[stride], %[line]\n\t"
			 "cmp %[at], %[line]\n\t"
			 "jb 2b\n\t"
			 "cmp %[end], %[at]\n\t"
			 "jb 1b\n\t"
			 "lock orl $0, (%%esp)"
			 : [at] "+&r"(at), [line] "=&r"(line)
			 : [stride] "r"(stride), [end] "r"(end)
			 : "memory", "cc");
	return at;
}

static __attribute__((noinline)) void *i386_swap_mov(void *line, uint32_t n)
{
	uintptr_t next;

	__asm__ volatile(".p2align 5\n"
			 "1:\n\t"
			 "xor %[next], %[next]\n\t"
			 "lock xadd %[next], (%[line])\n\t"
			 "mov %[next], %[line]\n\t"
			 "dec %[n]\n\t"
			 "jne 1b"
			 : [line] "+&r"(line), [next] "=&r"(next), [n] "+&r"(n)
			 :
			 : "memory", "cc");
	return line;
}

static void i386_flush(char *at, size_t bytes, size_t step)
{
	for (char *line = at; line < at + bytes; line += step)
		__asm__ volatile("clflush (%0)" : : "r"(line) : "memory");
	__sync_synchronize();
}

flush_fn *const arch_flush = i386_flush;

const struct variant arch_fetch[] = {
	{.name = "mov", .swap = i386_swap_mov, .load = i386_load_mov, .store = i386_store_mov},
	{.name = NULL},
};

/* ---- interleave ------------------------------------------------------------------------------ */

/* `line` goes through a block, in which all of each line takes its address. */
static __attribute__((noinline)) char *i386_blocks_sse2(char *at, size_t block, size_t step,
							const char *end)
{
	char *line, *stop;

	__asm__ volatile(".p2align 5\n"
			 "1:\n\t"
			 "mov %[at], %[line]\n\t"
			 "lea (%[at],%[block]), %[stop]\n\t"
			 "2:\n\t"
			 "movd %[line], %%xmm0\n\t"
			 "pshufd $0, %%xmm0, %%xmm0\n\t"
			 "movaps %%xmm0, (%[line])\n\t"
			 "movaps %%xmm0, 16(%[line])\n\t"
			 "movaps %%xmm0, 32(%[line])\n\t"
			 "movaps %%xmm0, 48(%[line])\n\t"
			 "add $64, %[line]\n\t"
			 "cmp %[stop], %[line]\n\t"
			 "jb 2b\n\t"
			 "add %[step], %[at]\n\t"
			 "cmp %[end], %[at]\n\t"
			 "jb 1b"
			 : [at] "+&r"(at), [line] "=&r"(line), [stop] "=&r"(stop)
			 : [block] "r"(block), [step] "r"(step), [end] "m"(end)
			 : "memory", "cc");
	return at;
}

static __attribute__((noinline)) char *i386_nt_blocks_sse2(char *at, size_t block, size_t step,
							   const char *end)
{
	char *line, *stop;

	__asm__ volatile(".p2align 5\n"
			 "1:\n\t"
			 "mov %[at], %[line]\n\t"
			 "lea (%[at],%[block]), %[stop]\n\t"
			 "2:\n\t"
			 "movd %[line], %%xmm0\n\t"
			 "pshufd $0, %%xmm0, %%xmm0\n\t"
			 "movntps %%xmm0, (%[line])\n\t"
			 "movntps %%xmm0, 16(%[line])\n\t"
			 "movntps %%xmm0, 32(%[line])\n\t"
			 "movntps %%xmm0, 48(%[line])\n\t"
			 "add $64, %[line]\n\t"
			 "cmp %[stop], %[line]\n\t"
			 "jb 2b\n\t"
			 "add %[step], %[at]\n\t"
			 "cmp %[end], %[at]\n\t"
			 "jb 1b\n\t"
			 "sfence"
			 : [at] "+&r"(at), [line] "=&r"(line), [stop] "=&r"(stop)
			 : [block] "r"(block), [step] "r"(step), [end] "m"(end)
			 : "memory", "cc");
	return at;
}

const struct variant arch_interleave[] = {
	{.name = "sse2",
	 .needs = FEATURE_SSE2,
	 .blocks = i386_blocks_sse2,
	 .nt_blocks = i386_nt_blocks_sse2},
	{.name = NULL},
};
