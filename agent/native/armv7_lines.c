/* armv7: loops that read and write single lines. See native.h. */
#include "native.h"

/* A load and a branch on what it brought: the clock's barriers hold back its reading. */
static __attribute__((noinline)) uintptr_t armv7_message_ldr(const uintptr_t *word, uintptr_t old)
{
	uintptr_t seen;

	__asm__ volatile(".p2align 5\n"
			 "1:\n\t"
			 "ldr %[seen], %[word]\n\t"
			 "cmp %[seen], %[old]\n\t"
			 "beq 1b"
			 : [seen] "=&r"(seen)
			 : [word] "Q"(*word), [old] "r"(old)
			 : "memory", "cc");
	return seen;
}

const struct variant arch_message[] = {
	{.name = "ldr", .receive = armv7_message_ldr},
	{.name = NULL},
};
