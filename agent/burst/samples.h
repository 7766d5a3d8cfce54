/* samples.h: what each thread of a burst does; false: it was told to leave. */
#ifndef FLEET_BURST_SAMPLES_H
#define FLEET_BURST_SAMPLES_H

#include "burst/worker.h"

bool burst_is_given_up(const struct burst *burst);

/* Waits at the next gate until all have come to it. */
bool worker_wait_for_all(struct worker *worker);

/* Does n units. */
bool worker_do_units(struct worker *worker, uint64_t n);

/* All samples of the order; without stamps: the same work. */
bool worker_take_samples(struct worker *worker);

/* The trial of a burst, if there is one: ping judges while all others wait. Who hands on lines then
 * begins anew with a turn that is not timed. */
bool worker_hold_trial(struct worker *worker);

#endif
