/* forecast.c: see forecast.h. */
#include "plan/forecast.h"

#include "base/stop.h"
#include "plan/cost.h"

#include <inttypes.h>
#include <string.h>

static double seconds(int64_t ns)
{
	return (double)ns / (double)NS_PER_S;
}

/* A round never takes less than from its beginning to that of the next. */
static double rounds_s(const struct forecast *forecast, const struct plan *plan, uint32_t rounds)
{
	double gap_s = seconds(plan_gap_ns(plan)), pause_s = gap_s - forecast->round_s;

	return forecast->once_s + rounds * forecast->round_s +
	       (pause_s > 0 ? pause_s * (rounds - 1) : 0);
}

/* As many of those wanted as fit into a time budget that may end any of them; at least one. */
static uint32_t rounds_in(const struct forecast *forecast, const struct plan *plan)
{
	uint32_t rounds = plan->rounds_wanted;
	double fit = (seconds(plan->time_budget_ns) - forecast->once_s) / forecast->round_s;

	if (!plan->budget_ends || fit >= rounds)
		return rounds;
	return fit < 1 ? 1 : (uint32_t)fit;
}

static double budget_s(const struct forecast *forecast, const struct plan *plan)
{
	double usual_s = forecast->least_s * plan->rounds_usual / forecast->rounds;

	if (plan->time_budget_ns)
		return seconds(plan->time_budget_ns);
	return usual_s > BUDGET_USUAL_S ? usual_s : BUDGET_USUAL_S;
}

void forecast_complete(struct forecast *forecast, const struct plan *plan)
{
	forecast->rounds = rounds_in(forecast, plan);
	forecast->least_s = rounds_s(forecast, plan, forecast->rounds);
	forecast->most_s = plan->precision_ppm ? budget_s(forecast, plan) : 0;
	if (forecast->most_s < forecast->least_s)
		forecast->most_s = forecast->least_s;
}

struct forecast forecast_of(const struct plan *plan)
{
	const struct cost cost = cost_of(plan, NULL);
	struct forecast forecast = {.once_s = cost.once_s, .round_s = cost.round_s};

	forecast_complete(&forecast, plan);
	return forecast;
}

double forecast_deadline_s(const struct forecast *forecast)
{
	double deadline_s = 600 + 5 * forecast->most_s;

	return deadline_s < SECONDS_MOST ? deadline_s : SECONDS_MOST;
}

static void add_time(struct text *text, double duration_s)
{
	if (duration_s < 1)
		text_add(text, "less than a second");
	else if (duration_s < 120)
		text_add(text, "%.0f s", duration_s);
	else if (duration_s < 7200)
		text_add(text, "%.0f min", duration_s / 60);
	else
		text_add(text, "%.1f h", duration_s / 3600);
}

static void add_about(struct text *text, double duration_s)
{
	text_add(text, duration_s < 1 ? "" : "about ");
	add_time(text, duration_s);
}

int forecast_check(const struct forecast *forecast, const struct plan *plan,
		   struct refusal *refusal)
{
	const char *limit = plan->machine->limits.cpu_time;
	struct text took = {0}, allowed = {0};

	if (!plan->budget_ends ||
	    forecast->once_s + forecast->round_s <= seconds(plan->time_budget_ns))
		return 0;
	add_about(&took, forecast->once_s + forecast->round_s);
	add_time(&allowed, seconds(plan->time_budget_ns));
	refuse(refusal, EXIT_OPTIONS,
	       "one round of %zu bursts takes %s%s%s, and the time budget allows %s: a longer "
	       "--time-budget, fewer benchmarks, --pairs and --cpus help",
	       plan->visit_count, took.data, *limit ? " with the CPU time of " : "", limit,
	       allowed.data);
	text_free(&took);
	text_free(&allowed);
	return -1;
}

void forecast_add_left_out(struct text *text, const struct forecast *forecast,
			   const struct plan *plan)
{
	static const char *const points[] = {
		[SPARED_FIRST] = "plateaus only", [SPARED_MEMORY] = "plateaus of the caches only"};
	bool fewer = forecast->rounds < plan->rounds_wanted;

	if (fewer)
		text_add(text, "%" PRIu32 " of %" PRIu32 " rounds", forecast->rounds,
			 plan->rounds_wanted);
	if (plan->left_out)
		text_add(text, "%s%s", fewer ? ", " : "", points[plan->left_out]);
}

void forecast_add_sentence(struct text *text, const struct forecast *forecast,
			   const struct plan *plan)
{
	text_add(text, "Expected: %" PRIu32 " round%s of %zu burst%s, ", forecast->rounds,
		 forecast->rounds == 1 ? "" : "s", plan->visit_count,
		 plan->visit_count == 1 ? "" : "s");
	add_about(text, forecast->least_s);
	if (forecast->rounds < plan->rounds_wanted) {
		text_add(text, "; the time budget does not allow %" PRIu32 " rounds",
			 plan->rounds_wanted);
	} else if (plan->precision_ppm) {
		text_add(text, "; up to ");
		add_time(text, forecast->most_s);
		text_add(text, " where more rounds are needed");
	}
	text_add(text, ".");
}
