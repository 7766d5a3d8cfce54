/* x86.h: what native/{x86_64,i386}.c share: the frames' parameters, loops over single lines and
 * through memory, and the time stamp counter. They define X86_SECOND_WORD, how far a line's second
 * word is from its first; X86_AFTER_LOADS and X86_AFTER_STORES, the instructions that wait for all
 * of them; LINE_CLOBBERS and SWEEP_CLOBBERS. */
#ifndef FLEET_X86_H
#define FLEET_X86_H

#define LINE(line)            "+m"(*(line))
#define SEEN                  "a"
#define POINTER               "r"
#define WORD                  "m"(*word)
#define AGAIN                 "dec %[n]\n\tjne 1b"
#define SUM(to, a, b)         "lea (%[" a "],%[" b "]), %[" to "]\n\t"
#define COPY(to, from)        "mov %[" from "], %[" to "]\n\t"
#define ADD(to, by)           "add %[" by "], %[" to "]\n\t"
#define NEXT_LINE             "add $64, %[line]\n\t"
#define NEXT_PAGE             "add $4096, %[cursor]\n\t"
#define IF_BELOW(a, b, label) "cmp %[" b "], %[" a "]\n\tjb " label "\n\t"

#include "lock_loops.h"
#include "loops.h"

#include <cpuid.h>
#include <errno.h>
#include <stdbool.h>

RECEIVE(x86_message_mov, "mov %[word], %[seen]\n\t"
			 "cmp %[old], %[seen]\n\t"
			 "je 1b")

VARIANTS(arch_message, {.name = "mov", .receive = x86_message_mov});

GO_BY_PAGES(x86_load_mov, "mov (%[line]), %[word]", X86_AFTER_LOADS)
GO_BY_PAGES(x86_store_mov, "mov %[line], " X86_SECOND_WORD "(%[line])", X86_AFTER_STORES)
SWAP(x86_swap_mov, "xor %[next], %[next]\n\t"
		   "lock xadd %[next], (%[line])\n\t"
		   "mov %[next], %[line]")
FLUSH(x86_flush, "clflush (%0)", X86_AFTER_STORES)

VARIANTS(arch_fetch,
	 {.name = "mov", .swap = x86_swap_mov, .load = x86_load_mov, .store = x86_store_mov});

/* One pointer, compared with the end. */
#define LOOP(bytes, turn)                                                                          \
	".p2align 6\n"                                                                             \
	"1:\n\t" turn "add $" #bytes ", %[cursor]\n\t"                                             \
	"cmp %[end], %[cursor]\n\t"                                                                \
	"jb 1b\n\t"

/* The same loop with a second pointer that runs along. */
#define LOOP_FROM(bytes, turn) LOOP(bytes, turn "add $" #bytes ", %[from]\n\t")

/* Eight vectors a turn, moved by `mov` with its ending; `address` puts that into register 0. */
#define VECTOR_LOOPS(arch, name, bytes, width, vector, mov, address)                               \
	SWEEP(arch##_read_##name,                                                                  \
	      LOOP(bytes, EACH(mov "aps " AT(width, "cursor") ", " vector "\\i")))                 \
	SWEEP(arch##_write_##name,                                                                 \
	      LOOP(bytes, address EACH(mov "aps " vector "0, " AT(width, "cursor"))))              \
	SWEEP(arch##_nt_##name,                                                                    \
	      LOOP(bytes, address EACH(mov "ntps " vector "0, " AT(width, "cursor"))))             \
	SWEEP(arch##_copy_##name,                                                                  \
	      LOOP_FROM(bytes, EACH(mov "aps " AT(width, "from") ", " vector "\\i")                \
				       EACH(mov "aps " vector "\\i, " AT(width, "cursor"))))       \
	SWEEP(arch##_ntcopy_##name,                                                                \
	      LOOP_FROM(bytes, EACH(mov "aps " AT(width, "from") ", " vector "\\i")                \
				       EACH(mov "ntps " vector "\\i, " AT(width, "cursor"))))
#define AT(width, base) "\\i*" width "(%[" base "])"

/* A byte of the address, never 0. */
TIMED char *x86_write_stosb(char *cursor, const char *from, size_t bytes)
{
	(void)from;
	__asm__ volatile("rep stosb"
			 : "+D"(cursor), "+c"(bytes)
			 : "a"((uintptr_t)cursor >> 12 | 1)
			 : "memory");
	return cursor;
}

TIMED char *x86_zero_stosb(char *cursor, const char *from, size_t bytes)
{
	(void)from;
	__asm__ volatile("rep stosb" : "+D"(cursor), "+c"(bytes) : "a"(0) : "memory");
	return cursor;
}

TIMED char *x86_copy_movsb(char *cursor, const char *from, size_t bytes)
{
	__asm__ volatile("rep movsb" : "+D"(cursor), "+S"(from), "+c"(bytes) : : "memory");
	return cursor;
}

/* rdtscp waits for older instructions, lfence holds back younger ones (Intel SDM 2B, RDTSCP). */
static uint64_t ticks_rdtscp(void)
{
	uint32_t low, high, aux;

	__asm__ volatile("rdtscp\n\tlfence" : "=a"(low), "=d"(high), "=c"(aux) : : "memory");
	return (uint64_t)high << 32 | low;
}

static uint64_t ticks_rdtsc(void)
{
	uint32_t low, high;

	__asm__ volatile("lfence\n\trdtsc\n\tlfence" : "=a"(low), "=d"(high) : : "memory");
	return (uint64_t)high << 32 | low;
}

/* Reads the clock to store the reading: so nothing need hold back younger instructions. */
static uint64_t ticks_before_send_rdtsc(void)
{
	uint32_t low, high;

	__asm__ volatile("lfence\n\trdtsc" : "=a"(low), "=d"(high) : : "memory");
	return (uint64_t)high << 32 | low;
}

/* Returns one bit of EDX of a CPUID leaf; false where the leaf does not exist. */
static bool cpuid_edx(uint32_t leaf, unsigned bit)
{
	uint32_t a, b, c, d;

	return __get_cpuid(leaf, &a, &b, &c, &d) && (d >> bit & 1);
}

/* An invariant TSC (CPUID 80000007h EDX bit 8) has one rate in all states: Intel SDM 3B, 18.17.
 * Every CPU that has one has lfence too. */
int arch_get_clock(struct clock *clock)
{
	if (!cpuid_edx(1, 4) || !cpuid_edx(0x80000007, 8)) {
		clock->note = "the time stamp counter is not invariant";
		return -ENOTSUP;
	}
	*clock = (struct clock){
		.name = "tsc", .ticks = ticks_rdtscp, .sent = ticks_before_send_rdtsc};
	if (!cpuid_edx(0x80000001, 27)) {
		clock->note = "no rdtscp, reading with lfence and rdtsc";
		clock->ticks = ticks_rdtsc;
	}
	return 0;
}

#endif
