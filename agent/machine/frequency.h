/* frequency.h: how fast a core runs, by additions of which each needs the one before. */
#ifndef FLEET_MACHINE_FREQUENCY_H
#define FLEET_MACHINE_FREQUENCY_H

#include "native/native.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Measures the MHz of the calling thread's core; 0 where an addition may take more than a cycle. */
uint32_t frequency_measure(const struct clock *clock);

/* A run of additions, and the cycles that timing it takes beside them. */
struct additions {
	uint32_t adds;
	double overhead_cycles;
};

/* Prepares measuring after samples. Returns false if additions may take over a cycle, or the clock
 * is too coarse. */
bool frequency_calibrate_brief(const struct clock *clock, struct additions *additions);

/* Measures the MHz of the calling thread's core in what it did just before, by a run of additions
 * so short that the core stays as it was and busy units do not go to sleep. */
double frequency_measure_brief(const struct clock *clock, const struct additions *additions);

/* Measures the MHz of each CPU in turn, once it has been busy for a moment; 0 where not known. */
void frequency_measure_cpus(const struct clock *clock, const int *cpus, size_t count,
			    uint32_t *mhz);

#endif
