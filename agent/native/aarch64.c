/* aarch64: what any 64-bit Arm CPU gives. See native.h.
 *
 * LSE and LL/SC are both built, whatever -march says; os_features() tells which the CPU has. Each
 * asm statement that needs LSE says so itself: a CPU without it (Cortex-A72) faults on `cas`. */
#define POINTER               "r"
#define LINE(line)            "+Q"(*(line))
#define AGAIN                 "sub %w[n], %w[n], #1\n\tcbnz %w[n], 1b"
#define LINE_CLOBBERS         "cc", "v0"
#define WORD                  "Q"(*word)
#define SUM(to, a, b)         "add %[" to "], %[" a "], %[" b "]\n\t"
#define COPY(to, from)        "mov %[" to "], %[" from "]\n\t"
#define NEXT_LINE             "add %[line], %[line], #64\n\t"
#define NEXT_PAGE             "add %[cursor], %[cursor], #4096\n\t"
#define IF_BELOW(a, b, label) "cmp %[" a "], %[" b "]\n\tb.lo " label "\n\t"

#include "lock_loops.h"
#include "loops.h"

const char arch_name[] = "aarch64";

/* Plain `cas` has no acquire or release: only the order of accesses to this one line matters. */
CAS(aarch64_cas_lse, ".arch_extension lse\n\t"
		     "mov %w[seen], %w[from]\n\t"
		     "cas %w[seen], %w[to], %[line]\n\t"
		     "cmp %w[seen], %w[from]\n\t"
		     "b.ne 1b")

/* The line has its page to itself, so nothing else falls into the reservation granule (at most 2
 * KiB, Arm ARM B2.12) and makes the store-exclusive fail. */
CAS(aarch64_cas_llsc, "ldxr %w[seen], %[line]\n\t"
		      "cmp %w[seen], %w[from]\n\t"
		      "b.ne 1b\n\t"
		      "stxr %w[status], %w[to], %[line]\n\t"
		      "cbnz %w[status], 1b")

/* llsc asleep: the exclusive load marks the line, and wfe waits until someone clears that mark by
 * writing to it. sevl sets the first event, so that a line which is right already is looked at. */
CAS(aarch64_cas_wfe, "sevl\n"
		     "2:\n\t"
		     "wfe\n\t"
		     "ldxr %w[seen], %[line]\n\t"
		     "cmp %w[seen], %w[from]\n\t"
		     "b.ne 2b\n\t"
		     "stxr %w[status], %w[to], %[line]\n\t"
		     "cbnz %w[status], 1b")

#define HAND_OVER(store)                                                                           \
	"cmp %w[seen], %w[from]\n\t"                                                               \
	"b.ne 1b\n\t" store " %w[to], %[written]\n\t"                                              \
	"eor %w[from], %w[from], #1\n\t"                                                           \
	"eor %w[to], %w[to], #1"

/* The branch on what was loaded orders the store behind it (Arm ARM B2.3, dependency-ordered). */
READWRITE(aarch64_readwrite_ldr, "ldr %w[seen], %[watched]\n\t" HAND_OVER("str"))

/* As compilers load with acquire and store with release, without and with FEATURE_LRCPC. */
READWRITE(aarch64_readwrite_ldar, "ldar %w[seen], %[watched]\n\t" HAND_OVER("stlr"))

/* The word is `ldapr w9, [x10]`, written so because assemblers before 2.28 do not know it. */
TIMED void aarch64_readwrite_ldapr(uint32_t *watched, uint32_t *written, uint32_t from, uint32_t to,
				   uint32_t n)
{
	register uint32_t *watched_in_x10 __asm__("x10") = watched;
	register uint32_t seen_in_w9 __asm__("w9");

	__asm__ volatile(".p2align 5\n1:\n\t"
			 ".inst 0xb8bfc000 | 10 << 5 | 9\n\t" HAND_OVER("stlr") "\n\t" AGAIN
			 : [written] LINE(written), [seen] "=&r"(seen_in_w9), [from] "+&r"(from),
			   [to] "+&r"(to), [n] "+&r"(n)
			 : "r"(watched_in_x10)
			 : "memory", "cc");
}

CHASE(aarch64_chase_ldr, "ldr %[line], [%[line]]")

ADDS(aarch64_adds, "add %[sum], %[sum], %[step]",
     "sub %w[n], %w[n], #16\n\t"
     "cbnz %w[n], 1b")

ADD_ONE(aarch64_faa_lse, ".arch_extension lse\n\t"
			 "mov %w[next], #1\n\t"
			 "ldadd %w[next], %w[seen], %[word]")
ADD_ONE(aarch64_add_lse, ".arch_extension lse\n\t"
			 "ldr %w[seen], %[word]\n"
			 "2:\n\t"
			 "mov %w[status], %w[seen]\n\t"
			 "add %w[next], %w[seen], #1\n\t"
			 "add %w[tries], %w[tries], #1\n\t"
			 "cas %w[seen], %w[next], %[word]\n\t"
			 "cmp %w[seen], %w[status]\n\t"
			 "b.ne 2b")
PUT(aarch64_put_lse, ".arch_extension lse\n\t"
		     "swp %w[value], %w[seen], %[word]\n\t"
		     "add %w[sum], %w[sum], %w[seen]\n\t"
		     "add %w[value], %w[value], #1")
ADD_ONE(aarch64_faa_llsc, "ldxr %w[seen], %[word]\n\t"
			  "add %w[next], %w[seen], #1\n\t"
			  "stxr %w[status], %w[next], %[word]\n\t"
			  "cbnz %w[status], 1b")
PUT(aarch64_put_llsc, "ldxr %w[seen], %[word]\n\t"
		      "stxr %w[status], %w[value], %[word]\n\t"
		      "cbnz %w[status], 1b\n\t"
		      "add %w[sum], %w[sum], %w[seen]\n\t"
		      "add %w[value], %w[value], #1")

/* Compilers call a function for these unless all of the program may use LSE. */
#define LSE(name, type, text)                                                                      \
	static inline type name(type *cursor, type seen, type new)                                 \
	{                                                                                          \
		__asm__ volatile(".arch_extension lse\n\t" text                                    \
				 : [seen] "+&r"(seen), [cursor] "+Q"(*cursor)                      \
				 : [new] "r"(new)                                                  \
				 : "memory");                                                      \
		return seen;                                                                       \
	}
typedef struct lock_node *node_pointer;
LSE(lse_ldadd, uint32_t, "ldaddal %w[new], %w[seen], %[cursor]")
LSE(lse_swp, node_pointer, "swpal %[new], %[seen], %[cursor]")
LSE(lse_cas, node_pointer, "casal %[seen], %[new], %[cursor]")
#define lse_add(word, n)             lse_ldadd(word, 0, n)
#define lse_swap(cursor, new)        lse_swp(cursor, NULL, new)
#define lse_change(cursor, old, new) (lse_cas(cursor, old, new) == (old))

LOCKS(aarch64, lse, lse, __asm__ volatile("yield" : : : "memory"))

VARIANTS(arch_contend,
	 {.name = "lse",
	  .needs = FEATURE_LSE,
	  .cas = aarch64_cas_lse,
	  .add = {[OPERATION_FAA] = aarch64_faa_lse, [OPERATION_CAS] = aarch64_add_lse},
	  .put = {[OPERATION_SWAP] = aarch64_put_lse},
	  .lock = {[OPERATION_TICKET] = aarch64_ticket_lse, [OPERATION_MCS] = aarch64_mcs_lse}},
	 {.name = "llsc",
	  .cas = aarch64_cas_llsc,
	  .add = {[OPERATION_FAA] = aarch64_faa_llsc},
	  .put = {[OPERATION_SWAP] = aarch64_put_llsc}});

VARIANTS(arch_cas, {.name = "lse", .needs = FEATURE_LSE, .cas = aarch64_cas_lse},
	 {.name = "llsc", .cas = aarch64_cas_llsc}, {.name = "wfe", .cas = aarch64_cas_wfe});

VARIANTS(arch_readwrite, {.name = "ldr", .readwrite = aarch64_readwrite_ldr},
	 {.name = "ldapr", .needs = FEATURE_LRCPC, .readwrite = aarch64_readwrite_ldapr},
	 {.name = "ldar", .readwrite = aarch64_readwrite_ldar});

VARIANTS(arch_chase, {.name = "ldr", .chase = aarch64_chase_ldr});

adds_fn *const arch_adds = aarch64_adds;

/* isb: the counter may otherwise be read early, out of program order (Arm ARM D12.2.2). */
static uint64_t ticks_cntvct(void)
{
	uint64_t ticks;

	__asm__ volatile("isb\n\tmrs %0, cntvct_el0\n\tisb" : "=r"(ticks) : : "memory");
	return ticks;
}

/* Reads the clock for a store of the reading. */
static uint64_t ticks_before_send_cntvct(void)
{
	uint64_t ticks;

	__asm__ volatile("isb\n\tmrs %0, cntvct_el0" : "=r"(ticks) : : "memory");
	return ticks;
}

int arch_get_clock(struct clock *clock)
{
	uint64_t ticks_per_second;

	__asm__ volatile("mrs %0, cntfrq_el0" : "=r"(ticks_per_second));
	*clock = (struct clock){.name = "cntvct",
				.ticks_per_second = ticks_per_second & UINT32_MAX,
				.ticks = ticks_cntvct,
				.sent = ticks_before_send_cntvct};
	return 0;
}

/* ---- loops over single lines */

RECEIVE(aarch64_message_ldr, "ldr %[seen], %[word]\n\t"
			     "cmp %[seen], %[old]\n\t"
			     "b.eq 1b")

VARIANTS(arch_message, {.name = "ldr", .receive = aarch64_message_ldr});

GO_BY_PAGES(aarch64_load_ldr, "ldr %[word], [%[line]]",
	    "dsb ishld\n\t"
	    "isb")
GO_BY_PAGES(aarch64_store_ldr, "str %[line], [%[line], #8]", "dsb ish")
SWAP(aarch64_swap_lse, ".arch_extension lse\n\t"
		       "ldadd xzr, %[next], [%[line]]\n\t"
		       "mov %[line], %[next]")
SWAP(aarch64_swap_ldr, "ldxr %[next], [%[line]]\n\t"
		       "stxr %w[failed], %[next], [%[line]]\n\t"
		       "cbnz %w[failed], 1b\n\t"
		       "mov %[line], %[next]")
FLUSH(aarch64_flush, "dc civac, %0", "dsb ish")

VARIANTS(arch_fetch, {.name = "lse", .needs = FEATURE_LSE, .swap = aarch64_swap_lse},
	 {.name = "ldr",
	  .swap = aarch64_swap_ldr,
	  .load = aarch64_load_ldr,
	  .store = aarch64_store_ldr});

GO_BY_BLOCKS(aarch64_blocks_neon, "dup v0.2d, %[line]\n\t"
				  "stp q0, q0, [%[line]]\n\t"
				  "stp q0, q0, [%[line], #32]")
GO_BY_BLOCKS(aarch64_nt_blocks_neon, "dup v0.2d, %[line]\n\t"
				     "stnp q0, q0, [%[line]]\n\t"
				     "stnp q0, q0, [%[line], #32]")

VARIANTS(arch_interleave,
	 {.name = "neon", .blocks = aarch64_blocks_neon, .nt_blocks = aarch64_nt_blocks_neon});

/* ---- loops through memory, 256 bytes or 8 scalable vectors a turn */
#define SWEEP_CLOBBERS "cc", VECTORS
#define VECTORS                                                                                    \
	"v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v16", "v17", "v18", "v19", "v20", "v21",  \
		"v22", "v23", "v24"

/* One instruction for pairs of registers, 256 bytes in all. */
#define PAIRS(instruction, base)                                                                   \
	instruction " q0, q1, [%[" base "]]\n\t" instruction " q2, q3, [%[" base                   \
		    "], #32]\n\t" instruction " q4, q5, [%[" base "], #64]\n\t" instruction        \
		    " q6, q7, [%[" base "], #96]\n\t" instruction " q16, q17, [%[" base            \
		    "], #128]\n\t" instruction " q18, q19, [%[" base "], #160]\n\t" instruction    \
		    " q20, q21, [%[" base "], #192]\n\t" instruction " q22, q23, [%[" base         \
		    "], #224]\n\t"

/* The address in both words of register 0, and that register stored 16 times. */
#define ADDRESS "dup v0.2d, %[cursor]\n\t"
#define STORES(instruction)                                                                        \
	".irp i, 0,32,64,96,128,160,192,224\n\t" instruction                                       \
	" q0, q0, [%[cursor], #\\i]\n\t.endr\n\t"

/* One pointer, compared with the end. */
#define LOOP(step, turn)                                                                           \
	".p2align 6\n"                                                                             \
	"1:\n\t" turn step "cmp %[cursor], %[end]\n\t"                                             \
	"b.lo 1b\n\t"
#define STEP(pointer) "add %[" pointer "], %[" pointer "], #256\n\t"

SWEEP(aarch64_read_neon, LOOP(STEP("cursor"), PAIRS("ldp", "cursor")))
SWEEP(aarch64_write_neon, LOOP(STEP("cursor"), ADDRESS STORES("stp")))
SWEEP(aarch64_nt_neon, LOOP(STEP("cursor"), ADDRESS STORES("stnp")))
SWEEP(aarch64_modify_neon,
      "movi v24.16b, #255\n\t" LOOP(
	      STEP("cursor"),
	      PAIRS("ldp",
		    "cursor") ".irp i, 0,1,2,3,4,5,6,7,16,17,18,19,20,21,22,23\n\tsub "
			      "v\\i\\().2d, v\\i\\().2d, v24.2d\n\t.endr\n\t" PAIRS("stp",
										    "cursor")))
SWEEP(aarch64_copy_neon,
      LOOP(STEP("cursor") STEP("from"), PAIRS("ldp", "from") PAIRS("stp", "cursor")))
SWEEP(aarch64_ntcopy_neon,
      LOOP(STEP("cursor") STEP("from"), PAIRS("ldp", "from") PAIRS("stnp", "cursor")))

#define SVE(step, turn)   ".arch_extension sve\n\t" LOOP(step, turn)
#define SVE_STEP(pointer) "addvl %[" pointer "], %[" pointer "], #8\n\t"

SWEEP(aarch64_read_sve, SVE(SVE_STEP("cursor"), EACH("ldr z\\i, [%[cursor], #\\i, mul vl]")))
SWEEP(aarch64_write_sve,
      SVE(SVE_STEP("cursor"), "mov z0.d, %[cursor]\n\t" EACH("str z0, [%[cursor], #\\i, mul vl]")))
SWEEP(aarch64_modify_sve,
      SVE(SVE_STEP("cursor"),
	  EACH("ldr z\\i, [%[cursor], #\\i, mul vl]") EACH("add z\\i\\().d, z\\i\\().d, #1")
		  EACH("str z\\i, [%[cursor], #\\i, mul vl]")))
SWEEP(aarch64_copy_sve,
      SVE(SVE_STEP("cursor") SVE_STEP("from"),
	  EACH("ldr z\\i, [%[from], #\\i, mul vl]") EACH("str z\\i, [%[cursor], #\\i, mul vl]")))

/* dczid_el0 tells how many words a block has, as a power of two (Arm ARM D19.2.39). */
TIMED char *aarch64_zero_zva(char *cursor, const char *from, size_t bytes)
{
	const char *end = cursor + bytes;
	uint64_t block;

	(void)from;
	__asm__ volatile("mrs %0, dczid_el0" : "=r"(block));
	block = UINT64_C(4) << (block & 15);
	__asm__ volatile(LOOP("add %[cursor], %[cursor], %[block]\n\t", "dc zva, %[cursor]\n\t")
			 : [cursor] "+&r"(cursor)
			 : [end] "r"(end), [block] "r"(block)
			 : "memory", "cc");
	return cursor;
}

VARIANTS(arch_stream, {.name = "neon", .stream = LOOPS_AND_NT(aarch64, neon)},
	 {.name = "sve", .needs = FEATURE_SVE, .stream = LOOPS(aarch64, sve)},
	 {.name = "zva", .needs = FEATURE_ZVA, .stream = {[OPERATION_ZERO] = aarch64_zero_zva}});
