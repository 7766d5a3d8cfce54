/* loongarch64: loops that read and write single lines. See native.h. */
#include "native.h"

/* A load and a branch on what it brought: the clock's barriers hold back its reading. */
static __attribute__((noinline)) uintptr_t loongarch64_message_ld(const uintptr_t *word,
								  uintptr_t old)
{
	uintptr_t seen;

	__asm__ volatile(".p2align 5\n"
			 "1:\n\t"
			 "ld.d %[seen], %[word], 0\n\t"
			 "beq %[seen], %[old], 1b"
			 : [seen] "=&r"(seen)
			 : [word] "r"(word), [old] "r"(old)
			 : "memory");
	return seen;
}

const struct variant arch_message[] = {
	{.name = "ld", .receive = loongarch64_message_ld},
	{.name = NULL},
};

/* ---- fetch ----------------------------------------------------------------------------------- */

/* `line` goes through a page, `at` is where the next begins; the end waits for all loads. */
static __attribute__((noinline)) char *loongarch64_load_ld(char *at, size_t stride, const char *end)
{
	char *line;
	uintptr_t word;

	__asm__ volatile(".p2align 5\n"
			 "lu12i.w $t0, 1\n\t"
			 "1:\n\t"
			 "add.d %[line], %[at], %[stride]\n\t"
			 "add.d %[at], %[at], $t0\n\t"
			 "2:\n\t"
			 "ld.d %[word], %[line], 0\n\t"
			 "add.d %[line], %[line], %[stride]\n\t"
			 "bltu %[line], %[at], 2b\n\t"
			 "bltu %[at], %[end], 1b\n\t"
			 "dbar 0"
			 : [at] "+&r"(at), [line] "=&r"(line), [word] "=&r"(word)
			 : [stride] "r"(stride), [end] "r"(end)
			 : "memory", "$t0");
	return at;
}

/* The line's second word takes its address; the end waits for all stores. */
static __attribute__((noinline)) char *loongarch64_store_ld(char *at, size_t stride,
							    const char *end)
{
	char *line;

	__asm__ volatile(".p2align 5\n"
			 "lu12i.w $t0, 1\n\t"
			 "1:\n\t"
			 "add.d %[line], %[at], %[stride]\n\t"
			 "add.d %[at], %[at], $t0\n\t"
			 "2:\n\t"
			 "st.d %[line], %[line], 8\n\t"
			 "add.d %[line], %[line], %[stride]\n\t"
			 "bltu %[line], %[at], 2b\n\t"
			 "bltu %[at], %[end], 1b\n\t"
			 "dbar 0"
			 : [at] "+&r"(at), [line] "=&r"(line)
			 : [stride] "r"(stride), [end] "r"(end)
			 : "memory", "$t0");
	return at;
}

static __attribute__((noinline)) void *loongarch64_swap_ld(void *line, uint32_t n)
{
	uintptr_t next;

	__asm__ volatile(".p2align 5\n"
			 "1:\n\t"
			 "amadd.d %[next], $zero, %[line]\n\t"
			 "move %[line], %[next]\n\t"
			 "addi.w %[n], %[n], -1\n\t"
			 "bnez %[n], 1b"
			 : [line] "+&r"(line), [next] "=&r"(next), [n] "+&r"(n)
			 :
			 : "memory", "$t0");
	return line;
}

flush_fn *const arch_flush = NULL;

const struct variant arch_fetch[] = {
	{.name = "ld",
	 .swap = loongarch64_swap_ld,
	 .load = loongarch64_load_ld,
	 .store = loongarch64_store_ld},
	{.name = NULL},
};

/* ---- interleave ------------------------------------------------------------------------------ */

/* `line` goes through a block, in which all of each line takes its address. */
static __attribute__((noinline)) char *loongarch64_blocks_st(char *at, size_t block, size_t step,
							     const char *end)
{
	char *line, *stop;

	__asm__ volatile(".p2align 5\n"
			 "1:\n\t"
			 "move %[line], %[at]\n\t"
			 "add.d %[stop], %[at], %[block]\n\t"
			 "2:\n\t"
			 "st.d %[line], %[line], 0\n\t"
			 "st.d %[line], %[line], 8\n\t"
			 "st.d %[line], %[line], 16\n\t"
			 "st.d %[line], %[line], 24\n\t"
			 "st.d %[line], %[line], 32\n\t"
			 "st.d %[line], %[line], 40\n\t"
			 "st.d %[line], %[line], 48\n\t"
			 "st.d %[line], %[line], 56\n\t"
			 "addi.d %[line], %[line], 64\n\t"
			 "bltu %[line], %[stop], 2b\n\t"
			 "add.d %[at], %[at], %[step]\n\t"
			 "bltu %[at], %[end], 1b"
			 : [at] "+&r"(at), [line] "=&r"(line), [stop] "=&r"(stop)
			 : [block] "r"(block), [step] "r"(step), [end] "r"(end)
			 : "memory");
	return at;
}

const struct variant arch_interleave[] = {
	{.name = "st", .blocks = loongarch64_blocks_st},
	{.name = NULL},
};
