/* history.h: what is known of a visit from its bursts so far. */
#ifndef FLEET_RUN_HISTORY_H
#define FLEET_RUN_HISTORY_H

#include "base/levels.h"
#include "emit/report.h"

/* A visit whose precision is out of reach is measured to so many times it. */
#define HISTORY_FAIR 2.5

enum {
	HISTORY_MOST = 1000,  /* medians of a visit; what comes later changes little */
	HISTORY_TELLING = 60, /* bursts that show what differs by a factor to be levels */
};

/* There may be a million of these, so what is remembered must stay small. */
struct history {
	const struct visit *visit;
	uint32_t iterations;   /* grains in a sample; 0: still to be chosen */
	uint32_t done;         /* so many rounds an earlier agent has made, from the first on */
	uint32_t kept;         /* bursts that gave a median */
	uint32_t rounds, room; /* of medians */
	float *medians;        /* of rounds, in ticks a grain, or NO_VALUE; for a precision */
	float took_s;          /* its last burst, with trials; 0: not made by this agent */
	uint16_t needed;       /* bursts that the precision takes, judged by those so far */
	uint16_t needed_fair;  /* and 2.5 times it */
	uint16_t least_fair;   /* the minimum for that, if bursts were independent */
	uint8_t failed_in_row; /* bursts without a number since the last with one; does not wrap */
	uint8_t levels;        /* it is at so many; 0: not known yet */
	bool fresh;            /* there are bursts that were not judged yet */
	bool mixed;            /* bursts of its level differ by a factor */
	bool slow;             /* a single grain takes long: few samples do */
	bool precise;          /* its level is known to the precision wanted */
	bool settled;          /* and was so a burst ago: what one shows may be luck */
	bool fair;             /* and to 2.5 times it */
	bool left_out;         /* not visited any more: the time budget had no room for it, */
	bool given_up;         /* or an agent was killed there, or at one like it */
};

/* One for each visit of the plan, in their order, of which nothing is known; null: no memory. */
struct history *history_start(const struct plan *plan);

void history_free(const struct plan *plan, struct history *histories);

/* Units in a sample; 0: still to be chosen. */
uint64_t history_units(const struct history *history);

/* Remembers the median of a round's burst, or that there was none. */
void history_note(const struct plan *plan, struct history *history, uint32_t round,
		  const struct burst_result *result);

/* Remembers what an earlier agent found: twice its median in ticks; null where there was none. */
void history_recall(const struct plan *plan, struct history *history, const uint64_t *twice_median);

/* Judges how well visits with new bursts are known, calling `idle` now and then. */
void history_judge(const struct plan *plan, struct history *histories, void (*idle)(void));

/* The level that most bursts of a visit are at, in ticks a grain; some burst must be kept. */
struct level history_level(const struct plan *plan, const struct history *histories,
			   const struct history *history);

/* Takes over what an earlier agent measured from the file of --done, whose format docs/wire.md has.
 * Nothing is measured yet. */
int done_take(struct run *run, const char *path, struct refusal *refusal);

#endif
