/*
 * line_loops.h: the frame of the loops that read and write single lines. For native/<arch>_lines.c
 * only, which defines POINTER, the constraint of a register that may hold an address; CHANGED, the
 * registers that its loops change; WORD, the operand of the word that is received; AGAIN as in
 * core_loops.h; and how addresses are added, copied, moved by a line and a page, compared. */
#ifndef FLEET_LINE_LOOPS_H
#define FLEET_LINE_LOOPS_H

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

/* The same instruction for the eight double words of a line of 64 bytes. */
#define EACH_WORD(text) ".irp at, 0,8,16,24,32,40,48,56\n\t" text "\n\t.endr"

/* A load and a branch on what it brought: the clock's barriers hold back its reading. */
#define RECEIVE(name, loop)                                                                        \
	TIMED uintptr_t name(const uintptr_t *word, uintptr_t old)                                 \
	{                                                                                          \
		uintptr_t seen;                                                                    \
                                                                                                   \
		__asm__ volatile(".p2align 5\n1:\n\t" loop                                         \
				 : [seen] "=&r"(seen)                                              \
				 : [word] WORD, [old] "r"(old)                                     \
				 : "memory", CHANGED);                                             \
		return seen;                                                                       \
	}

/* `line` goes through a page, `at` is where the next begins. What touches a line: a load, or a
 * store of its address to its second word. The end waits for all of them. */
#define GO_BY_PAGES(name, touch, wait)                                                             \
	TIMED char *name(char *at, size_t stride, const char *end)                                 \
	{                                                                                          \
		char *line;                                                                        \
		uintptr_t word;                                                                    \
                                                                                                   \
		__asm__ volatile(                                                                  \
			".p2align 5\n" BEFORE_PAGES "1:\n\t" SUM("line", "at", "stride") NEXT_PAGE \
			"2:\n\t" touch "\n\t" ADD("line", "stride") IF_BELOW("line", "at", "2b")   \
				IF_BELOW("at", "end", "1b") wait                                   \
			: [at] "+&" POINTER(at), [line] "=&" POINTER(line), [word] "=&r"(word)     \
			: [stride] POINTER(stride), [end] "r"(end)                                 \
			: "memory", CHANGED);                                                      \
		return at;                                                                         \
	}

/* Writes back and drops a line after the other, and waits for all of them. */
#define FLUSH(name, drop, wait)                                                                    \
	static void name(char *at, size_t bytes, size_t step)                                      \
	{                                                                                          \
		for (char *line = at; line < at + bytes; line += step)                             \
			__asm__ volatile(drop : : "r"(line) : "memory");                           \
		__asm__ volatile(wait : : : "memory", CHANGED);                                    \
	}                                                                                          \
	flush_fn *const arch_flush = name;

/* Goes from line to line, n times: `next` is what stands in one, which is taken for writing. */
#define SWAP(name, loop)                                                                           \
	TIMED void *name(void *line, uint32_t n)                                                   \
	{                                                                                          \
		uintptr_t next, failed;                                                            \
                                                                                                   \
		__asm__ volatile(".p2align 5\n1:\n\t" loop "\n\t" AGAIN                            \
				 : [line] "+&" POINTER(line), [next] "=&r"(next),                  \
				   [failed] "=&r"(failed), [n] "+&" POINTER(n)                     \
				 :                                                                 \
				 : "memory", CHANGED);                                             \
		return line;                                                                       \
	}

/* `line` goes through a block, in which all of each line takes its address. Then instructions that
 * wait for the stores, if those want any. */
#define BLOCK(store)                                                                               \
	COPY("line", "at")                                                                         \
	SUM("stop", "at", "block")                                                                 \
	"2:\n\t" store "\n\t" NEXT_LINE IF_BELOW("line", "stop", "2b") ADD("at", "step")
#define GO_BY_BLOCKS_THEN(name, wait, store)                                                       \
	TIMED char *name(char *at, size_t block, size_t step, const char *end)                     \
	{                                                                                          \
		char *line, *stop;                                                                 \
                                                                                                   \
		__asm__ volatile(".p2align 5\n1:\n\t" BLOCK(store) IF_BELOW("at", "end", "1b")     \
					 wait                                                      \
				 : [at] "+&" POINTER(at), [line] "=&" POINTER(line),               \
				   [stop] "=&" POINTER(stop)                                       \
				 : [block] POINTER(block), [step] "r"(step), [end] BLOCKS_END(end) \
				 : "memory", CHANGED);                                             \
		return at;                                                                         \
	}
#define GO_BY_BLOCKS(name, store) GO_BY_BLOCKS_THEN(name, "", store)

#endif
