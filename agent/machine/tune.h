/* tune.h: settings of the machine, changed for the time of a run and put back however it ends.
 *
 * A process of its own, the guardian, holds the old values and one end of a pipe. When the other
 * end closes, because we say so, were killed, or crashed, it puts them back and ends. */
#ifndef FLEET_MACHINE_TUNE_H
#define FLEET_MACHINE_TUNE_H

#include "base/refuse.h"

#include <stddef.h>

/* The settings wanted; null: left as they are. */
struct tuning {
	const char *governor; /* governor of the CPUs below */
	const char *boost;    /* "on" or "off" */
	const int *cpus;
	size_t cpu_count;
};

/* Changes the settings wanted and notes it; returns 0. If one fails, restores all, refuses and
 * returns -1. Called before any thread starts. */
int tune_apply(const struct tuning *tuning, struct notes *notes, struct refusal *refusal);

/* Restores all settings and waits until that is done; -EIO if one could not be restored. */
int tune_restore(void);

#endif
