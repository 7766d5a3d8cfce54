/* rounds.h: when a round begins, which visits it makes, and when the last round is made. */
#ifndef FLEET_RUN_ROUNDS_H
#define FLEET_RUN_ROUNDS_H

#include "emit/report.h"
#include "run/history.h"

/* Why a run ended whose first round the time budget cut. */
#define BUDGET_REASON "time budget"

struct rounds {
	const struct run *run;
	struct totals *totals;
	int64_t begun_ns; /* when the present round began; 0: none has */
	int64_t until_ns; /* when the time budget ends; 0: not known yet */
};

/* Waits until the round may begin, calling `idle`. Returns false if there is no such round, or the
 * run must end. */
bool rounds_begin(struct rounds *rounds, uint32_t round, void (*idle)(void));

/* Reports whether this round makes the visit, and the time budget has room for it. */
bool rounds_is_visit_due(const struct rounds *rounds, const struct history *history,
			 uint32_t round);

/* Finds the main level of each visit, and counts the visits known to the precision. */
void rounds_find_levels(const struct run *run, struct totals *totals);

/* Adds the points that the first round did not reach, or that are given up, each with the number of
 * its visits. Returns how many visits these are. */
size_t rounds_add_unreached(const struct run *run, bool given_up, struct text *text);

#endif
