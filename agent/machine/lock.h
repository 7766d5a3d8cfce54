/* lock.h: one agent at a time on a machine. */
#ifndef FLEET_MACHINE_LOCK_H
#define FLEET_MACHINE_LOCK_H

#include "base/refuse.h"

/* Takes the machine's lock for `text`, "RUN WHO", and holds it until the process ends; null: does
 * nothing. Asks an older agent of the same run to end first. Refuses with EXIT_LOCKED, naming the
 * holder. If no lock can be had at all, adds a note and succeeds. */
int lock_machine(const char *text, struct notes *notes, struct refusal *refusal);

#endif
