/* core_loops.h: the frame of the loops that hand a line over, chase addresses and add. For
 * native/<arch>.c only, which defines POINTER, the constraint of a register that may hold an
 * address; COUNT, of one that is counted down, if it is another; LINE, the operand of a line that
 * is handed over; and AGAIN, which counts n down and goes back to label 1 until it is 0. */
#ifndef FLEET_CORE_LOOPS_H
#define FLEET_CORE_LOOPS_H

#include "native.h"

#ifndef COUNT
#define COUNT POINTER
#endif
#ifndef SEEN
#define SEEN COUNT /* the constraint of a register for what a swap saw */
#endif

#ifndef STATUS
#define STATUS , [status] "=&r"(status) /* whether a conditional store failed */
#endif

/* One statement: no compiler flag can put an instruction between a failed swap and the next. */
#define CAS(name, loop)                                                                            \
	TIMED void name(uint32_t *line, uint32_t from, uint32_t to, uint32_t n)                    \
	{                                                                                          \
		uint32_t seen, status;                                                             \
                                                                                                   \
		__asm__ volatile(".p2align 5\n1:\n\t" loop "\n\t" AGAIN                            \
				 : [line] LINE(line), [seen] "=&" SEEN(seen),                      \
				   [status] "=&r"(status), [n] "+&" COUNT(n)                       \
				 : [from] COUNT(from), [to] COUNT(to)                              \
				 : "memory", "cc");                                                \
	}

/* `from` and `to` are 0 or 1, and change by turns. */
#define READWRITE(name, loop)                                                                      \
	TIMED void name(uint32_t *watched, uint32_t *written, uint32_t from, uint32_t to,          \
			uint32_t n)                                                                \
	{                                                                                          \
		uint32_t seen;                                                                     \
                                                                                                   \
		__asm__ volatile(".p2align 5\n1:\n\t" loop "\n\t" AGAIN                            \
				 : [watched] LINE(watched), [written] LINE(written),               \
				   [seen] "=&" COUNT(seen), [from] "+&" COUNT(from),               \
				   [to] "+&" COUNT(to), [n] "+&" COUNT(n)                          \
				 :                                                                 \
				 : "memory", "cc");                                                \
	}

/* See add_fn and put_fn. */
#define ADD_ONE(name, loop)                                                                        \
	TIMED uint32_t name(uint32_t *word, uint32_t n)                                            \
	{                                                                                          \
		uint32_t seen, next, status = 0, tries = 0;                                        \
                                                                                                   \
		(void)status;                                                                      \
		__asm__ volatile(                                                                  \
			".p2align 5\n1:\n\t" loop "\n\t" AGAIN                                     \
			: [word] LINE(word), [seen] "=&" SEEN(seen), [next] "=&" COUNT(next),      \
			  [tries] "+&" COUNT(tries), [n] "+&" COUNT(n) STATUS                      \
			:                                                                          \
			: "memory", "cc");                                                         \
		return tries;                                                                      \
	}
#define PUT(name, loop)                                                                            \
	TIMED uint32_t name(uint32_t *word, uint32_t value, uint32_t n)                            \
	{                                                                                          \
		uint32_t seen, status = 0, sum = 0;                                                \
                                                                                                   \
		(void)status;                                                                      \
		__asm__ volatile(                                                                  \
			".p2align 5\n1:\n\t" loop "\n\t" AGAIN                                     \
			: [word] LINE(word), [seen] "=&" SEEN(seen), [value] "+&" COUNT(value),    \
			  [sum] "+&" COUNT(sum), [n] "+&" COUNT(n) STATUS                          \
			:                                                                          \
			: "memory", "cc");                                                         \
		return sum;                                                                        \
	}

#define SIXTEEN(text) ".p2align 5\n1:\n\t.rept 16\n\t" text "\n\t.endr\n\t"

/* The next load waits for the value of the one before: no other instruction is in the chain. */
#define CHASE(name, load)                                                                          \
	TIMED void *name(void *line, uint32_t n)                                                   \
	{                                                                                          \
		__asm__ volatile(SIXTEEN(load) AGAIN                                               \
				 : [line] "+&" POINTER(line), [n] "+&" COUNT(n)                    \
				 :                                                                 \
				 : "memory", "cc");                                                \
		return line;                                                                       \
	}

/* Additions of two registers, counted down by 16 a turn. */
#define ADDS(name, add, count_down)                                                                \
	static void name(uint32_t n)                                                               \
	{                                                                                          \
		uintptr_t sum = n, step = n;                                                       \
                                                                                                   \
		__asm__ volatile(SIXTEEN(add) count_down                                           \
				 : [sum] "+&r"(sum), [n] "+&r"(n)                                  \
				 : [step] "r"(step)                                                \
				 : "cc");                                                          \
	}

#endif
