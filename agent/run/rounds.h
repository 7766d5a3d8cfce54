/* rounds.h: what is known of each visit, which visits a round makes, when the run has enough. */
#ifndef FLEET_RUN_ROUNDS_H
#define FLEET_RUN_ROUNDS_H

#include "emit/report.h"

/* Why a run ended, if the time budget cut its first round short. */
#define BUDGET_REASON "time budget"

/* What the agent knows of one visit; a plan may have a million. */
struct history {
	const struct visit *visit;
	uint32_t iterations; /* grains in a sample; 0: not chosen yet */
	uint32_t done;       /* rounds that an earlier agent made, from the first on */
	float took_s;  /* duration of its last burst, with trials; 0: not made by this agent */
	bool slow;     /* a single grain takes long: few samples are enough */
	bool given_up; /* an agent was killed during it, or during one like it */
};

struct rounds {
	struct run *run;
	struct totals *totals;
	int64_t begun_ns; /* when the present round began; 0: none has */
	int64_t until_ns; /* when the time budget ends; 0: not known yet */
};

/* Returns the units in a sample; 0: not chosen yet. */
uint64_t history_sample_units(const struct history *history);

/* Notes the median sample of a round's burst, in ns. */
void rounds_store_median(struct run *run, const struct history *history, uint32_t round, double ns);

/* Waits until the round may begin, calling `idle`. Returns false if there is no such round, or the
 * run must end. */
bool rounds_begin(struct rounds *rounds, uint32_t round, void (*idle)(void));

/* Fixes when the time budget ends; called once after the last round. */
void rounds_end(struct rounds *rounds);

/* Reports whether this round makes the visit, and the time budget has room for it. */
bool rounds_is_visit_due(const struct rounds *rounds, const struct history *history,
			 uint32_t round);

/* Reports whether a burst of this visit may be taken again: it is not given up, and there is time:
 * the time budget may last a tenth longer for that. */
bool rounds_may_take_again(const struct rounds *rounds, const struct history *history);

/* Finds the main level of each visit, and counts the visits known to the precision. */
void rounds_find_levels(const struct run *run, struct totals *totals);

/* Adds the points that the first round did not reach, or that are given up, each with the number of
 * its visits. Returns how many visits these are. */
size_t rounds_add_unreached(const struct run *run, bool given_up, struct text *text);

#endif
