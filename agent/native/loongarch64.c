/* loongarch64: 64-bit LoongArch, and amcas of version 1.1 where the CPU has it. See native.h. */
#define POINTER               "r"
#define LINE(line)            "+r"(line)
#define AGAIN                 "addi.w %[n], %[n], -1\n\tbnez %[n], 1b"
#define LINE_CLOBBERS         "$t0"
#define WORD                  "r"(word)
#define SUM(to, a, b)         "add.d %[" to "], %[" a "], %[" b "]\n\t"
#define COPY(to, from)        "move %[" to "], %[" from "]\n\t"
#define NEXT_LINE             "addi.d %[line], %[line], 64\n\t"
#define NEXT_PAGE             "add.d %[cursor], %[cursor], $t0\n\t"
#define BEFORE_PAGES          "lu12i.w $t0, 1\n\t"
#define IF_BELOW(a, b, label) "bltu %[" a "], %[" b "], " label "\n\t"

#include "loops.h"

const char arch_name[] = "loongarch64";

/* sc.w replaces the value to store by whether it was stored: hence the copy on every turn. */
CAS(loongarch64_cas_llsc, "ll.w %[seen], %[line], 0\n\t"
			  "bne %[seen], %[from], 1b\n\t"
			  "move %[status], %[to]\n\t"
			  "sc.w %[status], %[line], 0\n\t"
			  "beqz %[status], 1b")

/* The word is `amcas.w $t0, $t1, $t2`, written so because assemblers before 2.41 do not know it. */
TIMED void loongarch64_cas_amcas(uint32_t *line, uint32_t from, uint32_t to, uint32_t n)
{
	register uint32_t *line_in_t2 __asm__("$r14") = line;
	register uint32_t to_in_t1 __asm__("$r13") = to;
	register uint32_t seen_in_t0 __asm__("$r12");

	__asm__ volatile(".p2align 5\n"
			 "1:\n\t"
			 "move %[seen], %[from]\n\t"
			 ".word 0x38590000 | 13 << 10 | 14 << 5 | 12\n\t"
			 "bne %[seen], %[from], 1b\n\t" AGAIN
			 : [seen] "=&r"(seen_in_t0), [n] "+&r"(n)
			 : [from] "r"(from), "r"(to_in_t1), "r"(line_in_t2)
			 : "memory");
}

#define HAND_OVER(barrier)                                                                         \
	"ld.w %[seen], %[watched], 0\n\t"                                                          \
	"bne %[seen], %[from], 1b\n\t" barrier "st.w %[to], %[written], 0\n\t"                     \
	"xori %[from], %[from], 1\n\t"                                                             \
	"xori %[to], %[to], 1"

/* The branch orders the store: Linux's memory model holds that of all its architectures. */
READWRITE(loongarch64_readwrite_ld, HAND_OVER(""))

/* dbar 0x12 orders what stands before it with the stores behind it: a store-release's barrier. */
READWRITE(loongarch64_readwrite_dbar, HAND_OVER("dbar 0x12\n\t"))

CHASE(loongarch64_chase_ld, "ld.d %[line], %[line], 0")

ADDS(loongarch64_adds, "add.d %[sum], %[sum], %[step]",
     "addi.w %[n], %[n], -16\n\t"
     "bnez %[n], 1b")

ADD_ONE(loongarch64_faa_am, "addi.w %[next], $zero, 1\n\t"
			    "amadd.w %[seen], %[next], %[word]")
PUT(loongarch64_put_am, "amswap.w %[seen], %[value], %[word]\n\t"
			"add.w %[sum], %[sum], %[seen]\n\t"
			"addi.w %[value], %[value], 1")

VARIANTS(arch_contend, {.name = "am",
			.cas = loongarch64_cas_llsc,
			.add = {[OPERATION_FAA] = loongarch64_faa_am},
			.put = {[OPERATION_SWAP] = loongarch64_put_am}});

VARIANTS(arch_cas, {.name = "llsc", .cas = loongarch64_cas_llsc},
	 {.name = "amcas", .needs = FEATURE_LAM_CAS, .cas = loongarch64_cas_amcas});

VARIANTS(arch_readwrite, {.name = "ld", .readwrite = loongarch64_readwrite_ld},
	 {.name = "dbar", .readwrite = loongarch64_readwrite_dbar});

VARIANTS(arch_chase, {.name = "ld", .chase = loongarch64_chase_ld});

NO_VARIANTS(arch_gemm);

adds_fn *const arch_adds = loongarch64_adds;

/* The stable counter: one rate in all states, the same on all CPUs. */
static uint64_t ticks_rdtime(void)
{
	uint64_t ticks;

	__asm__ volatile("dbar 0\n\trdtime.d %0, $zero\n\tdbar 0" : "=r"(ticks) : : "memory");
	return ticks;
}

static uint32_t cpucfg(uint32_t word)
{
	uint32_t value;

	__asm__("cpucfg %0, %1" : "=r"(value) : "r"(word));
	return value;
}

/* CPUCFG 4 is the crystal's frequency, 5 holds multiplier and divisor; zeros: to be measured. */
int arch_get_clock(struct clock *clock)
{
	uint32_t crystal = cpucfg(4), multiplier = cpucfg(5) & 0xffff, divisor = cpucfg(5) >> 16;

	*clock = (struct clock){.name = "rdtime", .ticks = ticks_rdtime};
	if (divisor)
		clock->ticks_per_second = (uint64_t)crystal * multiplier / divisor;
	return 0;
}

/* ---- loops over single lines */

RECEIVE(loongarch64_message_ld, "ld.d %[seen], %[word], 0\n\t"
				"beq %[seen], %[old], 1b")

VARIANTS(arch_message, {.name = "ld", .receive = loongarch64_message_ld});

GO_BY_PAGES(loongarch64_load_ld, "ld.d %[word], %[line], 0", "dbar 0")
GO_BY_PAGES(loongarch64_store_ld, "st.d %[line], %[line], 8", "dbar 0")
SWAP(loongarch64_swap_ld, "amadd.d %[next], $zero, %[line]\n\t"
			  "move %[line], %[next]")

flush_fn *const arch_flush = NULL;

VARIANTS(arch_fetch, {.name = "ld",
		      .swap = loongarch64_swap_ld,
		      .load = loongarch64_load_ld,
		      .store = loongarch64_store_ld});

GO_BY_BLOCKS(loongarch64_blocks_st, EACH_WORD("st.d %[line], %[line], \\at"))

VARIANTS(arch_interleave, {.name = "st", .blocks = loongarch64_blocks_st});

/* ---- loops through memory, 256 bytes a turn
 *
 * Instructions of LSX and LASX are written by their encodings, because assemblers before binutils
 * 2.41 do not know them; so their pointers have fixed registers. */
#define SWEEP_CLOBBERS                                                                             \
	"$t0", "$t1", "$t2", "$t3", "$t4", "$t5", "$t6", "$t7", "$f0", "$f1", "$f2", "$f3", "$f4", \
		"$f5", "$f6", "$f7"

/* `cursor` in $t0, whose number is 12, and `from` in $t1. */
#define VECTORS(turn)                                                                              \
	"move $t0, %[cursor]\n\tmove $t1, %[from]\n\t.p2align 6\n1:\n\t" turn                      \
	"addi.d $t0, $t0, 256\n\tbltu $t0, %[end], 1b\n\tmove %[cursor], $t0\n\t"
#define AT    " | 12 << 5 | "
#define FROM  " | 13 << 5 | "
#define ALONG "addi.d $t1, $t1, 256\n\t"

/* xvld, xvst, xvaddi.du by 1, xvreplgr2vr.d of the address to register 0 */
#define LASX_LOAD(base) EACH(".word 0x2c800000 | (32*\\i) << 10" base "\\i")
#define LASX_STORE(x)   EACH(".word 0x2cc00000 | (32*\\i) << 10" AT x)
#define LASX_ADD_ONE    EACH(".word 0x768b8000 | 1 << 10 | \\i << 5 | \\i")
#define LASX_ADDRESS    ".word 0x769f0c00" AT "0\n\t"

SWEEP(loongarch64_read_lasx, VECTORS(LASX_LOAD(AT)))
SWEEP(loongarch64_write_lasx, VECTORS(LASX_ADDRESS LASX_STORE("0")))
SWEEP(loongarch64_modify_lasx, VECTORS(LASX_LOAD(AT) LASX_ADD_ONE LASX_STORE("\\i")))
SWEEP(loongarch64_copy_lasx, VECTORS(LASX_LOAD(FROM) LASX_STORE("\\i") ALONG))

#define TWICE(text) ".irp o, 0,128\n\t" text ".endr\n\t"

/* vld, vst, vaddi.du by 1, vreplgr2vr.d of the address to register 0 */
#define LSX_LOAD(base) EACH(".word 0x2c000000 | (\\o+16*\\i) << 10" base "\\i")
#define LSX_STORE(x)   EACH(".word 0x2c400000 | (\\o+16*\\i) << 10" AT x)
#define LSX_ADD_ONE    EACH(".word 0x728b8000 | 1 << 10 | \\i << 5 | \\i")
#define LSX_ADDRESS    ".word 0x729f0c00" AT "0\n\t"

SWEEP(loongarch64_read_lsx, VECTORS(TWICE(LSX_LOAD(AT))))
SWEEP(loongarch64_write_lsx, VECTORS(LSX_ADDRESS TWICE(LSX_STORE("0"))))
SWEEP(loongarch64_modify_lsx, VECTORS(TWICE(LSX_LOAD(AT) LSX_ADD_ONE LSX_STORE("\\i"))))
SWEEP(loongarch64_copy_lsx, VECTORS(TWICE(LSX_LOAD(FROM) LSX_STORE("\\i")) ALONG))

#define LOOP(turn) ".p2align 6\n1:\n\t" turn "bltu %[cursor], %[end], 1b\n\t"
#define STEP(base) "addi.d %[" base "], %[" base "], 256\n\t"

/* Registers $t0 to $t7, 4 times. */
#define FOUR_TIMES(text) ".irp o, 0,64,128,192\n\t" text ".endr\n\t"
#define LOAD(base)       EACH("ld.d $t\\i, %[" base "], \\o+8*\\i")
#define STORE(word)      EACH("st.d " word ", %[cursor], \\o+8*\\i")

SWEEP(loongarch64_read_ld, LOOP(FOUR_TIMES(LOAD("cursor")) STEP("cursor")))
SWEEP(loongarch64_write_ld, LOOP(FOUR_TIMES(STORE("%[cursor]")) STEP("cursor")))
SWEEP(loongarch64_modify_ld,
      LOOP(FOUR_TIMES(LOAD("cursor") EACH("addi.d $t\\i, $t\\i, 1") STORE("$t\\i")) STEP("cursor")))
SWEEP(loongarch64_copy_ld,
      LOOP(FOUR_TIMES(LOAD("from") STORE("$t\\i")) STEP("cursor") STEP("from")))

VARIANTS(arch_stream, {.name = "lasx", .needs = FEATURE_LASX, .stream = LOOPS(loongarch64, lasx)},
	 {.name = "lsx", .needs = FEATURE_LSX, .stream = LOOPS(loongarch64, lsx)},
	 {.name = "ld", .stream = LOOPS(loongarch64, ld)});
