/* riscv64: loops that read and write single lines. See native.h. */
#include "native.h"

/* A load and a branch on what it brought: the clock's barriers hold back its reading. */
static __attribute__((noinline)) uintptr_t riscv64_message_ld(const uintptr_t *word, uintptr_t old)
{
	uintptr_t seen;

	__asm__ volatile(".p2align 5\n"
			 "1:\n\t"
			 "ld %[seen], %[word]\n\t"
			 "beq %[seen], %[old], 1b"
			 : [seen] "=&r"(seen)
			 : [word] "A"(*word), [old] "r"(old)
			 : "memory");
	return seen;
}

const struct variant arch_message[] = {
	{.name = "ld", .receive = riscv64_message_ld},
	{.name = NULL},
};

/* ---- fetch ----------------------------------------------------------------------------------- */

/* `line` goes through a page, `at` is where the next begins; the end waits for all loads. */
static __attribute__((noinline)) char *riscv64_load_ld(char *at, size_t stride, const char *end)
{
	char *line;
	uintptr_t word;

	__asm__ volatile(".p2align 5\n"
			 "li t0, 4096\n\t"
			 "1:\n\t"
			 "add %[line], %[at], %[stride]\n\t"
			 "add %[at], %[at], t0\n\t"
			 "2:\n\t"
			 "ld %[word], 0(%[line])\n\t"
			 "add %[line], %[line], %[stride]\n\t"
			 "bltu %[line], %[at], 2b\n\t"
			 "bltu %[at], %[end], 1b\n\t"
			 "fence r, rw"
			 : [at] "+&r"(at), [line] "=&r"(line), [word] "=&r"(word)
			 : [stride] "r"(stride), [end] "r"(end)
			 : "memory", "t0");
	return at;
}

/* The line's second word takes its address; the end waits for all stores. */
static __attribute__((noinline)) char *riscv64_store_ld(char *at, size_t stride, const char *end)
{
	char *line;

	__asm__ volatile(".p2align 5\n"
			 "li t0, 4096\n\t"
			 "1:\n\t"
			 "add %[line], %[at], %[stride]\n\t"
			 "add %[at], %[at], t0\n\t"
			 "2:\n\t"
			 "sd %[line], 8(%[line])\n\t"
			 "add %[line], %[line], %[stride]\n\t"
			 "bltu %[line], %[at], 2b\n\t"
			 "bltu %[at], %[end], 1b\n\t"
			 "fence rw, rw"
			 : [at] "+&r"(at), [line] "=&r"(line)
			 : [stride] "r"(stride), [end] "r"(end)
			 : "memory", "t0");
	return at;
}

static __attribute__((noinline)) void *riscv64_swap_ld(void *line, uint32_t n)
{
	uintptr_t next;

	__asm__ volatile(".p2align 5\n"
			 "1:\n\t"
			 "amoadd.d %[next], zero, (%[line])\n\t"
			 "mv %[line], %[next]\n\t"
			 "addiw %[n], %[n], -1\n\t"
			 "bnez %[n], 1b"
			 : [line] "+&r"(line), [next] "=&r"(next), [n] "+&r"(n)
			 :
			 : "memory", "t0");
	return line;
}

static void riscv64_flush(char *at, size_t bytes, size_t step)
{
	for (char *line = at; line < at + bytes; line += step)
		__asm__ volatile(".insn i 0x0f, 2, x0, %0, 2"
				 :
				 : "r"(line)
				 : "memory"); /* cbo.flush */
	__asm__ volatile("fence iorw, iorw" : : : "memory");
}

flush_fn *const arch_flush = riscv64_flush;

const struct variant arch_fetch[] = {
	{.name = "ld", .swap = riscv64_swap_ld, .load = riscv64_load_ld, .store = riscv64_store_ld},
	{.name = NULL},
};

/* ---- interleave ------------------------------------------------------------------------------ */

/* `line` goes through a block, in which all of each line takes its address. */
static __attribute__((noinline)) char *riscv64_blocks_sd(char *at, size_t block, size_t step,
							 const char *end)
{
	char *line, *stop;

	__asm__ volatile(".p2align 5\n"
			 "1:\n\t"
			 "mv %[line], %[at]\n\t"
			 "add %[stop], %[at], %[block]\n\t"
			 "2:\n\t"
			 "sd %[line], 0(%[line])\n\t"
			 "sd %[line], 8(%[line])\n\t"
			 "sd %[line], 16(%[line])\n\t"
			 "sd %[line], 24(%[line])\n\t"
			 "sd %[line], 32(%[line])\n\t"
			 "sd %[line], 40(%[line])\n\t"
			 "sd %[line], 48(%[line])\n\t"
			 "sd %[line], 56(%[line])\n\t"
			 "addi %[line], %[line], 64\n\t"
			 "bltu %[line], %[stop], 2b\n\t"
			 "add %[at], %[at], %[step]\n\t"
			 "bltu %[at], %[end], 1b"
			 : [at] "+&r"(at), [line] "=&r"(line), [stop] "=&r"(stop)
			 : [block] "r"(block), [step] "r"(step), [end] "r"(end)
			 : "memory");
	return at;
}

const struct variant arch_interleave[] = {
	{.name = "sd", .blocks = riscv64_blocks_sd},
	{.name = NULL},
};
