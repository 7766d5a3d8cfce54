/* machine.h: what programs need to know of this machine; --machine prints it for the controller.
 */
#ifndef FLEET_MACHINE_H
#define FLEET_MACHINE_H

#include "native/native.h"

#include <stddef.h>

/* Has a thread on this CPU ask what it is; what cannot be found is UNKNOWN. */
int machine_describe(int cpu, struct cpu_facts *facts);

/* Prints the records of docs/wire.md, "The machine". -ENOTSUP where the OS tells nothing. */
int machine_print(const int *cpus, size_t count);

#endif
