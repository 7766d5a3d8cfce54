/* forecast.c: see forecast.h. */
#include "forecast.h"

#include "stop.h"

#include <inttypes.h>
#include <string.h>

void forecast_use(struct forecast *forecast, const struct plan *plan,
		  const struct clock_facts *clock, const struct trial *trial,
		  const struct visit *visit)
{
	double sample_s =
		trial->grain_ticks * visit->iterations / (double)clock->clock.ticks_per_second;
	double burst_s = (double)trial->overhead_ns / 1e9 + sample_s * plan_samples(plan, visit);
	double trial_s = plan->iterations ? 0 : (double)trial->spent_ns / 1e9;

	forecast->visit_s = trial_s + burst_s * plan->rounds_wanted;
}

void forecast_add(struct forecast *forecast)
{
	forecast->total_s += forecast->visit_s;
}

/* A time as a person says it. */
static void say_time(double seconds, char *text, size_t room)
{
	if (seconds < 1)
		snprintf(text, room, "less than a second");
	else if (seconds < 120)
		snprintf(text, room, "%.0f s", seconds);
	else if (seconds < 7200)
		snprintf(text, room, "%.0f min", seconds / 60);
	else
		snprintf(text, room, "%.1f h", seconds / 3600);
}

/* The time that all rounds may take; 0: no more than the least rounds. */
static double budget_of(const struct plan *plan, double least_s)
{
	if (!plan->precision_ppm)
		return 0;
	if (plan->time_budget_ns)
		return (double)plan->time_budget_ns / (double)NS_PER_S;
	return 2 * least_s > 20 ? 2 * least_s : 20;
}

/* How many rounds fit into the time budget, and no more than are wanted; one at least. */
static uint32_t rounds_in(const struct forecast *forecast, const struct plan *plan, double budget_s)
{
	double fit = forecast->total_s > 0 ? budget_s / forecast->total_s * plan->rounds_wanted
					   : plan->rounds_wanted;

	if (fit >= plan->rounds_wanted || plan->rounds == plan->rounds_wanted)
		return plan->rounds_wanted;
	return fit < plan->rounds ? plan->rounds : (uint32_t)fit;
}

void forecast_tell(const struct forecast *forecast, const struct plan *plan, char *text,
		   size_t room)
{
	double spread_s = (double)plan->spread_ns / (double)NS_PER_S;
	double wanted_s = forecast->total_s > spread_s ? forecast->total_s : spread_s;
	double budget_s = budget_of(plan, wanted_s);
	uint32_t rounds = rounds_in(forecast, plan, budget_s);
	double least_s = wanted_s * rounds / plan->rounds_wanted;
	char time[32];

	say_time(least_s, time, sizeof time);
	snprintf(text, room, "Expected: %" PRIu32 " round%s of %zu burst%s, %s%s.", rounds,
		 rounds == 1 ? "" : "s", plan->visit_count, plan->visit_count == 1 ? "" : "s",
		 least_s < 1 ? "" : "about ", time);
	if (!plan->precision_ppm)
		return;
	size_t used = strlen(text) - 1;

	if (rounds < plan->rounds_wanted) {
		snprintf(text + used, room - used,
			 "; the time budget does not allow %" PRIu32 " rounds.",
			 plan->rounds_wanted);
		return;
	}
	say_time(budget_s > least_s ? budget_s : least_s, time, sizeof time);
	snprintf(text + used, room - used, "; up to %s where more rounds are needed.", time);
}
