/* reached.h: how well each pair is known in the end, and what would help those known less well. */
#ifndef FLEET_REACHED_H
#define FLEET_REACHED_H

#include "pace.h"
#include "run.h"

/* Counts visits known to the precision, and those with several levels; finds the worst known. */
void reached_count(const struct plan *plan, struct totals *totals);

/* Notes which visits are known less well than wanted, why, and what would help. */
void reached_note(const struct run *run, const struct pace *pace, const struct totals *totals);

#endif
