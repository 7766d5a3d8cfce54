/* machine.h: what only a program is told of this machine; --machine prints it for the controller.
 */
#ifndef FLEET_MACHINE_H
#define FLEET_MACHINE_H

#include <stddef.h>

/* Prints the records of docs/wire.md, "The machine". -ENOTSUP where the OS leaves it to files. */
int machine_print(const int *cpus, size_t count);

#endif
