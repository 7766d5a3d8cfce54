/* x86_64: loops that read and write single lines. See native.h. */
#include "native.h"

/* A load and a branch on what it brought: the clock's barriers hold back its reading. */
static __attribute__((noinline)) uintptr_t x86_64_message_mov(const uintptr_t *word, uintptr_t old)
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
	{.name = "mov", .receive = x86_64_message_mov},
	{.name = NULL},
};
