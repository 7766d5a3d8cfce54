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
