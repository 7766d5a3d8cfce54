/* x86_64: what any 64-bit x86 CPU gives. See native.h. */
#define POINTER    "r"
#define LINE(line) "+m"(*(line))
#define AGAIN      "dec %[n]\n\tjne 1b"
#define SEEN       "a"

#include "core_loops.h"
#include "lock_loops.h"
#include "x86_tsc.h"

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

/* Of two registers: an addition of a small constant may take no time (Golden Cove renames it). */
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
