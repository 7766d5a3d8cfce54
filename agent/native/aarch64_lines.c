/* aarch64: loops that read and write single lines. See native.h. */
#include "native.h"

/* A load and a branch on what it brought: the clock's barriers hold back its reading. */
static __attribute__((noinline)) uintptr_t aarch64_message_ldr(const uintptr_t *word, uintptr_t old)
{
	uintptr_t seen;

	__asm__ volatile(".p2align 5\n"
			 "1:\n\t"
			 "ldr %[seen], %[word]\n\t"
			 "cmp %[seen], %[old]\n\t"
			 "b.eq 1b"
			 : [seen] "=&r"(seen)
			 : [word] "Q"(*word), [old] "r"(old)
			 : "memory", "cc");
	return seen;
}

const struct variant arch_message[] = {
	{.name = "ldr", .receive = aarch64_message_ldr},
	{.name = NULL},
};

/* ---- fetch ----------------------------------------------------------------------------------- */

/* `line` goes through a page, `at` is where the next begins; the end waits for all loads. */
static __attribute__((noinline)) char *aarch64_load_ldr(char *at, size_t stride, const char *end)
{
	char *line;
	uintptr_t word;

	__asm__ volatile(".p2align 5\n"
			 "1:\n\t"
			 "add %[line], %[at], %[stride]\n\t"
			 "add %[at], %[at], #4096\n\t"
			 "2:\n\t"
			 "ldr %[word], [%[line]]\n\t"
			 "add %[line], %[line], %[stride]\n\t"
			 "cmp %[line], %[at]\n\t"
			 "b.lo 2b\n\t"
			 "cmp %[at], %[end]\n\t"
			 "b.lo 1b\n\t"
			 "dmb ishld\n\t"
			 "isb"
			 : [at] "+&r"(at), [line] "=&r"(line), [word] "=&r"(word)
			 : [stride] "r"(stride), [end] "r"(end)
			 : "memory", "cc");
	return at;
}

/* The line's second word takes its address; the end waits for all stores. */
static __attribute__((noinline)) char *aarch64_store_ldr(char *at, size_t stride, const char *end)
{
	char *line;

	__asm__ volatile(".p2align 5\n"
			 "1:\n\t"
			 "add %[line], %[at], %[stride]\n\t"
			 "add %[at], %[at], #4096\n\t"
			 "2:\n\t"
			 "str %[line], [%[line], #8]\n\t"
			 "add %[line], %[line], %[stride]\n\t"
			 "cmp %[line], %[at]\n\t"
			 "b.lo 2b\n\t"
			 "cmp %[at], %[end]\n\t"
			 "b.lo 1b\n\t"
			 "dsb ish"
			 : [at] "+&r"(at), [line] "=&r"(line)
			 : [stride] "r"(stride), [end] "r"(end)
			 : "memory", "cc");
	return at;
}

static __attribute__((noinline)) void *aarch64_swap_lse(void *line, uint32_t n)
{
	uintptr_t next;

	__asm__ volatile(".p2align 5\n"
			 ".arch_extension lse\n\t"
			 "1:\n\t"
			 "ldadd xzr, %[next], [%[line]]\n\t"
			 "mov %[line], %[next]\n\t"
			 "sub %w[n], %w[n], #1\n\t"
			 "cbnz %w[n], 1b"
			 : [line] "+&r"(line), [next] "=&r"(next), [n] "+&r"(n)
			 :
			 : "memory", "cc");
	return line;
}

static __attribute__((noinline)) void *aarch64_swap_ldr(void *line, uint32_t n)
{
	uintptr_t next, failed;

	__asm__ volatile(
		".p2align 5\n"
		"1:\n\t"
		"ldxr %[next], [%[line]]\n\t"
		"stxr %w[failed], %[next], [%[line]]\n\t"
		"cbnz %w[failed], 1b\n\t"
		"mov %[line], %[next]\n\t"
		"sub %w[n], %w[n], #1\n\t"
		"cbnz %w[n], 1b"
		: [line] "+&r"(line), [next] "=&r"(next), [failed] "=&r"(failed), [n] "+&r"(n)
		:
		: "memory", "cc");
	return line;
}

static void aarch64_flush(char *at, size_t bytes, size_t step)
{
	for (char *line = at; line < at + bytes; line += step)
		__asm__ volatile("dc civac, %0" : : "r"(line) : "memory");
	__asm__ volatile("dsb ish" : : : "memory");
}

flush_fn *const arch_flush = aarch64_flush;

const struct variant arch_fetch[] = {
	{.name = "lse", .needs = FEATURE_LSE, .swap = aarch64_swap_lse},
	{.name = "ldr",
	 .swap = aarch64_swap_ldr,
	 .load = aarch64_load_ldr,
	 .store = aarch64_store_ldr},
	{.name = NULL},
};

/* ---- interleave ------------------------------------------------------------------------------ */

/* `line` goes through a block, in which all of each line takes its address. */
static __attribute__((noinline)) char *aarch64_blocks_neon(char *at, size_t block, size_t step,
							   const char *end)
{
	char *line, *stop;

	__asm__ volatile(".p2align 5\n"
			 "1:\n\t"
			 "mov %[line], %[at]\n\t"
			 "add %[stop], %[at], %[block]\n\t"
			 "2:\n\t"
			 "dup v0.2d, %[line]\n\t"
			 "stp q0, q0, [%[line]]\n\t"
			 "stp q0, q0, [%[line], #32]\n\t"
			 "add %[line], %[line], #64\n\t"
			 "cmp %[line], %[stop]\n\t"
			 "b.lo 2b\n\t"
			 "add %[at], %[at], %[step]\n\t"
			 "cmp %[at], %[end]\n\t"
			 "b.lo 1b"
			 : [at] "+&r"(at), [line] "=&r"(line), [stop] "=&r"(stop)
			 : [block] "r"(block), [step] "r"(step), [end] "r"(end)
			 : "memory", "cc", "v0");
	return at;
}

static __attribute__((noinline)) char *aarch64_nt_blocks_neon(char *at, size_t block, size_t step,
							      const char *end)
{
	char *line, *stop;

	__asm__ volatile(".p2align 5\n"
			 "1:\n\t"
			 "mov %[line], %[at]\n\t"
			 "add %[stop], %[at], %[block]\n\t"
			 "2:\n\t"
			 "dup v0.2d, %[line]\n\t"
			 "stnp q0, q0, [%[line]]\n\t"
			 "stnp q0, q0, [%[line], #32]\n\t"
			 "add %[line], %[line], #64\n\t"
			 "cmp %[line], %[stop]\n\t"
			 "b.lo 2b\n\t"
			 "add %[at], %[at], %[step]\n\t"
			 "cmp %[at], %[end]\n\t"
			 "b.lo 1b"
			 : [at] "+&r"(at), [line] "=&r"(line), [stop] "=&r"(stop)
			 : [block] "r"(block), [step] "r"(step), [end] "r"(end)
			 : "memory", "cc", "v0");
	return at;
}

const struct variant arch_interleave[] = {
	{.name = "neon", .blocks = aarch64_blocks_neon, .nt_blocks = aarch64_nt_blocks_neon},
	{.name = NULL},
};
