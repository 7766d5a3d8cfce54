/* x86_64: what any 64-bit x86 CPU gives. See native.h. */
#define X86_SECOND_WORD  "8"
#define X86_AFTER_LOADS  "lfence"
#define X86_AFTER_STORES "mfence"
#define LINE_CLOBBERS    "cc", "xmm0"
#define SWEEP_CLOBBERS   "cc", VECTORS
#define VECTORS          "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8"

#include "x86.h"
#include "x86_64_amx.h"

const char arch_name[] = "x86_64";

/* A failed cmpxchg takes the line exclusively as well, so a hand-off costs one transfer. It leaves
 * the value it saw in eax: hence the reload on every turn. */
CAS(x86_64_cas_cmpxchg, "mov %[from], %[seen]\n\t"
			"lock cmpxchg %[to], %[line]\n\t"
			"jne 1b")

/* Swaps blindly: storing `to` where `to` already stands changes nothing, and what comes back tells
 * whether it was our turn. The line moves as with cmpxchg; only the instruction differs. */
CAS(x86_64_cas_xchg, "mov %[to], %[seen]\n\t"
		     "xchg %[seen], %[line]\n\t"
		     "cmp %[from], %[seen]\n\t"
		     "jne 1b")

/* Test and test-and-set: the pre-read that cas leaves out. The line comes over shared, for the
 * load, and must be asked for again to be written: two transfers a hand-off. */
CAS(x86_64_cas_ttas, "mov %[line], %[seen]\n\t"
		     "cmp %[from], %[seen]\n\t"
		     "jne 1b\n\t"
		     "lock cmpxchg %[to], %[line]\n\t"
		     "jne 1b")

/* Loads and stores are ordered as written on x86 (a store never passes an older load): no fence. */
READWRITE(x86_64_readwrite_mov, "mov %[watched], %[seen]\n\t"
				"cmp %[from], %[seen]\n\t"
				"jne 1b\n\t"
				"mov %[to], %[written]\n\t"
				"xor $1, %[from]\n\t"
				"xor $1, %[to]")

/* The next load waits for the value of the one before: the count is in no chain with it. One load,
 * since prefetchers follow the stride of each instruction: the lines' only where there is one. */
TIMED void *x86_64_chase_mov(void *line, uint32_t n16)
{
	uint64_t n = (uint64_t)n16 * 16;

	__asm__ volatile(".p2align 5\n"
			 "1:\n\t"
			 "mov (%[line]), %[line]\n\t" AGAIN
			 : [line] "+&r"(line), [n] "+&r"(n)
			 :
			 : "memory", "cc");
	return line;
}

/* Adds two registers: an addition of a small constant may take no time (Golden Cove renames it). */
ADDS(x86_64_adds, "add %[step], %[sum]",
     "sub $16, %[n]\n\t"
     "jne 1b")

ADD_ONE(x86_64_faa_lock, "mov $1, %[seen]\n\t"
			 "lock xadd %[seen], %[word]")
ADD_ONE(x86_64_add_lock, "mov %[word], %[seen]\n"
			 "2:\n\t"
			 "lea 1(%%rax), %[next]\n\t"
			 "inc %[tries]\n\t"
			 "lock cmpxchg %[next], %[word]\n\t"
			 "jne 2b")
PUT(x86_64_put_lock, "mov %[value], %[seen]\n\t"
		     "xchg %[seen], %[word]\n\t"
		     "add %[seen], %[sum]\n\t"
		     "inc %[value]")

LOCKS(x86_64, lock, builtin, __builtin_ia32_pause())

VARIANTS(arch_contend,
	 {.name = "lock",
	  .cas = x86_64_cas_cmpxchg,
	  .add = {[OPERATION_FAA] = x86_64_faa_lock, [OPERATION_CAS] = x86_64_add_lock},
	  .put = {[OPERATION_SWAP] = x86_64_put_lock},
	  .lock = {[OPERATION_TICKET] = x86_64_ticket_lock, [OPERATION_MCS] = x86_64_mcs_lock}});

VARIANTS(arch_cas, {.name = "cmpxchg", .cas = x86_64_cas_cmpxchg},
	 {.name = "xchg", .cas = x86_64_cas_xchg}, {.name = "ttas", .cas = x86_64_cas_ttas});

VARIANTS(arch_readwrite, {.name = "mov", .readwrite = x86_64_readwrite_mov});

VARIANTS(arch_chase, {.name = "mov", .chase = x86_64_chase_mov});

adds_fn *const arch_adds = x86_64_adds;

/* ---- loops over single lines */

/* A vector of the address, stored to all of the line. */
#define FILL_512(store) "vpbroadcastq %[line], %%zmm0\n\t" store " %%zmm0, (%[line])"
#define FILL_256(store)                                                                            \
	"vmovq %[line], %%xmm0\n\t"                                                                \
	"vpunpcklqdq %%xmm0, %%xmm0, %%xmm0\n\t"                                                   \
	"vinsertf128 $1, %%xmm0, %%ymm0, %%ymm0\n\t" store " %%ymm0, (%[line])\n\t" store          \
	" %%ymm0, 32(%[line])"
#define FILL_128(store)                                                                            \
	"movq %[line], %%xmm0\n\t"                                                                 \
	"punpcklqdq %%xmm0, %%xmm0\n\t" store " %%xmm0, (%[line])\n\t" store                       \
	" %%xmm0, 16(%[line])\n\t" store " %%xmm0, 32(%[line])\n\t" store " %%xmm0, 48(%[line])"

GO_BY_BLOCKS(x86_64_blocks_avx512, FILL_512("vmovaps"))
GO_BY_BLOCKS_THEN(x86_64_nt_blocks_avx512, "sfence", FILL_512("vmovntps"))
GO_BY_BLOCKS(x86_64_blocks_avx, FILL_256("vmovaps"))
GO_BY_BLOCKS_THEN(x86_64_nt_blocks_avx, "sfence", FILL_256("vmovntps"))
GO_BY_BLOCKS(x86_64_blocks_sse2, FILL_128("movaps"))
GO_BY_BLOCKS_THEN(x86_64_nt_blocks_sse2, "sfence", FILL_128("movntps"))

/* Writes blocks as mm_amx writes a row: prefetches its next block, which lies behind others', then
 * writes this one 32 bytes at a time. */
TIMED char *x86_64_blocks_prefetchnta(char *cursor, size_t block, size_t step, const char *end)
{
	char *line, *stop;

	__asm__ volatile(".p2align 5\n"
			 "1:\n\t"
			 "lea (%[cursor],%[step]), %[line]\n\t"
			 "lea (%[line],%[block]), %[stop]\n\t"
			 "2:\n\t"
			 "prefetchnta (%[line])\n\t"
			 "add $32, %[line]\n\t"
			 "cmp %[stop], %[line]\n\t"
			 "jne 2b\n\t"
			 "mov %[cursor], %[line]\n\t"
			 "lea (%[cursor],%[block]), %[stop]\n\t"
			 "3:\n\t"
			 "vmovq %[line], %%xmm0\n\t"
			 "vpunpcklqdq %%xmm0, %%xmm0, %%xmm0\n\t"
			 "vinsertf128 $1, %%xmm0, %%ymm0, %%ymm0\n\t"
			 "vmovups %%ymm0, (%[line])\n\t"
			 "add $32, %[line]\n\t"
			 "cmp %[stop], %[line]\n\t"
			 "jne 3b\n\t"
			 "add %[step], %[cursor]\n\t"
			 "cmp %[end], %[cursor]\n\t"
			 "jb 1b"
			 : [cursor] "+&r"(cursor), [line] "=&r"(line), [stop] "=&r"(stop)
			 : [block] "r"(block), [step] "r"(step), [end] "r"(end)
			 : "memory", LINE_CLOBBERS);
	return cursor;
}

VARIANTS(arch_interleave,
	 {.name = "avx512",
	  .needs = FEATURE_AVX512,
	  .blocks = x86_64_blocks_avx512,
	  .nt_blocks = x86_64_nt_blocks_avx512},
	 {.name = "avx",
	  .needs = FEATURE_AVX,
	  .blocks = x86_64_blocks_avx,
	  .nt_blocks = x86_64_nt_blocks_avx},
	 {.name = "sse2", .blocks = x86_64_blocks_sse2, .nt_blocks = x86_64_nt_blocks_sse2},
	 {.name = "prefetchnta", .needs = FEATURE_AVX, .blocks = x86_64_blocks_prefetchnta});

/* ---- loops through memory, in turns of 8 vectors */

/* The address in all words of register 0. */
#define ADDRESS_512 "vpbroadcastq %[cursor], %%zmm0\n\t"
#define ADDRESS_256                                                                                \
	"vmovq %[cursor], %%xmm0\n\t"                                                              \
	"vpunpcklqdq %%xmm0, %%xmm0, %%xmm0\n\t"                                                   \
	"vinsertf128 $1, %%xmm0, %%ymm0, %%ymm0\n\t"
#define ADDRESS_128                                                                                \
	"movq %[cursor], %%xmm0\n\t"                                                               \
	"punpcklqdq %%xmm0, %%xmm0\n\t"

VECTOR_LOOPS(x86_64, avx512, 512, "64", "%%zmm", "vmov", ADDRESS_512)
SWEEP(x86_64_modify_avx512, "vpternlogd $255, %%zmm8, %%zmm8, %%zmm8\n\t" LOOP(
				    512, EACH("vpsubq \\i*64(%[cursor]), %%zmm8, %%zmm\\i")
						 EACH("vmovaps %%zmm\\i, \\i*64(%[cursor])")))

VECTOR_LOOPS(x86_64, avx, 256, "32", "%%ymm", "vmov", ADDRESS_256)
SWEEP(x86_64_modify_avx,
      "vpcmpeqd %%xmm8, %%xmm8, %%xmm8\n\tvinsertf128 $1, %%xmm8, %%ymm8, "
      "%%ymm8\n\t" LOOP(256, EACH("vxorps \\i*32(%[cursor]), %%ymm8, %%ymm\\i")
				     EACH("vmovaps %%ymm\\i, \\i*32(%[cursor])")))

VECTOR_LOOPS(x86_64, sse2, 128, "16", "%%xmm", "mov", ADDRESS_128)
SWEEP(x86_64_modify_sse2,
      "pcmpeqd %%xmm8, %%xmm8\n\t" LOOP(
	      128, EACH("movaps \\i*16(%[cursor]), %%xmm\\i\n\tpsubq %%xmm8, %%xmm\\i")
			   EACH("movaps %%xmm\\i, \\i*16(%[cursor])")))

/* Asks for what comes 2 KiB later. Beyond the end that does no harm. */
#define PREFETCH(lines) ".irp i, " lines "\n\tprefetcht0 2048+\\i*64(%[cursor])\n\t.endr\n\t"

SWEEP(x86_64_read_prefetch512,
      LOOP(512, PREFETCH("0,1,2,3,4,5,6,7") EACH("vmovaps \\i*64(%[cursor]), %%zmm\\i")))
SWEEP(x86_64_read_prefetch256,
      LOOP(256, PREFETCH("0,1,2,3") EACH("vmovaps \\i*32(%[cursor]), %%ymm\\i")))

/* Two vectors of one of four streams. */
#define TWO(register, first, second, width, base)                                                  \
	"vmovaps (%[" base "]), %%" register first "\n\t"                                          \
						   "vmovaps " width "(%[" base                     \
						   "]), %%" register second "\n\t"
#define STEP(width, base) "add $2*" width ", %[" base "]\n\t"

/* Four quarters at once: `cursor` goes through the first of them, and ends at the second. */
#define STREAMS(name, step, register, width)                                                       \
	TIMED char *name(char *cursor, const char *from, size_t bytes)                             \
	{                                                                                          \
		const char *end = cursor + bytes / 4;                                              \
		char *b = cursor + bytes / 4, *c = cursor + bytes / 2,                             \
		     *d = cursor + bytes / 4 * 3;                                                  \
                                                                                                   \
		(void)from;                                                                        \
		__asm__ volatile(                                                                  \
			LOOP(step, TWO(register, "0", "1", width,                                  \
				       "cursor") TWO(register, "2", "3", width,                    \
						     "b") TWO(register, "4", "5", width, "c")      \
					   TWO(register, "6", "7", width, "d") STEP(width, "b")    \
						   STEP(width, "c") STEP(width, "d"))              \
			: [cursor] "+&r"(cursor), [b] "+&r"(b), [c] "+&r"(c), [d] "+&r"(d)         \
			: [end] "r"(end)                                                           \
			: "memory", "cc", VECTORS);                                                \
		return d;                                                                          \
	}

STREAMS(x86_64_read_streams512, 128, "zmm", "64")
STREAMS(x86_64_read_streams256, 64, "ymm", "32")

/* clzero by its bytes, since older assemblers lack it; it clears the line rax points to. */
TIMED char *x86_64_zero_clzero(char *cursor, const char *from, size_t bytes)
{
	const char *end = cursor + bytes;

	(void)from;
	__asm__ volatile(".p2align 6\n"
			 "1:\n\t"
			 ".byte 0x0f, 0x01, 0xfc\n\t"
			 "add $64, %[cursor]\n\t"
			 "cmp %[end], %[cursor]\n\t"
			 "jb 1b"
			 : [cursor] "+&a"(cursor)
			 : [end] "r"(end)
			 : "memory", "cc");
	return cursor;
}

/* The widest first; what only suits some sizes comes after. */
VARIANTS(arch_stream,
	 {.name = "avx512", .needs = FEATURE_AVX512, .stream = LOOPS_AND_NT(x86_64, avx512)},
	 {.name = "avx", .needs = FEATURE_AVX, .stream = LOOPS_AND_NT(x86_64, avx)},
	 {.name = "sse2", .stream = LOOPS_AND_NT(x86_64, sse2)},
	 {.name = "prefetch",
	  .needs = FEATURE_AVX512,
	  .stream = {[OPERATION_READ] = x86_64_read_prefetch512}},
	 {.name = "prefetch",
	  .needs = FEATURE_AVX,
	  .stream = {[OPERATION_READ] = x86_64_read_prefetch256}},
	 {.name = "streams",
	  .needs = FEATURE_AVX512,
	  .stream = {[OPERATION_READ] = x86_64_read_streams512}},
	 {.name = "streams",
	  .needs = FEATURE_AVX,
	  .stream = {[OPERATION_READ] = x86_64_read_streams256}},
	 {.name = "tile", .needs = FEATURE_AMX_TILE, .tiles = &x86_64_tile},
	 {.name = "tileblock", .needs = FEATURE_AMX_TILE, .tiles = &x86_64_tileblock},
	 {.name = "stosb",
	  .stream = {[OPERATION_WRITE] = x86_write_stosb, [OPERATION_ZERO] = x86_zero_stosb}},
	 {.name = "movsb", .stream = {[OPERATION_COPY] = x86_copy_movsb}},
	 {.name = "clzero",
	  .needs = FEATURE_CLZERO,
	  .stream = {[OPERATION_ZERO] = x86_64_zero_clzero}});
