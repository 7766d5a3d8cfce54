/* convergence.h: how well each pair is known in the end, what would help the others, and which
 * visits were not made. */
#ifndef FLEET_RUN_CONVERGENCE_H
#define FLEET_RUN_CONVERGENCE_H

#include "run/schedule.h"

/* Counts visits known to the precision, and those with several levels; finds the worst known. */
void convergence_count(const struct run *run, struct totals *totals);

/* Notes which visits are known less well than wanted, why, and what would help. */
void convergence_note(const struct schedule *schedule);

/* How many visits the first round did not reach, or are given up. */
size_t unreached_count(const struct run *run, bool given_up);

/* Names them, each point once with the number of its visits. */
void unreached_name(const struct run *run, bool given_up, struct text *text);

#endif
