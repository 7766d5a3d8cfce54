/* lock.h: one agent at a time on a machine. */
#ifndef FLEET_MACHINE_LOCK_H
#define FLEET_MACHINE_LOCK_H

#include "base/refuse.h"

/* Takes the machine's lock for `text`, "RUN WHO", and holds it until the process ends, however it
 * ends; null: does nothing. An older agent of the same run is asked to end first. Refuses with
 * EXIT_LOCKED, naming the holder; where no lock can be had at all, that is noted and no failure. */
int lock_machine(const char *text, struct notes *notes, struct refusal *refusal);

#endif
