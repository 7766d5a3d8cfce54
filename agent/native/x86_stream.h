/* x86_stream.h: loops of vectors, and of one instruction. For native/{x86_64,i386}_stream.c. */
#ifndef FLEET_X86_STREAM_H
#define FLEET_X86_STREAM_H

#include "sweep.h"

/* One pointer, compared with the end. */
#define LOOP(bytes, turn)                                                                          \
	".p2align 6\n"                                                                             \
	"1:\n\t" turn "add $" #bytes ", %[at]\n\t"                                                 \
	"cmp %[end], %[at]\n\t"                                                                    \
	"jb 1b\n\t"

/* The same with a second pointer that runs along. */
#define LOOP_FROM(bytes, turn) LOOP(bytes, turn "add $" #bytes ", %[from]\n\t")

/* Eight vectors a turn, moved by `mov` with its ending; `address` puts that into register 0. */
#define VECTOR_LOOPS(arch, name, bytes, width, vector, mov, address)                               \
	SWEEP(arch##_read_##name, LOOP(bytes, EACH(mov "aps " AT(width, "at") ", " vector "\\i"))) \
	SWEEP(arch##_write_##name,                                                                 \
	      LOOP(bytes, address EACH(mov "aps " vector "0, " AT(width, "at"))))                  \
	SWEEP(arch##_nt_##name,                                                                    \
	      LOOP(bytes, address EACH(mov "ntps " vector "0, " AT(width, "at"))))                 \
	SWEEP(arch##_copy_##name,                                                                  \
	      LOOP_FROM(bytes, EACH(mov "aps " AT(width, "from") ", " vector "\\i")                \
				       EACH(mov "aps " vector "\\i, " AT(width, "at"))))           \
	SWEEP(arch##_ntcopy_##name,                                                                \
	      LOOP_FROM(bytes, EACH(mov "aps " AT(width, "from") ", " vector "\\i")                \
				       EACH(mov "ntps " vector "\\i, " AT(width, "at"))))
#define AT(width, base) "\\i*" width "(%[" base "])"

/* A byte of the address, never 0. */
TIMED char *x86_write_stosb(char *at, const char *from, size_t bytes)
{
	(void)from;
	__asm__ volatile("rep stosb"
			 : "+D"(at), "+c"(bytes)
			 : "a"((uintptr_t)at >> 12 | 1)
			 : "memory");
	return at;
}

TIMED char *x86_zero_stosb(char *at, const char *from, size_t bytes)
{
	(void)from;
	__asm__ volatile("rep stosb" : "+D"(at), "+c"(bytes) : "a"(0) : "memory");
	return at;
}

TIMED char *x86_copy_movsb(char *at, const char *from, size_t bytes)
{
	__asm__ volatile("rep movsb" : "+D"(at), "+S"(from), "+c"(bytes) : : "memory");
	return at;
}

#endif
