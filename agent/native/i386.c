/* i386: 32-bit x86, in fact anything since the i486, which brought cmpxchg. See native.h.
 *
 * ebx is left free, because position-independent code of older compilers keeps it for itself, and
 * ebp and esp are the frame's. So a loop has five registers, and compares with memory directly. */
#define STATUS /* there is no register for it, and nothing fails */
/* Not every i386 has lfence and mfence; a locked instruction waits for loads and stores on all. */
#define X86_SECOND_WORD  "4"
#define X86_AFTER_LOADS  "lock orl $0, (%%esp)"
#define X86_AFTER_STORES "lock orl $0, (%%esp)"
#define LINE_CLOBBERS    "cc"
#define SWEEP_CLOBBERS   "cc"
#define BLOCKS_END       "m" /* as a loop has few registers */

#include "x86.h"

const char arch_name[] = "i386";

/* As on x86_64: a failed cmpxchg leaves the value it saw in eax, hence the reload on every turn. */
TIMED void i386_cas_cmpxchg(uint32_t *line, uint32_t from, uint32_t to, uint32_t n)
{
	uint32_t expected;

	__asm__ volatile(".p2align 5\n"
			 "1:\n\t"
			 "mov %[from], %[expected]\n\t"
			 "lock cmpxchg %[to], (%[line])\n\t"
			 "jne 1b\n\t" AGAIN
			 : [expected] "=&a"(expected), [n] "+&c"(n)
			 : [from] "d"(from), [to] "S"(to), [line] "D"(line)
			 : "memory", "cc");
}

/* Loads and stores are ordered as written on x86 (a store never passes an older load): no fence. */
TIMED void i386_readwrite_mov(uint32_t *watched, uint32_t *written, uint32_t from, uint32_t to,
			      uint32_t n)
{
	__asm__ volatile(".p2align 5\n"
			 "1:\n\t"
			 "cmp %[from], (%[watched])\n\t"
			 "jne 1b\n\t"
			 "mov %[to], (%[written])\n\t"
			 "xor $1, %[from]\n\t"
			 "xor $1, %[to]\n\t" AGAIN
			 : [from] "+&d"(from), [to] "+&a"(to), [n] "+&c"(n)
			 : [watched] "S"(watched), [written] "D"(written)
			 : "memory", "cc");
}

CHASE(i386_chase_mov, "mov (%[line]), %[line]")

ADDS(i386_adds, "add %[step], %[sum]",
     "sub $16, %[n]\n\t"
     "jne 1b")

ADD_ONE(i386_faa_lock, "mov $1, %[seen]\n\t"
		       "lock xadd %[seen], %[word]")
ADD_ONE(i386_add_lock, "mov %[word], %[seen]\n"
		       "2:\n\t"
		       "lea 1(%%eax), %[next]\n\t"
		       "inc %[tries]\n\t"
		       "lock cmpxchg %[next], %[word]\n\t"
		       "jne 2b")
PUT(i386_put_lock, "mov %[value], %[seen]\n\t"
		   "xchg %[seen], %[word]\n\t"
		   "add %[seen], %[sum]\n\t"
		   "inc %[value]")

LOCKS(i386, lock, builtin, __builtin_ia32_pause())

VARIANTS(arch_contend,
	 {.name = "lock",
	  .cas = i386_cas_cmpxchg,
	  .add = {[OPERATION_FAA] = i386_faa_lock, [OPERATION_CAS] = i386_add_lock},
	  .put = {[OPERATION_SWAP] = i386_put_lock},
	  .lock = {[OPERATION_TICKET] = i386_ticket_lock, [OPERATION_MCS] = i386_mcs_lock}});

VARIANTS(arch_cas, {.name = "cmpxchg", .cas = i386_cas_cmpxchg});

VARIANTS(arch_readwrite, {.name = "mov", .readwrite = i386_readwrite_mov});

VARIANTS(arch_chase, {.name = "mov", .chase = i386_chase_mov});

NO_VARIANTS(arch_gemm);

adds_fn *const arch_adds = i386_adds;

/* ---- loops over single lines */

/* A vector of the address, stored to all of the line. */
#define FILL(store)                                                                                \
	"movd %[line], %%xmm0\n\t"                                                                 \
	"pshufd $0, %%xmm0, %%xmm0\n\t" store " %%xmm0, (%[line])\n\t" store                       \
	" %%xmm0, 16(%[line])\n\t" store " %%xmm0, 32(%[line])\n\t" store " %%xmm0, 48(%[line])"

GO_BY_BLOCKS(i386_blocks_sse2, FILL("movaps"))
GO_BY_BLOCKS_THEN(i386_nt_blocks_sse2, "sfence", FILL("movntps"))

VARIANTS(arch_interleave, {.name = "sse2",
			   .needs = FEATURE_SSE2,
			   .blocks = i386_blocks_sse2,
			   .nt_blocks = i386_nt_blocks_sse2});

/* ---- loops through memory, 128 bytes a turn
 *
 * No vector register is named as changed, because compilers for older CPUs do not know them, and
 * the ABI lets every function change them. */
/* The address in all words of register 0. */
#define ADDRESS "movd %[cursor], %%xmm0\n\tpshufd $0, %%xmm0, %%xmm0\n\t"

VECTOR_LOOPS(i386, sse2, 128, "16", "%%xmm", "mov", ADDRESS)

/* Minus a register of all ones. */
#define FOUR(text) ".irp i, 0,1,2,3\n\t" text "\n\t.endr\n\t"

SWEEP(i386_modify_sse2,
      "pcmpeqd %%xmm4, %%xmm4\n\t" LOOP(
	      128, ".irp o, 0,64\n\t" FOUR("movaps \\o+\\i*16(%[cursor]), %%xmm\\i")
			   FOUR("psubd %%xmm4, %%xmm\\i")
				   FOUR("movaps %%xmm\\i, \\o+\\i*16(%[cursor])") ".endr\n\t"))

VARIANTS(arch_stream, {.name = "sse2", .needs = FEATURE_SSE2, .stream = LOOPS_AND_NT(i386, sse2)},
	 {.name = "stosb",
	  .stream = {[OPERATION_WRITE] = x86_write_stosb, [OPERATION_ZERO] = x86_zero_stosb}},
	 {.name = "movsb", .stream = {[OPERATION_COPY] = x86_copy_movsb}});
