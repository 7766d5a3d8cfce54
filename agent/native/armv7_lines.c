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

/* ---- fetch ----------------------------------------------------------------------------------- */

/* `line` goes through a page, `at` is where the next begins; the end waits for all loads. */
static __attribute__((noinline)) char *armv7_load_ldr(char *at, size_t stride, const char *end)
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
			 "bcc 2b\n\t"
			 "cmp %[at], %[end]\n\t"
			 "bcc 1b\n\t"
			 "dmb ish\n\t"
			 "isb"
			 : [at] "+&r"(at), [line] "=&r"(line), [word] "=&r"(word)
			 : [stride] "r"(stride), [end] "r"(end)
			 : "memory", "cc");
	return at;
}

/* The line's second word takes its address; the end waits for all stores. */
static __attribute__((noinline)) char *armv7_store_ldr(char *at, size_t stride, const char *end)
{
	char *line;

	__asm__ volatile(".p2align 5\n"
			 "1:\n\t"
			 "add %[line], %[at], %[stride]\n\t"
			 "add %[at], %[at], #4096\n\t"
			 "2:\n\t"
			 "str %[line], [%[line], #4]\n\t"
			 "add %[line], %[line], %[stride]\n\t"
			 "cmp %[line], %[at]\n\t"
			 "bcc 2b\n\t"
			 "cmp %[at], %[end]\n\t"
			 "bcc 1b\n\t"
			 "dsb ish"
			 : [at] "+&r"(at), [line] "=&r"(line)
			 : [stride] "r"(stride), [end] "r"(end)
			 : "memory", "cc");
	return at;
}

static __attribute__((noinline)) void *armv7_swap_ldr(void *line, uint32_t n)
{
	uintptr_t next, failed;

	__asm__ volatile(
		".p2align 5\n"
		"1:\n\t"
		"ldrex %[next], [%[line]]\n\t"
		"strex %[failed], %[next], [%[line]]\n\t"
		"cmp %[failed], #0\n\t"
		"bne 1b\n\t"
		"mov %[line], %[next]\n\t"
		"subs %[n], %[n], #1\n\t"
		"bne 1b"
		: [line] "+&r"(line), [next] "=&r"(next), [failed] "=&r"(failed), [n] "+&r"(n)
		:
		: "memory", "cc");
	return line;
}

flush_fn *const arch_flush = NULL;

const struct variant arch_fetch[] = {
	{.name = "ldr", .swap = armv7_swap_ldr, .load = armv7_load_ldr, .store = armv7_store_ldr},
	{.name = NULL},
};

/* ---- interleave ------------------------------------------------------------------------------ */

/* `line` goes through a block, in which all of each line takes its address. */
static __attribute__((noinline)) char *armv7_blocks_strd(char *at, size_t block, size_t step,
							 const char *end)
{
	char *line, *stop;

	__asm__ volatile(".p2align 5\n"
			 "1:\n\t"
			 "mov %[line], %[at]\n\t"
			 "add %[stop], %[at], %[block]\n\t"
			 "2:\n\t"
			 "mov r2, %[line]\n\t"
			 "mov r3, %[line]\n\t"
			 "strd r2, r3, [%[line], #0]\n\t"
			 "strd r2, r3, [%[line], #8]\n\t"
			 "strd r2, r3, [%[line], #16]\n\t"
			 "strd r2, r3, [%[line], #24]\n\t"
			 "strd r2, r3, [%[line], #32]\n\t"
			 "strd r2, r3, [%[line], #40]\n\t"
			 "strd r2, r3, [%[line], #48]\n\t"
			 "strd r2, r3, [%[line], #56]\n\t"
			 "add %[line], %[line], #64\n\t"
			 "cmp %[line], %[stop]\n\t"
			 "bcc 2b\n\t"
			 "add %[at], %[at], %[step]\n\t"
			 "cmp %[at], %[end]\n\t"
			 "bcc 1b"
			 : [at] "+&r"(at), [line] "=&r"(line), [stop] "=&r"(stop)
			 : [block] "r"(block), [step] "r"(step), [end] "r"(end)
			 : "memory", "cc", "r2", "r3");
	return at;
}

const struct variant arch_interleave[] = {
	{.name = "strd", .blocks = armv7_blocks_strd},
	{.name = NULL},
};
