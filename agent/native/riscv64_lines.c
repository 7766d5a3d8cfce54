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
