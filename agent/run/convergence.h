/* convergence.h: how well each pair is known in the end, and what would help the others. */
#ifndef FLEET_RUN_CONVERGENCE_H
#define FLEET_RUN_CONVERGENCE_H

#include "run/schedule.h"

/* Counts visits known to the precision, and those with several levels; finds the worst known. */
void convergence_count(const struct run *run, struct totals *totals);

/* Notes which visits are known less well than wanted, why, and what would help. */
void convergence_note(const struct schedule *schedule);

#endif
