/* account.h: how long a thread was without its CPU. */
#ifndef FLEET_MACHINE_ACCOUNT_H
#define FLEET_MACHINE_ACCOUNT_H

#include <stdint.h>

/* The CPU time of a thread and the time at which it was read. */
struct account {
	int64_t ran_ns, at_ns;
};

/* Returns how long the calling thread was without its CPU since *last, and replaces *last. */
int64_t account_measure_lost_ns(struct account *last);

#endif
