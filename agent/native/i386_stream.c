/*
 * i386: loops that go through memory, 128 bytes a turn. See sweep.h.
 *
 * No vector register is named as changed, because compilers for older CPUs do not know them, and
 * the ABI lets every function change them.
 */
#include "sweep.h"

#define POINTER "r"
#define CHANGED "cc"

#define LOOP(turn)      ".p2align 6\n1:\n\t" turn "add $128, %[at]\n\tcmp %[end], %[at]\n\tjb 1b\n\t"
#define LOOP_FROM(turn) LOOP(turn "add $128, %[from]\n\t")

/* The address in all words of register 0. */
#define ADDRESS "movd %[at], %%xmm0\n\tpshufd $0, %%xmm0, %%xmm0\n\t"

SWEEP i386_read_sse2(char *at, const char *from, size_t bytes)
{
	GO_THROUGH(LOOP(EACH("movaps \\i*16(%[at]), %%xmm\\i")));
	return at;
}

SWEEP i386_write_sse2(char *at, const char *from, size_t bytes)
{
	GO_THROUGH(LOOP(ADDRESS EACH("movaps %%xmm0, \\i*16(%[at])")));
	return at;
}

SWEEP i386_nt_sse2(char *at, const char *from, size_t bytes)
{
	GO_THROUGH(LOOP(ADDRESS EACH("movntps %%xmm0, \\i*16(%[at])")));
	return at;
}

/* Minus a register of all ones. */
#define FOUR(text) ".irp i, 0,1,2,3\n\t" text "\n\t.endr\n\t"

SWEEP i386_modify_sse2(char *at, const char *from, size_t bytes)
{
	GO_THROUGH("pcmpeqd %%xmm4, %%xmm4\n\t" LOOP(
		".irp o, 0,64\n\t" FOUR("movaps \\o+\\i*16(%[at]), %%xmm\\i")
			FOUR("psubd %%xmm4, %%xmm\\i")
				FOUR("movaps %%xmm\\i, \\o+\\i*16(%[at])") ".endr\n\t"));
	return at;
}

SWEEP i386_copy_sse2(char *at, const char *from, size_t bytes)
{
	GO_THROUGH(LOOP_FROM(EACH("movaps \\i*16(%[from]), %%xmm\\i")
				     EACH("movaps %%xmm\\i, \\i*16(%[at])")));
	return at;
}

SWEEP i386_ntcopy_sse2(char *at, const char *from, size_t bytes)
{
	GO_THROUGH(LOOP_FROM(EACH("movaps \\i*16(%[from]), %%xmm\\i")
				     EACH("movntps %%xmm\\i, \\i*16(%[at])")));
	return at;
}

/* ---- other ways ------------------------------------------------------------------------------ */

/* A byte of the address, never 0. */
SWEEP i386_write_stosb(char *at, const char *from, size_t bytes)
{
	(void)from;
	__asm__ volatile("rep stosb"
			 : "+D"(at), "+c"(bytes)
			 : "a"((uintptr_t)at >> 12 | 1)
			 : "memory");
	return at;
}

SWEEP i386_zero_stosb(char *at, const char *from, size_t bytes)
{
	(void)from;
	__asm__ volatile("rep stosb" : "+D"(at), "+c"(bytes) : "a"(0) : "memory");
	return at;
}

SWEEP i386_copy_movsb(char *at, const char *from, size_t bytes)
{
	__asm__ volatile("rep movsb" : "+D"(at), "+S"(from), "+c"(bytes) : : "memory");
	return at;
}

const struct variant arch_stream[] = {
	{.name = "sse2",
	 .needs = FEATURE_SSE2,
	 .stream = {i386_read_sse2, i386_write_sse2, i386_nt_sse2, NULL, i386_modify_sse2,
		    i386_copy_sse2, i386_ntcopy_sse2}},
	{.name = "stosb",
	 .stream = {[OPERATION_WRITE] = i386_write_stosb, [OPERATION_ZERO] = i386_zero_stosb}},
	{.name = "movsb", .stream = {[OPERATION_COPY] = i386_copy_movsb}},
	{.name = NULL},
};
