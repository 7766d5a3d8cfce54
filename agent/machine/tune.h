/* tune.h: settings of the machine, changed for the time of a run and put back however it ends.
 *
 * A process of its own, the guardian, holds the old values and one end of a pipe. When the other
 * end closes, because we say so, were killed, or crashed, it puts them back and ends. */
#ifndef FLEET_MACHINE_TUNE_H
#define FLEET_MACHINE_TUNE_H

#include "base/refuse.h"

#include <stddef.h>

/* What is wanted; null: left as it is. */
struct tuning {
	const char *governor; /* of these CPUs */
	const char *boost;    /* "on" or "off" */
	const int *cpus;
	size_t cpu_count;
};

/* Changes what is wanted, and notes it, or puts all back and refuses. Before any thread starts. */
int tune_apply(const struct tuning *tuning, struct notes *notes, struct refusal *refusal);

/* Puts everything back, and waits until it is; -EIO if something would not go back. */
int tune_restore(void);

#endif
