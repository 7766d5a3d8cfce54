/* s390x: loops that read and write single lines. See native.h. */
#include "native.h"

/* A load and a branch on what it brought: the clock's barriers hold back its reading. */
static __attribute__((noinline)) uintptr_t s390x_message_lg(const uintptr_t *word, uintptr_t old)
{
	uintptr_t seen;

	__asm__ volatile(".p2align 5\n"
			 "1:\n\t"
			 "lg %[seen], %[word]\n\t"
			 "cgr %[seen], %[old]\n\t"
			 "je 1b"
			 : [seen] "=&d"(seen)
			 : [word] "Q"(*word), [old] "d"(old)
			 : "memory", "cc");
	return seen;
}

const struct variant arch_message[] = {
	{.name = "lg", .receive = s390x_message_lg},
	{.name = NULL},
};
