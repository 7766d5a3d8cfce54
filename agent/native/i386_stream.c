/* i386: loops that go through memory, 128 bytes a turn. See sweep.h.
 *
 * No vector register is named as changed, because compilers for older CPUs do not know them, and
 * the ABI lets every function change them. */
#include "sweep.h"
#include "x86_stream.h"

#define POINTER "r"
#define CHANGED "cc"

/* The address in all words of register 0. */
#define ADDRESS "movd %[at], %%xmm0\n\tpshufd $0, %%xmm0, %%xmm0\n\t"

VECTOR_LOOPS(i386, sse2, 128, "16", "%%xmm", "mov", ADDRESS)

/* Minus a register of all ones. */
#define FOUR(text) ".irp i, 0,1,2,3\n\t" text "\n\t.endr\n\t"

SWEEP(i386_modify_sse2,
      "pcmpeqd %%xmm4, %%xmm4\n\t" LOOP(
	      128, ".irp o, 0,64\n\t" FOUR("movaps \\o+\\i*16(%[at]), %%xmm\\i")
			   FOUR("psubd %%xmm4, %%xmm\\i")
				   FOUR("movaps %%xmm\\i, \\o+\\i*16(%[at])") ".endr\n\t"))

VARIANTS(arch_stream, {.name = "sse2", .needs = FEATURE_SSE2, .stream = LOOPS_AND_NT(i386, sse2)},
	 {.name = "stosb",
	  .stream = {[OPERATION_WRITE] = x86_write_stosb, [OPERATION_ZERO] = x86_zero_stosb}},
	 {.name = "movsb", .stream = {[OPERATION_COPY] = x86_copy_movsb}});
