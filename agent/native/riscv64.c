/* riscv64: 64-bit RISC-V with the A extension, and Zacas where the CPU has it. See native.h.
 *
 * Zacas is built whatever -march says: written by its encoding, because assemblers before binutils
 * 2.42 do not know it. os_features() tells whether the CPU has it. */
#define POINTER               "r"
#define LINE(line)            "+A"(*(line))
#define AGAIN                 "addiw %[n], %[n], -1\n\tbnez %[n], 1b"
#define LINE_CLOBBERS         "t0"
#define WORD                  "A"(*word)
#define SUM(to, a, b)         "add %[" to "], %[" a "], %[" b "]\n\t"
#define COPY(to, from)        "mv %[" to "], %[" from "]\n\t"
#define NEXT_LINE             "addi %[line], %[line], 64\n\t"
#define NEXT_PAGE             "add %[cursor], %[cursor], t0\n\t"
#define BEFORE_PAGES          "li t0, 4096\n\t"
#define IF_BELOW(a, b, label) "bltu %[" a "], %[" b "], " label "\n\t"

#include "loops.h"

const char arch_name[] = "riscv64";

/* lr and sc without aq or rl: only the order of accesses to this one line matters. The line has its
 * page to itself, so nothing else falls into the reservation set and makes the sc fail. */
CAS(riscv64_cas_lrsc, "lr.w %[seen], %[line]\n\t"
		      "bne %[seen], %[from], 1b\n\t"
		      "sc.w %[status], %[to], %[line]\n\t"
		      "bnez %[status], 1b")

/* .insn r: amocas.w seen, to, (line): opcode AMO, width W, funct5 00101 without aq and rl. */
TIMED void riscv64_cas_zacas(uint32_t *line, uint32_t from, uint32_t to, uint32_t n)
{
	uint32_t seen;

	__asm__ volatile(".p2align 5\n"
			 "1:\n\t"
			 "mv %[seen], %[from]\n\t"
			 ".insn r 0x2f, 0x2, 0x14, %[seen], %[line], %[to]\n\t"
			 "bne %[seen], %[from], 1b\n\t" AGAIN
			 : [seen] "=&r"(seen), [n] "+&r"(n)
			 : [from] "r"(from), [to] "r"(to), [line] "r"(line)
			 : "memory");
}

#define HAND_OVER(barrier)                                                                         \
	"lw %[seen], %[watched]\n\t"                                                               \
	"bne %[seen], %[from], 1b\n\t" barrier "sw %[to], %[written]\n\t"                          \
	"xori %[from], %[from], 1\n\t"                                                             \
	"xori %[to], %[to], 1"

/* The branch orders the store (unprivileged spec, RVWMO, preserved program order, rule 11). */
READWRITE(riscv64_readwrite_lw, HAND_OVER(""))
READWRITE(riscv64_readwrite_fence, HAND_OVER("fence r, w\n\t"))

CHASE(riscv64_chase_ld, "ld %[line], 0(%[line])")

ADDS(riscv64_adds, "add %[sum], %[sum], %[step]",
     "addiw %[n], %[n], -16\n\t"
     "bnez %[n], 1b")

ADD_ONE(riscv64_faa_amo, "li %[next], 1\n\t"
			 "amoadd.w %[seen], %[next], %[word]")
PUT(riscv64_put_amo, "amoswap.w %[seen], %[value], %[word]\n\t"
		     "addw %[sum], %[sum], %[seen]\n\t"
		     "addiw %[value], %[value], 1")

VARIANTS(arch_contend, {.name = "amo",
			.cas = riscv64_cas_lrsc,
			.add = {[OPERATION_FAA] = riscv64_faa_amo},
			.put = {[OPERATION_SWAP] = riscv64_put_amo}});

VARIANTS(arch_cas, {.name = "lrsc", .cas = riscv64_cas_lrsc},
	 {.name = "zacas", .needs = FEATURE_ZACAS, .cas = riscv64_cas_zacas});

VARIANTS(arch_readwrite, {.name = "lw", .readwrite = riscv64_readwrite_lw},
	 {.name = "fence", .readwrite = riscv64_readwrite_fence});

VARIANTS(arch_chase, {.name = "ld", .chase = riscv64_chase_ld});

NO_VARIANTS(arch_gemm);

adds_fn *const arch_adds = riscv64_adds;

/* Never rdcycle: it counts the CPU's own cycles, and Linux since 6.6 traps it. To fences a CSR is a
 * device that is read, hence the i (unprivileged spec, Zicsr, CSR access ordering). */
static uint64_t ticks_rdtime(void)
{
	uint64_t ticks;

	__asm__ volatile("fence rw, i\n\trdtime %0\n\tfence i, rw" : "=r"(ticks) : : "memory");
	return ticks;
}

int arch_get_clock(struct clock *clock)
{
	*clock = (struct clock){.name = "rdtime", .ticks = ticks_rdtime};
	return 0;
}

/* ---- loops over single lines */

RECEIVE(riscv64_message_ld, "ld %[seen], %[word]\n\t"
			    "beq %[seen], %[old], 1b")

VARIANTS(arch_message, {.name = "ld", .receive = riscv64_message_ld});

GO_BY_PAGES(riscv64_load_ld, "ld %[word], 0(%[line])", "fence r, rw")
GO_BY_PAGES(riscv64_store_ld, "sd %[line], 8(%[line])", "fence rw, rw")
SWAP(riscv64_swap_ld, "amoadd.d %[next], zero, (%[line])\n\t"
		      "mv %[line], %[next]")
FLUSH(riscv64_flush, ".insn i 0x0f, 2, x0, %0, 2" /* cbo.flush */, "fence iorw, iorw")

VARIANTS(arch_fetch, {.name = "ld",
		      .swap = riscv64_swap_ld,
		      .load = riscv64_load_ld,
		      .store = riscv64_store_ld});

GO_BY_BLOCKS(riscv64_blocks_sd, EACH_WORD("sd %[line], \\at(%[line])"))

VARIANTS(arch_interleave, {.name = "sd", .blocks = riscv64_blocks_sd});

/* ---- loops through memory, 512 bytes a turn by vectors and 256 by words
 *
 * Instructions of V and Zicboz are written by their encodings, because assemblers before binutils
 * 2.38 do not know them. No vector register is named as changed, because compilers without V do not
 * know their names, and with V the ABI lets every function change all. */
#define SWEEP_CLOBBERS "t0", "t1", "t2", "a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7"

#define LOOP(turn) ".p2align 6\n1:\n\t" turn "bltu %[cursor], %[end], 1b\n\t"

/* Elements of one byte, 8 registers a group: t0 is how many bytes a group takes. 512 is asked for,
 * so that 4 groups divide 2 KiB; VLMAX, a power of two of at least 128, may be less. */
#define GROUPS "li t1, 512\n\t" BYTES
#define BYTES  ".insn i 0x57, 7, t0, t1, 0xc3\n\t" /* vsetvli t0, t1, e8, m8, ta, ma */

/* One instruction for each of the groups v0, v8, v16 and v24. */
#define GROUPED(text) ".irp i, 0,8,16,24\n\t" text "\n\t.endr\n\t"
#define LOAD(base)    ".insn i 0x07, 0, x\\i, %[" base "], 0x20\n\t" /* vle8.v v\i, (base) */
#define STORE(v)      ".insn i 0x27, 0, x" v ", %[cursor], 0x20\n\t" /* vse8.v v, (at) */
#define STEP(base)    "add %[" base "], %[" base "], t0\n\t"

/* ntl.all, a hint to the access that follows: it will not be needed again in any cache. */
#define NTL "add x0, x0, t0\n\t"

/* The address in all words of group v0: vsetvli t2, t1, e64, m8, ta, ma; vmv.v.x v0, at. */
#define ADDRESS ".insn i 0x57, 7, t2, t1, 0xdb\n\t.insn i 0x57, 4, x0, %[cursor], 0x5e0\n\t" BYTES

SWEEP(riscv64_read_rvv, GROUPS LOOP(GROUPED(LOAD("cursor") STEP("cursor"))))
SWEEP(riscv64_write_rvv, GROUPS LOOP(ADDRESS GROUPED(STORE("0") STEP("cursor"))))
SWEEP(riscv64_nt_rvv, GROUPS LOOP(ADDRESS GROUPED(NTL STORE("0") STEP("cursor"))))

/* vadd.vi v, v, 1 */
#define INCREMENT ".insn i 0x57, 3, x\\i, x1, 0x20+\\i\n\t"

SWEEP(riscv64_modify_rvv,
      GROUPS LOOP(GROUPED(LOAD("cursor") INCREMENT STORE("\\i") STEP("cursor"))))
SWEEP(riscv64_copy_rvv,
      GROUPS LOOP(GROUPED(LOAD("from") STEP("from")) GROUPED(STORE("\\i") STEP("cursor"))))
SWEEP(riscv64_ntcopy_rvv,
      GROUPS LOOP(GROUPED(LOAD("from") STEP("from")) GROUPED(NTL STORE("\\i") STEP("cursor"))))

/* Registers a0 to a7, which are x10 to x17, 4 times. */
#define FOUR_TIMES(text) ".irp o, 0,64,128,192\n\t" text ".endr\n\t"
#define LOAD_WORD(base)  "ld x1\\i, \\o+8*\\i(%[" base "])"
#define STORE_WORD(word) "sd " word ", \\o+8*\\i(%[cursor])"
#define STEP_256(base)   "addi %[" base "], %[" base "], 256\n\t"

SWEEP(riscv64_read_ld, LOOP(FOUR_TIMES(EACH(LOAD_WORD("cursor"))) STEP_256("cursor")))
SWEEP(riscv64_write_ld, LOOP(FOUR_TIMES(EACH(STORE_WORD("%[cursor]"))) STEP_256("cursor")))
SWEEP(riscv64_nt_ld, LOOP(FOUR_TIMES(EACH(NTL STORE_WORD("%[cursor]"))) STEP_256("cursor")))
SWEEP(riscv64_modify_ld, LOOP(FOUR_TIMES(EACH(LOAD_WORD("cursor")) EACH("addi x1\\i, x1\\i, 1")
						 EACH(STORE_WORD("x1\\i"))) STEP_256("cursor")))
SWEEP(riscv64_copy_ld, LOOP(FOUR_TIMES(EACH(LOAD_WORD("from")) EACH(STORE_WORD("x1\\i")))
				    STEP_256("cursor") STEP_256("from")))
SWEEP(riscv64_ntcopy_ld, LOOP(FOUR_TIMES(EACH(LOAD_WORD("from")) EACH(NTL STORE_WORD("x1\\i")))
				      STEP_256("cursor") STEP_256("from")))

/* cbo.zero of blocks of 64 bytes: os_features() looks at their size. */
SWEEP(riscv64_zero_cbo,
      LOOP(".insn i 0x0f, 2, x0, %[cursor], 4\n\taddi %[cursor], %[cursor], 64\n\t"))

VARIANTS(arch_stream, {.name = "rvv", .needs = FEATURE_RVV, .stream = LOOPS_AND_NT(riscv64, rvv)},
	 {.name = "ld", .stream = LOOPS_AND_NT(riscv64, ld)},
	 {.name = "cbo",
	  .needs = FEATURE_CBO_ZERO,
	  .stream = {[OPERATION_ZERO] = riscv64_zero_cbo}});
