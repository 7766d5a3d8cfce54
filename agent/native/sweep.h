/* sweep.h: the frame of the loops that go through memory. For native/<arch>_stream.c only, which
 * defines POINTER, the constraint of a register that may hold an address, and CHANGED, the
 * registers that its loops change.
 *
 * What the loops of all architectures have in common: a turn moves 128 to 512 bytes; loads go to
 * rotating registers, and nothing is done with what they bring. What is stored is the address of
 * the turn's first line, so that no two turns store alike: hardware treats lines of zeros, and may
 * treat lines that do not change, apart. Extensions are never asked of the compiler, and what a CPU
 * lacks is never run: os_features(). */
#ifndef FLEET_SWEEP_H
#define FLEET_SWEEP_H

#include "native.h"

/* The same instruction for i = 0 ... 7. */
#define EACH(text) ".irp i, 0,1,2,3,4,5,6,7\n\t" text "\n\t.endr\n\t"

/* A loop: takes `at`, and in a copy `from`, through the bytes, all in one statement. */
#define SWEEP(name, loop)                                                                          \
	TIMED char *name(char *at, const char *from, size_t bytes)                                 \
	{                                                                                          \
		__asm__ volatile(loop                                                              \
				 : [at] "+&" POINTER(at), [from] "+&" POINTER(from)                \
				 : [end] POINTER(at + bytes)                                       \
				 : "memory", CHANGED);                                             \
		return at;                                                                         \
	}

/* The loops of one way through memory, for the table; the second with those past the caches. */
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
