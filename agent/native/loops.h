/* loops.h: the frames of an architecture's timed loops, for native/<arch>.c only, which defines
 * first:
 *
 * POINTER        the constraint of a register that may hold an address
 * COUNT          that of a register that is counted down, if it is another
 * SEEN           that of a register for what a swap saw, if it is another
 * LINE           the operand of a line that is handed over
 * WORD           the operand of a word that is received
 * AGAIN          counts n down, and goes back to label 1 until it is 0
 * LINE_CLOBBERS, SWEEP_CLOBBERS
 *                the registers that loops over single lines change, and those through memory
 * SUM, ADD, COPY, NEXT_LINE, NEXT_PAGE, IF_BELOW
 *                add, copy, move by a line or a page, and compare addresses */
#ifndef FLEET_LOOPS_H
#define FLEET_LOOPS_H

#include "native.h"

#ifndef BLOCKS_END
#define BLOCKS_END "r" /* the constraint of where blocks end */
#endif
#ifndef ADD
#define ADD(to, by) SUM(to, to, by)
#endif
#ifndef BEFORE_PAGES
#define BEFORE_PAGES
#endif

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

/* `from` and `to` are each 0 or 1; both change to the other value in each turn. */
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

/* ---- loops over single lines */

/* One instruction for each of the eight double words of a line of 64 bytes. */
#define EACH_WORD(text) ".irp at, 0,8,16,24,32,40,48,56\n\t" text "\n\t.endr"

/* A load and a branch on its value. The barriers in the clock keep a reading behind both. */
#define RECEIVE(name, loop)                                                                        \
	TIMED uintptr_t name(const uintptr_t *word, uintptr_t old)                                 \
	{                                                                                          \
		uintptr_t seen;                                                                    \
                                                                                                   \
		__asm__ volatile(".p2align 5\n1:\n\t" loop                                         \
				 : [seen] "=&r"(seen)                                              \
				 : [word] WORD, [old] "r"(old)                                     \
				 : "memory", LINE_CLOBBERS);                                       \
		return seen;                                                                       \
	}

/* `line` goes through a page; `cursor` is where the next page begins. `touch` loads from a line, or
 * stores the line's address to its second word; `wait` waits at the end for all of them. */
#define GO_BY_PAGES(name, touch, wait)                                                             \
	TIMED char *name(char *cursor, size_t stride, const char *end)                             \
	{                                                                                          \
		char *line;                                                                        \
		uintptr_t word;                                                                    \
                                                                                                   \
		__asm__ volatile(".p2align 5\n" BEFORE_PAGES                                       \
				 "1:\n\t" SUM("line", "cursor", "stride") NEXT_PAGE                \
				 "2:\n\t" touch "\n\t" ADD("line", "stride")                       \
					 IF_BELOW("line", "cursor", "2b")                          \
						 IF_BELOW("cursor", "end", "1b") wait              \
				 : [cursor] "+&" POINTER(cursor), [line] "=&" POINTER(line),       \
				   [word] "=&r"(word)                                              \
				 : [stride] POINTER(stride), [end] "r"(end)                        \
				 : "memory", LINE_CLOBBERS);                                       \
		return cursor;                                                                     \
	}

/* Defines arch_flush: `drop` writes back and drops one line after the other, `wait` waits for
 * all. */
#define FLUSH(name, drop, wait)                                                                    \
	static void name(char *cursor, size_t bytes, size_t step)                                  \
	{                                                                                          \
		for (char *line = cursor; line < cursor + bytes; line += step)                     \
			__asm__ volatile(drop : : "r"(line) : "memory");                           \
		__asm__ volatile(wait : : : "memory", LINE_CLOBBERS);                              \
	}                                                                                          \
	flush_fn *const arch_flush = name;

/* Goes from line to line, n times: `next` is the address read from a line, which is taken for
 * writing. */
#define SWAP(name, loop)                                                                           \
	TIMED void *name(void *line, uint32_t n)                                                   \
	{                                                                                          \
		uintptr_t next, failed;                                                            \
                                                                                                   \
		__asm__ volatile(".p2align 5\n1:\n\t" loop "\n\t" AGAIN                            \
				 : [line] "+&" POINTER(line), [next] "=&r"(next),                  \
				   [failed] "=&r"(failed), [n] "+&" POINTER(n)                     \
				 :                                                                 \
				 : "memory", LINE_CLOBBERS);                                       \
		return line;                                                                       \
	}

/* `line` goes through a block; `store` fills each line with its own address. `wait` stands for
 * instructions that wait for the stores, if those need any. */
#define BLOCK(store)                                                                               \
	COPY("line", "cursor")                                                                     \
	SUM("stop", "cursor", "block")                                                             \
	"2:\n\t" store "\n\t" NEXT_LINE IF_BELOW("line", "stop", "2b") ADD("cursor", "step")
#define GO_BY_BLOCKS_THEN(name, wait, store)                                                       \
	TIMED char *name(char *cursor, size_t block, size_t step, const char *end)                 \
	{                                                                                          \
		char *line, *stop;                                                                 \
                                                                                                   \
		__asm__ volatile(".p2align 5\n1:\n\t" BLOCK(store) IF_BELOW("cursor", "end", "1b") \
					 wait                                                      \
				 : [cursor] "+&" POINTER(cursor), [line] "=&" POINTER(line),       \
				   [stop] "=&" POINTER(stop)                                       \
				 : [block] POINTER(block), [step] "r"(step), [end] BLOCKS_END(end) \
				 : "memory", LINE_CLOBBERS);                                       \
		return cursor;                                                                     \
	}
#define GO_BY_BLOCKS(name, store) GO_BY_BLOCKS_THEN(name, "", store)

/* ---- loops through memory
 *
 * A turn moves 128 to 512 bytes. Loads go to rotating registers, and nothing is done with what they
 * bring. A store writes the address of the turn's first line: no two turns store alike, and none
 * stores zeros, which hardware treats apart. From the second pass on a line is overwritten with
 * what it holds. The compiler is never asked for an extension, and what a CPU lacks is never run:
 * os_features(). */

/* One instruction for each i = 0 ... 7. */
#define EACH(text) ".irp i, 0,1,2,3,4,5,6,7\n\t" text "\n\t.endr\n\t"

/* Defines a stream_fn: one statement whose `loop` moves `cursor`, and in a copy `from`, to the
 * end. */
#define SWEEP(name, loop)                                                                          \
	TIMED char *name(char *cursor, const char *from, size_t bytes)                             \
	{                                                                                          \
		__asm__ volatile(loop                                                              \
				 : [cursor] "+&" POINTER(cursor), [from] "+&" POINTER(from)        \
				 : [end] POINTER(cursor + bytes)                                   \
				 : "memory", SWEEP_CLOBBERS);                                      \
		return cursor;                                                                     \
	}

/* The loops of one way through memory, for a variant; LOOPS_AND_NT has those past the caches,
 * too. */
#define LOOPS(arch, way)                                                                           \
	{                                                                                          \
		[OPERATION_READ] = arch##_read_##way, [OPERATION_WRITE] = arch##_write_##way,      \
		[OPERATION_MODIFY] = arch##_modify_##way, [OPERATION_COPY] = arch##_copy_##way     \
	}
#define LOOPS_AND_NT(arch, way)                                                                    \
	{                                                                                          \
		[OPERATION_READ] = arch##_read_##way, [OPERATION_WRITE] = arch##_write_##way,      \
		[OPERATION_NT] = arch##_nt_##way, [OPERATION_MODIFY] = arch##_modify_##way,        \
		[OPERATION_COPY] = arch##_copy_##way, [OPERATION_NTCOPY] = arch##_ntcopy_##way     \
	}

#endif
