/* s390x: 64-bit IBM Z, big-endian. See native.h. */
#define POINTER               "a"
#define COUNT                 "d"
#define LINE(line)            "+Q"(*(line))
#define AGAIN                 "brct %[n], 1b"
#define LINE_CLOBBERS         "cc"
#define WORD                  "Q"(*word)
#define SUM(to, a, b)         "la %[" to "], 0(%[" a "],%[" b "])\n\t"
#define COPY(to, from)        "lgr %[" to "], %[" from "]\n\t"
#define ADD(to, by)           "agr %[" to "], %[" by "]\n\t"
#define NEXT_LINE             "aghi %[line], 64\n\t"
#define NEXT_PAGE             "aghi %[cursor], 4096\n\t"
#define IF_BELOW(a, b, label) "clgr %[" a "], %[" b "]\n\tjl " label "\n\t"

#include "loops.h"

const char arch_name[] = "s390x";

/* cs leaves the value it saw in its first register: hence the reload on every turn. */
CAS(s390x_cas_cs, "lr %[seen], %[from]\n\t"
		  "cs %[seen], %[to], %[line]\n\t"
		  "jne 1b")

/* A store never passes an older load (Principles of Operation, storage-operand order): no fence. */
READWRITE(s390x_readwrite_st, "c %[from], %[watched]\n\t"
			      "jne 1b\n\t"
			      "st %[to], %[written]\n\t"
			      "xilf %[from], 1\n\t"
			      "xilf %[to], 1")

CHASE(s390x_chase_lg, "lg %[line], 0(%[line])")

/* An addition of one instruction is of the z196 and later, and the compiler's where it may. */
ADD_ONE(s390x_add_cs, "l %[seen], %[word]\n"
		      "2:\n\t"
		      "lr %[next], %[seen]\n\t"
		      "ahi %[next], 1\n\t"
		      "ahi %[tries], 1\n\t"
		      "cs %[seen], %[next], %[word]\n\t"
		      "jne 2b")
PUT(s390x_put_cs, "l %[seen], %[word]\n"
		  "2:\n\t"
		  "cs %[seen], %[value], %[word]\n\t"
		  "jne 2b\n\t"
		  "ar %[sum], %[seen]\n\t"
		  "ahi %[value], 1")

VARIANTS(arch_contend, {.name = "cs",
			.cas = s390x_cas_cs,
			.add = {[OPERATION_CAS] = s390x_add_cs},
			.put = {[OPERATION_SWAP] = s390x_put_cs}});

VARIANTS(arch_cas, {.name = "cs", .cas = s390x_cas_cs});

VARIANTS(arch_readwrite, {.name = "st", .readwrite = s390x_readwrite_st});

VARIANTS(arch_chase, {.name = "lg", .chase = s390x_chase_lg});

NO_VARIANTS(arch_gemm);

/* An addition may take two cycles. */
adds_fn *const arch_adds = NULL;

/* stckf does not serialize; `bcr 15,0` does, and holds the accesses on both sides of it apart. */
static uint64_t ticks_stckf(void)
{
	uint64_t ticks;

	__asm__ volatile("bcr 15,0\n\tstckf %0\n\tbcr 15,0" : "=Q"(ticks) : : "memory", "cc");
	return ticks;
}

/* Bit 51 of the clock counts microseconds on every model, so its last bit is 1/4096 of one. */
int arch_get_clock(struct clock *clock)
{
	*clock = (struct clock){
		.name = "stckf", .ticks_per_second = 4096000000u, .ticks = ticks_stckf};
	return 0;
}

/* ---- loops over single lines */

RECEIVE(s390x_message_lg, "lg %[seen], %[word]\n\t"
			  "cgr %[seen], %[old]\n\t"
			  "je 1b")

VARIANTS(arch_message, {.name = "lg", .receive = s390x_message_lg});

GO_BY_PAGES(s390x_load_lg, "lg %[word], 0(%[line])", "bcr 15, 0")
GO_BY_PAGES(s390x_store_lg, "stg %[line], 8(%[line])", "bcr 15, 0")

/* csg takes the line for writing before it compares; no line holds 0, so it brings the value. */
SWAP(s390x_swap_lg, "lghi %[next], 0\n\t"
		    "csg %[next], %[next], 0(%[line])\n\t"
		    "lgr %[line], %[next]")

flush_fn *const arch_flush = NULL;

VARIANTS(arch_fetch,
	 {.name = "lg", .swap = s390x_swap_lg, .load = s390x_load_lg, .store = s390x_store_lg});

GO_BY_BLOCKS(s390x_blocks_stg, EACH_WORD("stg %[line], \\at(%[line])"))

VARIANTS(arch_interleave, {.name = "stg", .blocks = s390x_blocks_stg});

/* ---- loops through memory, 256 bytes a turn: one line
 *
 * Only v16 to v31 are used, since v0 to v15 overlap registers that a function must keep. They are
 * not named as changed, because compilers for older models do not use them, and for newer ones the
 * ABI lets every function change them. */
#define SWEEP_CLOBBERS "cc"

/* Functions that need a z13 say so themselves: compilers build for older models. */
#define Z13(text) ".machine push\n\t.machine z13\n\t" text ".machine pop"

#define LOOP(step, turn) ".p2align 6\n1:\n\t" turn step "clgr %[cursor], %[end]\n\tjl 1b\n\t"
#define STEP(base)       "aghi %[" base "], 256\n\t"

SWEEP(s390x_read_vx, Z13(LOOP(STEP("cursor"), "vlm %%v16, %%v31, 0(%[cursor])\n\t")))

/* The address at first fills all registers, and then, in each turn, v16: no two lines are alike. */
SWEEP(s390x_write_vx, Z13(".irp i, 17,18,19,20,21,22,23,24,25,26,27,28,29,30,31\n\t"
			  "vlvgp %%v\\i, %[cursor], %[cursor]\n\t.endr\n\t" LOOP(
				  STEP("cursor"), "vlvgp %%v16, %[cursor], %[cursor]\n\t"
						  "vstm %%v16, %%v31, 0(%[cursor])\n\t")))

/* Minus a register of all ones, in two halves. */
SWEEP(s390x_modify_vx,
      Z13("vone %%v24\n\t" LOOP(STEP("cursor"), ".irp o, 0,128\n\t"
						"vlm %%v16, %%v23, \\o(%[cursor])\n\t"
						".irp i, 16,17,18,19,20,21,22,23\n\t"
						"vsg %%v\\i, %%v\\i, %%v24\n\t.endr\n\t"
						"vstm %%v16, %%v23, \\o(%[cursor])\n\t.endr\n\t")))
SWEEP(s390x_copy_vx, Z13(LOOP(STEP("cursor") STEP("from"), "vlm %%v16, %%v31, 0(%[from])\n\t"
							   "vstm %%v16, %%v31, 0(%[cursor])\n\t")))

SWEEP(s390x_zero_xc, LOOP(STEP("cursor"), "xc 0(256, %[cursor]), 0(%[cursor])\n\t"))
SWEEP(s390x_copy_mvc, LOOP(STEP("cursor") STEP("from"), "mvc 0(256, %[cursor]), 0(%[from])\n\t"))

VARIANTS(arch_stream, {.name = "vx", .needs = FEATURE_VX, .stream = LOOPS(s390x, vx)},
	 {.name = "mvc", .stream = {[OPERATION_COPY] = s390x_copy_mvc}},
	 {.name = "xc", .stream = {[OPERATION_ZERO] = s390x_zero_xc}});
