/* samples.h: the steps of a burst's threads. They return false if the thread was told to leave. */
#ifndef FLEET_BURST_SAMPLES_H
#define FLEET_BURST_SAMPLES_H

#include "burst/worker.h"

bool burst_is_given_up(const struct burst *burst);

/* Waits at the next gate until all have come to it. */
bool worker_wait_for_all(struct worker *worker);

/* Does n units of the benchmark's work. */
bool worker_do_units(struct worker *worker, uint64_t n);

/* Takes all samples of the order; a thread without stamps only does their work. */
bool worker_take_samples(struct worker *worker);

/* Makes the trial of a burst, if it has one; ping evaluates it while the others wait. Threads that
 * hand on lines then do one turn that is not timed. */
bool worker_run_trial(struct worker *worker);

#endif
