/* rounds.h: what is known of each visit, when a round begins, and when the last one is made. */
#ifndef FLEET_RUN_ROUNDS_H
#define FLEET_RUN_ROUNDS_H

#include "emit/report.h"

/* Why a run ended whose first round the time budget cut. */
#define BUDGET_REASON "time budget"

/* What is known of a visit; there may be a million of these. */
struct history {
	const struct visit *visit;
	float *ns;           /* what the burst of each round took; or NO_VALUE */
	uint32_t rounds;     /* so many are in the list */
	uint32_t iterations; /* grains in a sample; 0: still to be chosen */
	uint32_t done;       /* so many rounds an earlier agent has made, from the first on */
	float took_s;        /* its last burst, with trials; 0: not made by this agent */
	bool slow;           /* a single grain takes long: few samples do */
	bool given_up;       /* an agent was killed there, or at one like it */
};

/* Units in a sample; 0: still to be chosen. */
uint64_t history_units(const struct history *history);

/* Notes what the burst of a round took; rounds before it that have none took NO_VALUE. */
void history_note(struct history *history, uint32_t round, double ns);

struct rounds {
	const struct run *run;
	struct totals *totals;
	int64_t begun_ns; /* when the present round began; 0: none has */
	int64_t until_ns; /* when the time budget ends; 0: not known yet */
};

/* Waits until the round may begin, calling `idle`; false: there is none, or the run must end. */
bool rounds_begin(struct rounds *rounds, uint32_t round, void (*idle)(void));

/* Is this round to visit it, and has the time budget room for that? */
bool rounds_visit(const struct rounds *rounds, const struct history *history, uint32_t round);

/* Finds the level of each visit, and counts those known to the precision. */
void rounds_judge(const struct run *run, struct totals *totals);

/* Adds the points that the first round did not reach, or that are given up, each with the number of
 * its visits, and returns how many visits these are. */
size_t rounds_add_unreached(const struct run *run, bool given_up, struct text *text);

#endif
