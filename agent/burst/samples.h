/* samples.h: what each thread of a burst does; false: it was told to leave. */
#ifndef FLEET_BURST_SAMPLES_H
#define FLEET_BURST_SAMPLES_H

#include "burst/worker.h"

bool worker_given_up(const struct burst *burst);

/* Waits at the next gate until all have come to it. */
bool worker_meet(struct worker *worker);

/* Does n units. */
bool worker_work(struct worker *worker, uint64_t n);

/* All samples of the order; without stamps: the same work. */
bool worker_take(struct worker *worker);

/* The trial of a burst, if there is one: ping judges while all others wait. Who hands on lines then
 * begins anew with a turn that is not timed. */
bool worker_try_out(struct worker *worker);

#endif
