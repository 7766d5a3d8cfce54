/* ppc64le: 64-bit POWER, little-endian. See native.h. */
#define POINTER               "b"
#define LINE(line)            "+b"(line)
#define AGAIN                 "addi %[n], %[n], -1\n\tcmpwi %[n], 0\n\tbne 1b"
#define LINE_CLOBBERS         "cr0"
#define WORD                  "b"(word)
#define SUM(to, a, b)         "add %[" to "], %[" a "], %[" b "]\n\t"
#define COPY(to, from)        "mr %[" to "], %[" from "]\n\t"
#define NEXT_LINE             "addi %[line], %[line], 64\n\t"
#define NEXT_PAGE             "addi %[cursor], %[cursor], 4096\n\t"
#define IF_BELOW(a, b, label) "cmpld %[" a "], %[" b "]\n\tblt " label "\n\t"

#include "loops.h"

const char arch_name[] = "ppc64le";

/* Without sync or isync: only the order of accesses to this one line matters. */
CAS(ppc64le_cas_lwarx, "lwarx %[seen], 0, %[line]\n\t"
		       "cmpw %[seen], %[from]\n\t"
		       "bne 1b\n\t"
		       "stwcx. %[to], 0, %[line]\n\t"
		       "bne 1b")

#define HAND_OVER(barrier)                                                                         \
	"lwz %[seen], 0(%[watched])\n\t"                                                           \
	"cmpw %[seen], %[from]\n\t"                                                                \
	"bne 1b\n\t" barrier "stw %[to], 0(%[written])\n\t"                                        \
	"xori %[from], %[from], 1\n\t"                                                             \
	"xori %[to], %[to], 1"

/* Stores are not done out of order: the branch orders them (Power ISA, book II, 1.7.1). */
READWRITE(ppc64le_readwrite_lwz, HAND_OVER(""))
READWRITE(ppc64le_readwrite_lwsync, HAND_OVER("lwsync\n\t"))

CHASE(ppc64le_chase_ld, "ld %[line], 0(%[line])")

ADD_ONE(ppc64le_faa_lwarx, "lwarx %[seen], 0, %[word]\n\t"
			   "addi %[next], %[seen], 1\n\t"
			   "stwcx. %[next], 0, %[word]\n\t"
			   "bne 1b")
PUT(ppc64le_put_lwarx, "lwarx %[seen], 0, %[word]\n\t"
		       "stwcx. %[value], 0, %[word]\n\t"
		       "bne 1b\n\t"
		       "add %[sum], %[sum], %[seen]\n\t"
		       "addi %[value], %[value], 1")

VARIANTS(arch_contend, {.name = "lwarx",
			.cas = ppc64le_cas_lwarx,
			.add = {[OPERATION_FAA] = ppc64le_faa_lwarx},
			.put = {[OPERATION_SWAP] = ppc64le_put_lwarx}});

VARIANTS(arch_cas, {.name = "lwarx", .cas = ppc64le_cas_lwarx});

VARIANTS(arch_readwrite, {.name = "lwz", .readwrite = ppc64le_readwrite_lwz},
	 {.name = "lwsync", .readwrite = ppc64le_readwrite_lwsync});

VARIANTS(arch_chase, {.name = "ld", .chase = ppc64le_chase_ld});

NO_VARIANTS(arch_gemm);

/* An addition may take two cycles. */
adds_fn *const arch_adds = NULL;

/* The time base. isync: it may otherwise be read early, out of program order (Power ISA II). */
static uint64_t ticks_timebase(void)
{
	uint64_t ticks;

	__asm__ volatile("isync\n\tmftb %0\n\tisync" : "=r"(ticks) : : "memory");
	return ticks;
}

int arch_get_clock(struct clock *clock)
{
	*clock = (struct clock){.name = "timebase", .ticks = ticks_timebase};
	return 0;
}

/* ---- loops over single lines */

RECEIVE(ppc64le_message_ld, "ld %[seen], 0(%[word])\n\t"
			    "cmpd %[seen], %[old]\n\t"
			    "beq 1b")

VARIANTS(arch_message, {.name = "ld", .receive = ppc64le_message_ld});

GO_BY_PAGES(ppc64le_load_ld, "ld %[word], 0(%[line])",
	    "lwsync\n\t"
	    "isync")
GO_BY_PAGES(ppc64le_store_ld, "std %[line], 8(%[line])", "sync")
SWAP(ppc64le_swap_ld, "ldarx %[next], 0, %[line]\n\t"
		      "stdcx. %[next], 0, %[line]\n\t"
		      "bne 1b\n\t"
		      "mr %[line], %[next]")
FLUSH(ppc64le_flush, "dcbf 0, %0", "sync")

VARIANTS(arch_fetch, {.name = "ld",
		      .swap = ppc64le_swap_ld,
		      .load = ppc64le_load_ld,
		      .store = ppc64le_store_ld});

GO_BY_BLOCKS(ppc64le_blocks_std, EACH_WORD("std %[line], \\at(%[line])"))

VARIANTS(arch_interleave, {.name = "std", .blocks = ppc64le_blocks_std});

/* ---- loops through memory, 256 bytes a turn */
#define SWEEP_CLOBBERS "cr0", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8"

/* Functions that need POWER9 say so themselves: compilers build for POWER8. */
#define POWER9(text) ".machine push\n\t.machine power9\n\t" text ".machine pop"

#define LOOP(step, turn) ".p2align 6\n1:\n\t" turn step "cmpld %[cursor], %[end]\n\tblt 1b\n\t"
#define STEP(base)       "addi %[" base "], %[" base "], 256\n\t"

/* Registers v0 to v7, twice; lxv and stxv count them from 32. */
#define TWICE(text) ".irp o, 0,128\n\t" text ".endr\n\t"
#define LOAD(base)  EACH("lxv 32+\\i, \\o+16*\\i(%[" base "])")
#define STORE(v)    EACH("stxv 32+" v ", \\o+16*\\i(%[cursor])")

SWEEP(ppc64le_read_vsx, POWER9(LOOP(STEP("cursor"), TWICE(LOAD("cursor")))))
SWEEP(ppc64le_write_vsx,
      POWER9(LOOP(STEP("cursor"), "mtvsrdd 32, %[cursor], %[cursor]\n\t" TWICE(STORE("0")))))

/* Minus a register of all ones. */
SWEEP(ppc64le_modify_vsx,
      POWER9("vspltisb 8, -1\n\t" LOOP(
	      STEP("cursor"), TWICE(LOAD("cursor") EACH("vsubudm \\i, \\i, 8") STORE("\\i")))))
SWEEP(ppc64le_copy_vsx, POWER9(LOOP(STEP("cursor") STEP("from"), TWICE(LOAD("from") STORE("\\i")))))

/* dcbz clears a block of 128 bytes: os_features() looks at its size. */
SWEEP(ppc64le_zero_dcbz, LOOP("addi %[cursor], %[cursor], 128\n\t", "dcbz 0, %[cursor]\n\t"))

VARIANTS(arch_stream, {.name = "vsx", .needs = FEATURE_POWER9, .stream = LOOPS(ppc64le, vsx)},
	 {.name = "dcbz", .needs = FEATURE_DCBZ, .stream = {[OPERATION_ZERO] = ppc64le_zero_dcbz}});
