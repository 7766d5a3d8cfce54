/* emit_ladder.h: for people: what a benchmark reads by the size of memory it works on. */
#ifndef FLEET_EMIT_LADDER_H
#define FLEET_EMIT_LADDER_H

#include "plan.h"
#include "text.h"

/*
 * Adds the ladder of a choice: a row for each size, a column for each of its other parameters.
 * First the plateaus, the median of the sizes that lie well within a cache or well outside all.
 * found: ns a unit of each visit, 0 where there is none; of CPUs that are visited alike the median.
 */
void ladder_add(struct text *page, const struct plan *plan, const struct choice *choice,
		const double *found);

#endif
