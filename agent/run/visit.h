/* visit.h: one visit: takes its burst, and reports it. */
#ifndef FLEET_RUN_VISIT_H
#define FLEET_RUN_VISIT_H

#include "run/again.h"
#include "run/rounds.h"

/* Prepares visits; called once before the first. */
void visit_begin_run(const struct run *run);

/* Gives the sign of life that docs/wire.md promises; one line does not spoil so long a burst. */
void visit_send_sign_of_life(void);

/* Measures how long a burst of this visit takes, by one with a trial and a single sample, which is
 * as long as the trial chooses or the person asked for. Returns false if the burst failed. */
bool visit_try(const struct run *run, struct history *history, struct random *random,
	       struct burst_result *result, double *trial_s, double *burst_s);

/* Takes one burst, reports it, and has it taken again if other work disturbed it. Returns false if
 * the run must end. */
bool visit_perform(struct run *run, struct attempt attempt, struct random *lines,
		   struct burst_result *result, struct totals *totals);

#endif
