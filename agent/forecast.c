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

	forecast->visit_s = trial_s + burst_s * plan->rounds;
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

void forecast_tell(const struct forecast *forecast, const struct plan *plan, char *text,
		   size_t room)
{
	double spread_s = (double)plan->spread_ns / (double)NS_PER_S;
	double least_s = forecast->total_s > spread_s ? forecast->total_s : spread_s;
	char time[32];

	say_time(least_s, time, sizeof time);
	snprintf(text, room, "Expected: %" PRIu32 " round%s of %zu burst%s, %s%s.", plan->rounds,
		 plan->rounds == 1 ? "" : "s", plan->visit_count, plan->visit_count == 1 ? "" : "s",
		 least_s < 1 ? "" : "about ", time);
	if (!plan->precision_ppm)
		return;
	double budget_s = plan->time_budget_ns ? (double)plan->time_budget_ns / (double)NS_PER_S
			  : 2 * least_s > 20   ? 2 * least_s
					       : 20;
	size_t used = strlen(text) - 1;

	say_time(budget_s > least_s ? budget_s : least_s, time, sizeof time);
	snprintf(text + used, room - used, "; up to %s where more rounds are needed.", time);
}
