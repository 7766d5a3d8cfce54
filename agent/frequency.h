/* frequency.h: how fast a core runs, by additions of which each needs the one before. */
#ifndef FLEET_FREQUENCY_H
#define FLEET_FREQUENCY_H

#include "native/native.h"

#include <stddef.h>
#include <stdint.h>

/* MHz of the calling thread's core just now; 0 where an addition may take more than a cycle. */
uint32_t frequency_now(const struct clock *clock);

/* MHz of each CPU, one after the other, when it has been busy for a moment; 0 where not known. */
void frequency_of_cpus(const struct clock *clock, const int *cpus, size_t count, uint32_t *mhz);

#endif
