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

/* ---- fetch ----------------------------------------------------------------------------------- */

/* `line` goes through a page, `at` is where the next begins; the end waits for all loads. */
static __attribute__((noinline)) char *x86_64_load_mov(char *at, size_t stride, const char *end)
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
			 "jb 1b\n\t"
			 "lfence"
			 : [at] "+&r"(at), [line] "=&r"(line), [word] "=&r"(word)
			 : [stride] "r"(stride), [end] "r"(end)
			 : "memory", "cc");
	return at;
}

/* The line's second word takes its address; the end waits for all stores. */
static __attribute__((noinline)) char *x86_64_store_mov(char *at, size_t stride, const char *end)
{
	char *line;

	__asm__ volatile(".p2align 5\n"
			 "1:\n\t"
			 "lea (%[at],%[stride]), %[line]\n\t"
			 "add $4096, %[at]\n\t"
			 "2:\n\t"
			 "mov %[line], 8(%[line])\n\t"
			 "add %[stride], %[line]\n\t"
			 "cmp %[at], %[line]\n\t"
			 "jb 2b\n\t"
			 "cmp %[end], %[at]\n\t"
			 "jb 1b\n\t"
			 "mfence"
			 : [at] "+&r"(at), [line] "=&r"(line)
			 : [stride] "r"(stride), [end] "r"(end)
			 : "memory", "cc");
	return at;
}

static __attribute__((noinline)) void *x86_64_swap_mov(void *line, uint32_t n)
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

static void x86_64_flush(char *at, size_t bytes, size_t step)
{
	for (char *line = at; line < at + bytes; line += step)
		__asm__ volatile("clflush (%0)" : : "r"(line) : "memory");
	__asm__ volatile("mfence" : : : "memory");
}

flush_fn *const arch_flush = x86_64_flush;

const struct variant arch_fetch[] = {
	{.name = "mov",
	 .swap = x86_64_swap_mov,
	 .load = x86_64_load_mov,
	 .store = x86_64_store_mov},
	{.name = NULL},
};

/* ---- interleave ------------------------------------------------------------------------------ */

/* The loops' frame: `line` goes through a block, in which all of each line takes its address. */
#define BLOCKS_BEGIN                                                                               \
	".p2align 5\n"                                                                             \
	"1:\n\t"                                                                                   \
	"mov %[at], %[line]\n\t"                                                                   \
	"lea (%[at],%[block]), %[stop]\n\t"                                                        \
	"2:\n\t"
#define BLOCKS_END                                                                                 \
	"add $64, %[line]\n\t"                                                                     \
	"cmp %[stop], %[line]\n\t"                                                                 \
	"jb 2b\n\t"                                                                                \
	"add %[step], %[at]\n\t"                                                                   \
	"cmp %[end], %[at]\n\t"                                                                    \
	"jb 1b"
#define BLOCKS_OPERANDS                                                                            \
	: [at] "+&r"(at), [line] "=&r"(line), [stop] "=&r"(stop)                                   \
	: [block] "r"(block), [step] "r"(step), [end] "r"(end)                                     \
	: "memory", "cc", "xmm0"

static __attribute__((noinline)) char *x86_64_blocks_avx512(char *at, size_t block, size_t step,
							    const char *end)
{
	char *line, *stop;

	__asm__ volatile(BLOCKS_BEGIN "vpbroadcastq %[line], %%zmm0\n\t"
				      "vmovaps %%zmm0, (%[line])\n\t" BLOCKS_END BLOCKS_OPERANDS);
	return at;
}

static __attribute__((noinline)) char *x86_64_nt_blocks_avx512(char *at, size_t block, size_t step,
							       const char *end)
{
	char *line, *stop;

	__asm__ volatile(BLOCKS_BEGIN "vpbroadcastq %[line], %%zmm0\n\t"
				      "vmovntps %%zmm0, (%[line])\n\t" BLOCKS_END
				      "\n\tsfence" BLOCKS_OPERANDS);
	return at;
}

static __attribute__((noinline)) char *x86_64_blocks_avx(char *at, size_t block, size_t step,
							 const char *end)
{
	char *line, *stop;

	__asm__ volatile(BLOCKS_BEGIN "vmovq %[line], %%xmm0\n\t"
				      "vpunpcklqdq %%xmm0, %%xmm0, %%xmm0\n\t"
				      "vinsertf128 $1, %%xmm0, %%ymm0, %%ymm0\n\t"
				      "vmovaps %%ymm0, (%[line])\n\t"
				      "vmovaps %%ymm0, 32(%[line])\n\t" BLOCKS_END BLOCKS_OPERANDS);
	return at;
}

static __attribute__((noinline)) char *x86_64_nt_blocks_avx(char *at, size_t block, size_t step,
							    const char *end)
{
	char *line, *stop;

	__asm__ volatile(BLOCKS_BEGIN "vmovq %[line], %%xmm0\n\t"
				      "vpunpcklqdq %%xmm0, %%xmm0, %%xmm0\n\t"
				      "vinsertf128 $1, %%xmm0, %%ymm0, %%ymm0\n\t"
				      "vmovntps %%ymm0, (%[line])\n\t"
				      "vmovntps %%ymm0, 32(%[line])\n\t" BLOCKS_END
				      "\n\tsfence" BLOCKS_OPERANDS);
	return at;
}

static __attribute__((noinline)) char *x86_64_blocks_sse2(char *at, size_t block, size_t step,
							  const char *end)
{
	char *line, *stop;

	__asm__ volatile(BLOCKS_BEGIN "movq %[line], %%xmm0\n\t"
				      "punpcklqdq %%xmm0, %%xmm0\n\t"
				      "movaps %%xmm0, (%[line])\n\t"
				      "movaps %%xmm0, 16(%[line])\n\t"
				      "movaps %%xmm0, 32(%[line])\n\t"
				      "movaps %%xmm0, 48(%[line])\n\t" BLOCKS_END BLOCKS_OPERANDS);
	return at;
}

static __attribute__((noinline)) char *x86_64_nt_blocks_sse2(char *at, size_t block, size_t step,
							     const char *end)
{
	char *line, *stop;

	__asm__ volatile(BLOCKS_BEGIN "movq %[line], %%xmm0\n\t"
				      "punpcklqdq %%xmm0, %%xmm0\n\t"
				      "movntps %%xmm0, (%[line])\n\t"
				      "movntps %%xmm0, 16(%[line])\n\t"
				      "movntps %%xmm0, 32(%[line])\n\t"
				      "movntps %%xmm0, 48(%[line])\n\t" BLOCKS_END
				      "\n\tsfence" BLOCKS_OPERANDS);
	return at;
}

/* As mm_amx writes a row: after a prefetch of the next one, which is behind the others' blocks. */
static __attribute__((noinline)) char *x86_64_blocks_prefetchnta(char *at, size_t block,
								 size_t step, const char *end)
{
	char *line, *stop;

	__asm__ volatile(BLOCKS_BEGIN "prefetchnta (%[line],%[step])\n\t"
				      "vmovq %[line], %%xmm0\n\t"
				      "vpunpcklqdq %%xmm0, %%xmm0, %%xmm0\n\t"
				      "vinsertf128 $1, %%xmm0, %%ymm0, %%ymm0\n\t"
				      "vmovups %%ymm0, (%[line])\n\t"
				      "vmovups %%ymm0, 32(%[line])\n\t" BLOCKS_END BLOCKS_OPERANDS);
	return at;
}

const struct variant arch_interleave[] = {
	{.name = "avx512",
	 .needs = FEATURE_AVX512,
	 .blocks = x86_64_blocks_avx512,
	 .nt_blocks = x86_64_nt_blocks_avx512},
	{.name = "avx",
	 .needs = FEATURE_AVX,
	 .blocks = x86_64_blocks_avx,
	 .nt_blocks = x86_64_nt_blocks_avx},
	{.name = "sse2", .blocks = x86_64_blocks_sse2, .nt_blocks = x86_64_nt_blocks_sse2},
	{.name = "prefetchnta", .needs = FEATURE_AVX, .blocks = x86_64_blocks_prefetchnta},
	{.name = NULL},
};
