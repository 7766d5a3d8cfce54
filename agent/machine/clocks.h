/* clocks.h: choosing the clock, and finding out how good it is. */
#ifndef FLEET_MACHINE_CLOCKS_H
#define FLEET_MACHINE_CLOCKS_H

#include "native/native.h"

#include <stdbool.h>

struct clock_facts {
	struct clock clock;     /* ticks_per_second is known here */
	uint64_t cost_ticks;    /* median of back-to-back readings; 0: less than a tick */
	uint64_t least_ticks;   /* smallest non-zero step seen: a reading's cost, if that is more */
	bool rate_checked;      /* the stated rate was held against the OS's clock */
	int64_t rate_error_ppm; /* how much faster the clock runs than stated, in millionths */
};

/* A rate error above this means that one of the two clocks is wrong. */
enum { RATE_ERROR_PPM_MOST = 1000 };

/* Chooses the CPU's counter, or else the OS's clock, and measures it on `cpu`, in about a twentieth
 * of a second. `why_not`: what is wrong with the counter, which is then not used; null: nothing
 * known. Returns 0 or -errno; -ERANGE: the clock does not move. */
int clock_choose(int cpu, const char *why_not, struct clock_facts *facts);

/* Reports whether another CPU's counter differs from the first CPU's by more than a line takes
 * between them, so that a message would arrive before it was sent. *other: that CPU. Takes some
 * tenth of a millisecond for each CPU. */
bool clock_is_unsynchronized(const struct clock *clock, const int *cpus, size_t count, int *other);

#endif
