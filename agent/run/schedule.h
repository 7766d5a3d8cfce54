/* schedule.h: when a round may begin, and which visits it still needs. */
#ifndef FLEET_RUN_SCHEDULE_H
#define FLEET_RUN_SCHEDULE_H

#include "run/history.h"

/* Why a run ended whose first round the time budget cut. */
#define BUDGET_REASON "time budget"

struct schedule {
	const struct run *run;
	uint32_t *order;   /* of the visits in the present round */
	int64_t round_ns;  /* when the present round began; 0: none has */
	int64_t last_ns;   /* how long the last round took, without a pause; 0: not known */
	int64_t length_ns; /* how long one takes */
	int64_t until_ns;  /* no burst beyond the minimum rounds begins later; 0: not yet known */
	uint64_t rounds_most; /* that may begin until then with the shortest pauses */
	bool first_wanted;    /* a visit that is read first wants this round */
};

/* How long a round takes with the pauses of the minimum rounds. */
int64_t schedule_round_ns(const struct schedule *schedule);

/* Does this round visit it, unless an earlier agent has? All pairs are visited at least
 * plan->rounds times, and plan->rounds_wanted times if the time budget allows. */
bool schedule_visits(const struct schedule *schedule, const struct history *history,
		     uint32_t round);

/* The first round that visits anything; plan->rounds_max if none does. */
uint32_t schedule_first(struct schedule *schedule);

/* Waits until the round may begin, calling `idle`; false: there is none, or the run must end. */
bool schedule_begin(struct schedule *schedule, uint32_t round, void (*idle)(void));

/* Does the time budget have room for one more burst of this visit? */
bool schedule_has_room(const struct schedule *schedule, const struct history *history,
		       uint32_t round);

#endif
