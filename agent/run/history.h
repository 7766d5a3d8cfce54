/* history.h: what the agent knows of each visit. */
#ifndef FLEET_RUN_HISTORY_H
#define FLEET_RUN_HISTORY_H

#include "emit/report.h"

/* What the agent knows of one visit; a plan may have a million. */
struct history {
	const struct visit *visit;
	float *ns;           /* by round: the burst's median sample in ns, or NO_VALUE */
	uint32_t rounds;     /* length of ns */
	uint32_t iterations; /* grains in a sample; 0: not chosen yet */
	uint32_t done;       /* rounds that an earlier agent made, from the first on */
	float took_s;  /* duration of its last burst, with trials; 0: not made by this agent */
	bool slow;     /* a single grain takes long: few samples do */
	bool given_up; /* an agent was killed during it, or during one like it */
};

/* Returns the units in a sample; 0: not chosen yet. */
uint64_t history_sample_units(const struct history *history);

/* Notes the median sample of a round's burst, in ns. Rounds before it without one get NO_VALUE. */
void history_note_burst(struct history *history, uint32_t round, double ns);

/* Lengthens the list to `rounds` rounds, with NO_VALUE. Returns false if memory runs out. */
bool history_extend(struct history *history, uint32_t rounds);

#endif
