/*
 * sweep.h: the frame of the loops that go through memory. For native/<arch>_stream.c only, which
 * defines POINTER, the constraint of a register that may hold an address, and CHANGED, the
 * registers that its loops change.
 *
 * What the loops of all architectures have in common: a turn moves 128 to 512 bytes; loads go to
 * rotating registers, and nothing is done with what they bring. What is stored is the address of
 * the turn's first line, so that no two turns store alike: hardware treats lines of zeros, and may
 * treat lines that do not change, apart. Extensions are never asked of the compiler, and what a CPU
 * lacks is never run: os_features().
 */
#ifndef FLEET_SWEEP_H
#define FLEET_SWEEP_H

#include "native.h"

/* A function with a name of its own in the binary, whatever the compiler would make of it. */
#define SWEEP static __attribute__((noinline)) char *

/* The same instruction for i = 0 ... 7. */
#define EACH(text) ".irp i, 0,1,2,3,4,5,6,7\n\t" text "\n\t.endr\n\t"

/* Takes `at`, and in a copy `from`, through the bytes; all in one statement. */
#define GO_THROUGH(loop)                                                                           \
	__asm__ volatile(loop                                                                      \
			 : [at] "+&" POINTER(at), [from] "+&" POINTER(from)                        \
			 : [end] POINTER(at + bytes)                                               \
			 : "memory", CHANGED)

#endif
