/* cost.h: about how long bursts take, before the first is made. */
#ifndef FLEET_PLAN_COST_H
#define FLEET_PLAN_COST_H

#include "plan/plan.h"

/* How many times as long it takes where a quota of CPU time stops its threads. */
double cost_stretch(const struct plan *plan, const struct visit *visit);

/* Seconds of a burst. */
double cost_burst_s(const struct plan *plan, const struct visit *visit);

/* Seconds of trials before the first bursts, one visit to each point. */
double cost_points_s(const struct plan *plan);

/* Of all visits: of their trials, and of a burst each with writing the memory they work on. */
struct cost {
	size_t visits;
	double once_s, round_s;
};

/* Of one choice of the plan, or of all: null. */
struct cost cost_of(const struct plan *plan, const struct choice *choice);

#endif
