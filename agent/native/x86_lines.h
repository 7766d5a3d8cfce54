/*
 * x86_lines.h: loops that read and write single lines, for native/{x86_64,i386}_lines.c only. They
 * define X86_SECOND_WORD, how far a line's second word is from its first, and X86_AFTER_LOADS and
 * X86_AFTER_STORES, the instructions that wait for all of them.
 */
#ifndef FLEET_X86_LINES_H
#define FLEET_X86_LINES_H

#include "native.h"

/* A load and a branch on what it brought: the clock's barriers hold back its reading. */
static __attribute__((noinline)) uintptr_t x86_message_mov(const uintptr_t *word, uintptr_t old)
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
	{.name = "mov", .receive = x86_message_mov},
	{.name = NULL},
};

/* ---- fetch ----------------------------------------------------------------------------------- */

/* `line` goes through a page, `at` is where the next begins; the end waits for all loads. */
static __attribute__((noinline)) char *x86_load_mov(char *at, size_t stride, const char *end)
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
			 "jb 1b\n\t" X86_AFTER_LOADS
			 : [at] "+&r"(at), [line] "=&r"(line), [word] "=&r"(word)
			 : [stride] "r"(stride), [end] "r"(end)
			 : "memory", "cc");
	return at;
}

/* The line's second word takes its address; the end waits for all stores. */
static __attribute__((noinline)) char *x86_store_mov(char *at, size_t stride, const char *end)
{
	char *line;

	__asm__ volatile(".p2align 5\n"
			 "1:\n\t"
			 "lea (%[at],%[stride]), %[line]\n\t"
			 "add $4096, %[at]\n\t"
			 "2:\n\t"
			 "mov %[line], " X86_SECOND_WORD "(%[line])\n\t"
			 "add %[stride], %[line]\n\t"
			 "cmp %[at], %[line]\n\t"
			 "jb 2b\n\t"
			 "cmp %[end], %[at]\n\t"
			 "jb 1b\n\t" X86_AFTER_STORES
			 : [at] "+&r"(at), [line] "=&r"(line)
			 : [stride] "r"(stride), [end] "r"(end)
			 : "memory", "cc");
	return at;
}

static __attribute__((noinline)) void *x86_swap_mov(void *line, uint32_t n)
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

static void x86_flush(char *at, size_t bytes, size_t step)
{
	for (char *line = at; line < at + bytes; line += step)
		__asm__ volatile("clflush (%0)" : : "r"(line) : "memory");
	__asm__ volatile(X86_AFTER_STORES : : : "memory", "cc");
}

flush_fn *const arch_flush = x86_flush;

const struct variant arch_fetch[] = {
	{.name = "mov", .swap = x86_swap_mov, .load = x86_load_mov, .store = x86_store_mov},
	{.name = NULL},
};

#endif
