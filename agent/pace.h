/* pace.h: when a round may begin, and which visits it still needs. */
#ifndef FLEET_PACE_H
#define FLEET_PACE_H

#include "burst.h"
#include "levels.h"
#include "run.h"

/* Remembers a burst's median, or that there was none. */
void pace_note(const struct plan *plan, struct visit *visit, const struct burst_result *result);

/* Remembers what an earlier agent found: twice its median in ticks, or null where there was none.
 */
void pace_recall(const struct plan *plan, struct visit *visit, const uint64_t *twice_median);

/* A visit whose precision is out of reach is measured to so many times it. */
#define PACE_FAIR 2.5

enum { PACE_KEPT_MOST = 1000 }; /* medians of a visit; what comes later changes little */

struct pace {
	int64_t round_ns;     /* when the present round began; 0: none has */
	int64_t last_ns;      /* how long the last round took, without a pause; 0: not known */
	int64_t length_ns;    /* how long one takes */
	int64_t until_ns;     /* no burst beyond the least rounds begins later; 0: not yet known */
	uint32_t rounds_left; /* that may begin until then with the pauses of the least rounds */
	uint32_t rounds_most; /* and with the shortest pauses */
};

/*
 * Will more rounds not help? Either the precision is out of reach and the visit known fairly well,
 * or fairly well is out of reach too, even if bursts were independent.
 */
bool pace_gives_up(const struct pace *pace, const struct visit *visit);

/* How long a round takes with the pauses of the least rounds. */
int64_t pace_round_ns(const struct pace *pace, const struct plan *plan);

/* The level that most bursts of a visit are at, in ticks a grain; some burst must be kept. */
struct level pace_level(const struct visit *visit);

/*
 * Does this round visit it, unless an earlier agent has? All pairs are visited at least
 * plan->rounds times, and plan->rounds_wanted times if the time budget allows.
 */
bool pace_visits(const struct pace *pace, const struct plan *plan, const struct visit *visit,
		 uint32_t round);

/* The first round that visits anything; plan->rounds_max if none does. */
uint32_t pace_first(struct pace *pace, const struct run *run);

/*
 * Waits until the round may begin, calling `idle` now and then; false if there is none, or an order
 * to end has come.
 */
bool pace_begin(struct pace *pace, const struct run *run, uint32_t round, void (*idle)(void));

/* Does the time budget have room for one more burst of this visit? */
bool pace_has_room(const struct pace *pace, const struct plan *plan, const struct visit *visit,
		   uint32_t round);

#endif
