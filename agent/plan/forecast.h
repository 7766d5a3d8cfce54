/* forecast.h: how many rounds a plan will make, and about how long they and their bursts take. */
#ifndef FLEET_PLAN_FORECAST_H
#define FLEET_PLAN_FORECAST_H

#include "base/text.h"
#include "plan/plan.h"

struct forecast {
	double once_s;          /* trials before the first bursts */
	double round_s;         /* the bursts of a round, and writing the memory they work on */
	uint32_t rounds;        /* at least, as the time budget allows */
	double least_s, most_s; /* of these rounds; and with all that may follow for precision */
};

/* Forecasts a plan by what bursts usually cost. */
struct forecast forecast_estimate(const struct plan *plan);

/* Works out the rounds and the time of all from `once_s` and `round_s`. */
void forecast_complete(struct forecast *forecast, const struct plan *plan);

/* Refuses, with -1, a plan of which a round takes longer than the time budget; else returns 0. */
int forecast_check(const struct forecast *forecast, const struct plan *plan,
		   struct refusal *refusal);

/* Returns after how many seconds an agent should end by itself if nobody says when. */
double forecast_deadline_s(const struct forecast *forecast);

/* Adds what the time budget leaves out, in words; nothing where it leaves out nothing. */
void forecast_add_left_out(struct text *text, const struct forecast *forecast,
			   const struct plan *plan);

/* Adds the sentence that is printed before the first burst. */
void forecast_add_sentence(struct text *text, const struct forecast *forecast,
			   const struct plan *plan);

/* Returns how many times as long a visit takes where a quota of CPU time stops its threads. */
double cost_quota_factor(const struct plan *plan, const struct visit *visit);

/* Returns the largest of these of all visits. */
double cost_most_quota_factor(const struct plan *plan);

/* Returns the seconds of a burst. */
double cost_burst_s(const struct plan *plan, const struct visit *visit);

/* Returns the seconds of a first burst at each point. */
double cost_first_bursts_s(const struct plan *plan);

/* The cost of visits: their trials, and a round of their bursts with writing their memory. */
struct cost {
	size_t visits;
	double once_s, round_s;
};

/* Estimates the cost of one choice of the plan; null: of all. */
struct cost cost_estimate(const struct plan *plan, const struct choice *choice);

#endif
