/* attempt.h: trying instructions that a CPU seems to have, before anything depends on them. */
#ifndef FLEET_ATTEMPT_H
#define FLEET_ATTEMPT_H

#include "bench.h"

/*
 * Runs the variant once in a child process: it dies of instructions that an emulator or a
 * hypervisor lacks although it reports them. To be called while there is no other thread.
 */
bool attempt_survives(const struct benchmark *benchmark, const struct variant *variant);

#endif
