/* armv7: 32-bit Arm with ldrex, dmb and perhaps the generic timer. See native.h. */
#define POINTER               "r"
#define LINE(line)            "+Q"(*(line))
#define AGAIN                 "subs %[n], %[n], #1\n\tbne 1b"
#define LINE_CLOBBERS         "cc"
#define WORD                  "Q"(*word)
#define SUM(to, a, b)         "add %[" to "], %[" a "], %[" b "]\n\t"
#define COPY(to, from)        "mov %[" to "], %[" from "]\n\t"
#define NEXT_LINE             "add %[line], %[line], #64\n\t"
#define NEXT_PAGE             "add %[cursor], %[cursor], #4096\n\t"
#define IF_BELOW(a, b, label) "cmp %[" a "], %[" b "]\n\tbcc " label "\n\t"

#include "loops.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>

const char arch_name[] = "armv7";

/* The line has its page to itself, so nothing else falls into the reservation granule (at most 2
 * KiB, Arm ARM v7-A A3.4.3) and makes the store-exclusive fail. */
CAS(armv7_cas_ldrex, "ldrex %[seen], %[line]\n\t"
		     "cmp %[seen], %[from]\n\t"
		     "bne 1b\n\t"
		     "strex %[status], %[to], %[line]\n\t"
		     "cmp %[status], #0\n\t"
		     "bne 1b")

#define HAND_OVER(barrier)                                                                         \
	"ldr %[seen], %[watched]\n\t"                                                              \
	"cmp %[seen], %[from]\n\t"                                                                 \
	"bne 1b\n\t" barrier "str %[to], %[written]\n\t"                                           \
	"eor %[from], %[from], #1\n\t"                                                             \
	"eor %[to], %[to], #1"

/* No store is seen before it is sure to be executed: the branch orders it (Arm ARM v7-A A3.8.2). */
READWRITE(armv7_readwrite_ldr, HAND_OVER(""))

/* Armv7 has neither ldar nor stlr. */
READWRITE(armv7_readwrite_dmb, HAND_OVER("dmb ish\n\t"))

CHASE(armv7_chase_ldr, "ldr %[line], [%[line]]")

ADDS(armv7_adds, "add %[sum], %[sum], %[step]",
     "subs %[n], %[n], #16\n\t"
     "bne 1b")

ADD_ONE(armv7_faa_ldrex, "ldrex %[seen], %[word]\n\t"
			 "add %[next], %[seen], #1\n\t"
			 "strex %[status], %[next], %[word]\n\t"
			 "cmp %[status], #0\n\t"
			 "bne 1b")
PUT(armv7_put_ldrex, "ldrex %[seen], %[word]\n\t"
		     "strex %[status], %[value], %[word]\n\t"
		     "cmp %[status], #0\n\t"
		     "bne 1b\n\t"
		     "add %[sum], %[sum], %[seen]\n\t"
		     "add %[value], %[value], #1")

VARIANTS(arch_contend, {.name = "ldrex",
			.cas = armv7_cas_ldrex,
			.add = {[OPERATION_FAA] = armv7_faa_ldrex},
			.put = {[OPERATION_SWAP] = armv7_put_ldrex}});

VARIANTS(arch_cas, {.name = "ldrex", .cas = armv7_cas_ldrex});

VARIANTS(arch_readwrite, {.name = "ldr", .readwrite = armv7_readwrite_ldr},
	 {.name = "dmb", .readwrite = armv7_readwrite_dmb});

VARIANTS(arch_chase, {.name = "ldr", .chase = armv7_chase_ldr});

NO_VARIANTS(arch_gemm);

adds_fn *const arch_adds = armv7_adds;

/* CNTVCT. isb: it may otherwise be read early, out of program order (Arm ARM v7-A B8.1.2). */
static uint64_t ticks_cntvct(void)
{
	uint32_t low, high;

	__asm__ volatile("isb\n\tmrrc p15, 1, %0, %1, c14\n\tisb"
			 : "=r"(low), "=r"(high)
			 :
			 : "memory");
	return (uint64_t)high << 32 | low;
}

static uint32_t cntfrq(void)
{
	uint32_t ticks_per_second;

	__asm__ volatile("mrc p15, 0, %0, c14, c0, 0" : "=r"(ticks_per_second));
	return ticks_per_second;
}

static sigjmp_buf after_sigill;

static void on_sigill(int signal)
{
	(void)signal;
	siglongjmp(after_sigill, 1);
}

/* The generic timer is an extension, and the OS may keep it from user code (CNTKCTL.PL0VCTEN).
 * Nothing user code may read says which, so we try: refused, it is an illegal instruction. */
int arch_get_clock(struct clock *clock)
{
	struct sigaction trap = {.sa_handler = on_sigill}, before;

	sigemptyset(&trap.sa_mask);
	if (sigaction(SIGILL, &trap, &before))
		return -errno;
	int refused = sigsetjmp(after_sigill, 1);

	if (!refused) {
		ticks_cntvct();
		*clock = (struct clock){
			.name = "cntvct", .ticks_per_second = cntfrq(), .ticks = ticks_cntvct};
	}
	sigaction(SIGILL, &before, NULL);
	if (refused) {
		clock->note = "no generic timer that user code may read";
		return -ENOTSUP;
	}
	return 0;
}

/* ---- loops over single lines */

RECEIVE(armv7_message_ldr, "ldr %[seen], %[word]\n\t"
			   "cmp %[seen], %[old]\n\t"
			   "beq 1b")

VARIANTS(arch_message, {.name = "ldr", .receive = armv7_message_ldr});

GO_BY_PAGES(armv7_load_ldr, "ldr %[word], [%[line]]",
	    "dsb ish\n\t"
	    "isb")
GO_BY_PAGES(armv7_store_ldr, "str %[line], [%[line], #4]", "dsb ish")
SWAP(armv7_swap_ldr, "ldrex %[next], [%[line]]\n\t"
		     "strex %[failed], %[next], [%[line]]\n\t"
		     "cmp %[failed], #0\n\t"
		     "bne 1b\n\t"
		     "mov %[line], %[next]")

flush_fn *const arch_flush = NULL;

VARIANTS(arch_fetch,
	 {.name = "ldr", .swap = armv7_swap_ldr, .load = armv7_load_ldr, .store = armv7_store_ldr});

#undef LINE_CLOBBERS
#define LINE_CLOBBERS "cc", "r2", "r3"

GO_BY_BLOCKS(armv7_blocks_strd, "mov r2, %[line]\n\t"
				"mov r3, %[line]\n\t" EACH_WORD("strd r2, r3, [%[line], #\\at]"))

VARIANTS(arch_interleave, {.name = "strd", .blocks = armv7_blocks_strd});

/* ---- loops through memory, 256 bytes a turn
 *
 * d16 to d31 are not named as changed, because compilers for smaller units do not know them, and
 * for larger ones the ABI lets every function change them; d8 to d15 a function must keep. */
#define SWEEP_CLOBBERS "cc", "d0", "d1", "d2", "d3", "d4", "d5", "d6", "d7"

/* Functions that need Advanced SIMD say so; the rest of the file may then use it as well. */
#define NEON(text) ".fpu neon\n\t" text

/* Loads and stores move the pointer on. */
#define LOOP(turn) ".p2align 6\n1:\n\t" turn "cmp %[cursor], %[end]\n\tblo 1b\n\t"
#define LOW        "{d0-d7}\n\t"
#define HIGH       "{d16-d23}\n\t"

SWEEP(armv7_read_neon,
      NEON(LOOP(".rept 2\n\tvldmia %[cursor]!, " LOW "vldmia %[cursor]!, " HIGH ".endr\n\t")))

/* The address in all words of d0 to d7, which are q0 to q3. */
SWEEP(armv7_write_neon, NEON(LOOP(".irp q, q0,q1,q2,q3\n\tvdup.32 \\q, %[cursor]\n\t.endr\n\t"
				  ".rept 4\n\tvstmia %[cursor]!, " LOW ".endr\n\t")))

/* Minus a register of all ones. vldmia without ! leaves the pointer where it is. */
SWEEP(armv7_modify_neon,
      NEON("vmov.i8 q12, #255\n\t" LOOP(".rept 4\n\tvldmia %[cursor], " LOW
					".irp q, q0,q1,q2,q3\n\t"
					"vsub.i32 \\q, \\q, q12\n\t.endr\n\tvstmia %[cursor]!, " LOW
					".endr\n\t")))
SWEEP(armv7_copy_neon, NEON(LOOP(".rept 2\n\tvldmia %[from]!, " LOW "vldmia %[from]!, " HIGH
				 "vstmia %[cursor]!, " LOW "vstmia %[cursor]!, " HIGH ".endr\n\t")))

VARIANTS(arch_stream, {.name = "neon", .needs = FEATURE_NEON, .stream = LOOPS(armv7, neon)});
