/* budget.h: what a time budget leaves out, what is measured first, and what was not reached. */
#ifndef FLEET_BUDGET_H
#define FLEET_BUDGET_H

#include "plan.h"
#include "text.h"

/* Why a run ended whose first round the time budget cut. */
#define BUDGET_REASON "time budget"

/* About how long a burst takes, by the memory that it works on. */
double budget_burst_s(const struct visit *visit);

/* The same of one visit to each point: trials before the first bursts take as long. */
double budget_points_s(const struct plan *plan);

/*
 * Finds out which points of a ladder can be spared, and drops those that the time budget has no
 * room for: sizes between the levels of memory first, then those in memory. By the options and the
 * machine alone, so that an agent that continues a run comes to the same points. The visits must
 * have been made, and are made anew.
 */
int budget_shorten(struct plan *plan, const struct options *options, struct notes *notes,
		   struct refusal *refusal);

/* Puts the visits of the first round in order: what can be spared last, small sizes first. */
int budget_order(struct plan *plan);

/* How many visits the first round did not reach. */
size_t budget_unreached(const struct plan *plan);

/* Names them, each point once with the number of its visits. */
void budget_name_unreached(const struct plan *plan, struct text *text);

#endif
