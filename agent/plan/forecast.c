/* forecast.c: see forecast.h. What bursts cost is of a virtual machine with two CPUs. */
#include "plan/forecast.h"

#include "base/stop.h"

#include <inttypes.h>
#include <string.h>

/* ---- of bursts ------------------------------------------------------------------------------- */

/* Seconds of a burst beside its samples; more for each byte that one of its threads works on; and
 * for each unit of a sample whose length the user chose, or of a trial. */
static const struct usual {
	const char *name; /* of a benchmark, which this agent may lack */
	double burst_s, byte_s, unit_s;
} costs[] = {
	{"chase", 0.0006, 1.0e-9, 3e-9},   {"bandwidth", 0.0003, 4.0e-10, 4e-11},
	{"loaded", 0.0006, 1.0e-10, 1e-7}, {"gemm", 0.0018, 1.2e-10, 2e-11},
	{"interleave", 0.0005, 0, 4e-11},  {"clock", 0.0005, 0, 2e-8},
	{NULL, 0.0005, 0, 2e-7},
};

enum { TRIAL_SAMPLES = 4 }; /* at most */

static const double thread_s = 5e-5, written_byte_s = 1.5e-9;

static const struct usual *usual_cost(const struct benchmark *benchmark)
{
	const struct usual *usual = costs;

	while (usual->name && !bench_has_name(benchmark, usual->name))
		usual++;
	return usual;
}

/* Returns the seconds of a sample of so many grains; 0 grains: as long as the benchmark wants. */
static double estimate_sample_s(const struct visit *visit, uint32_t grains)
{
	const struct benchmark *benchmark = visit->choice->benchmark;

	if (!grains || benchmark->single)
		return benchmark->sample_us * 1e-6;
	return grains * usual_cost(benchmark)->unit_s *
	       (double)bench_units_in_grain(benchmark, plan_visit_point(visit));
}

double cost_quota_factor(const struct plan *plan, const struct visit *visit)
{
	bool is_pair = visit->choice->benchmark->shape == SHAPE_PAIR;
	double busy = plan_visit_point(visit)->threads, cpus = plan->machine->limits.cpus;

	busy = busy ? busy : 1 + is_pair;
	return cpus && busy > cpus ? busy / cpus : 1;
}

double cost_burst_s(const struct plan *plan, const struct visit *visit)
{
	const struct usual *usual = usual_cost(visit->choice->benchmark);
	const struct point *point = plan_visit_point(visit);

	return cost_quota_factor(plan, visit) *
	       (usual->burst_s + usual->byte_s * (double)point->bytes + point->threads * thread_s +
		plan_sample_count(plan, false) * estimate_sample_s(visit, plan->iterations));
}

/* Returns the seconds of a trial: a few samples of the fewest grains. */
static double cost_trial_s(const struct plan *plan, const struct visit *visit)
{
	const struct benchmark *benchmark = visit->choice->benchmark;
	bool given = benchmark->single ? !benchmark->make_ready : plan->iterations;

	return given ? 0
		     : cost_quota_factor(plan, visit) * TRIAL_SAMPLES *
			       estimate_sample_s(visit, benchmark->least);
}

/* Returns a visit at the point, which stands for all of them: they cost alike, and there may be ten
 * million in a plan. Null: there is none. */
static const struct visit *find_visit_at(const struct plan *plan, const struct point *point)
{
	return point->visit_count ? &plan->visits[point->first_visit] : NULL;
}

double cost_most_quota_factor(const struct plan *plan)
{
	double most = 1;

	for (size_t i = 0; i < plan->choice_count; i++)
		for (size_t p = 0; p < plan->choices[i].point_count; p++) {
			const struct visit *visit =
				find_visit_at(plan, &plan->choices[i].points[p]);
			double factor = visit ? cost_quota_factor(plan, visit) : 1;

			most = factor > most ? factor : most;
		}
	return most;
}

double cost_first_bursts_s(const struct plan *plan)
{
	double total_s = 0;

	for (size_t i = 0; i < plan->choice_count; i++)
		for (size_t p = 0; p < plan->choices[i].point_count; p++) {
			const struct visit *visit =
				find_visit_at(plan, &plan->choices[i].points[p]);

			if (visit)
				total_s += cost_burst_s(plan, visit);
		}
	return total_s;
}

/* Returns the seconds in which the memory of a visit's threads is written, once a round. */
static double cost_writing_s(const struct plan *plan, const struct visit *visit)
{
	const struct point *point = plan_visit_point(visit);
	double bytes = (double)point->arena_bytes +
		       (double)point_arena_bytes(point, 1) * (point->threads - 1);

	if (point->memory_node != NO_NODE)
		bytes *= (double)plan->node_count;
	return bytes * cost_quota_factor(plan, visit) * written_byte_s;
}

/* Adds the visits of a choice, but for writing memory. Returns the seconds of its longest writing.
 */
static double add_choice_cost(struct cost *cost, const struct plan *plan,
			      const struct choice *choice)
{
	double writing_s = 0;

	for (size_t p = 0; p < choice->point_count; p++) {
		const struct visit *visit = find_visit_at(plan, &choice->points[p]);
		size_t visits = choice->points[p].visit_count;

		if (!visit)
			continue;
		double own_s = cost_writing_s(plan, visit);

		writing_s = own_s > writing_s ? own_s : writing_s;
		cost->visits += visits;
		cost->round_s += (double)visits * cost_burst_s(plan, visit);
		cost->once_s += (double)visits * cost_trial_s(plan, visit);
	}
	return writing_s;
}

struct cost cost_estimate(const struct plan *plan, const struct choice *choice)
{
	struct cost cost = {0};
	double writing_s = 0;

	for (size_t i = 0; i < plan->choice_count; i++) {
		if (choice && choice != &plan->choices[i])
			continue;
		double own_s = add_choice_cost(&cost, plan, &plan->choices[i]);

		writing_s = own_s > writing_s ? own_s : writing_s;
	}
	cost.round_s += writing_s;
	return cost;
}

/* ---- of rounds ------------------------------------------------------------------------------- */

static double to_seconds(int64_t ns)
{
	return (double)ns / (double)NS_PER_S;
}

/* Returns the seconds of so many rounds; a round lasts at least until the next may begin. */
static double estimate_rounds_s(const struct forecast *forecast, const struct plan *plan,
				uint32_t rounds)
{
	double gap_s = to_seconds(plan_round_interval_ns(plan)),
	       pause_s = gap_s - forecast->round_s;

	return forecast->once_s + rounds * forecast->round_s +
	       (pause_s > 0 ? pause_s * (rounds - 1) : 0);
}

/* Returns how many wanted rounds fit into the time budget; at least the minimum. */
static uint32_t count_rounds_in_budget(const struct forecast *forecast, const struct plan *plan)
{
	double gap_s = to_seconds(plan_round_interval_ns(plan)),
	       each_s = gap_s > forecast->round_s ? gap_s : forecast->round_s,
	       first_s = forecast->once_s + forecast->round_s,
	       fit = 1 + (to_seconds(plan_least_budget_ns(plan)) - first_s) / each_s;

	if (fit >= plan->rounds_wanted)
		return plan->rounds_wanted;
	return fit < plan->rounds ? plan->rounds : (uint32_t)fit;
}

/* Returns the time budget, which has room for rounds_usual rounds unless it was asked for. */
static double choose_budget_s(const struct forecast *forecast, const struct plan *plan)
{
	double times = (double)plan->rounds_usual / forecast->rounds,
	       usual_s = forecast->least_s * times,
	       least_s = to_seconds(plan_least_budget_ns(plan));

	return !plan->time_budget_ns && usual_s > least_s ? usual_s : least_s;
}

void forecast_complete(struct forecast *forecast, const struct plan *plan)
{
	forecast->rounds = count_rounds_in_budget(forecast, plan);
	forecast->least_s = estimate_rounds_s(forecast, plan, forecast->rounds);
	forecast->most_s = plan->precision_ppm ? choose_budget_s(forecast, plan) : 0;
	if (forecast->most_s < forecast->least_s)
		forecast->most_s = forecast->least_s;
}

struct forecast forecast_estimate(const struct plan *plan)
{
	const struct cost cost = cost_estimate(plan, NULL);
	struct forecast forecast = {.once_s = cost.once_s, .round_s = cost.round_s};

	forecast_complete(&forecast, plan);
	return forecast;
}

double forecast_deadline_s(const struct forecast *forecast)
{
	double deadline_s = 600 + 5 * forecast->most_s;

	return deadline_s < SECONDS_MOST ? deadline_s : SECONDS_MOST;
}

static void add_duration(struct text *text, double duration_s)
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

static void add_about_duration(struct text *text, double duration_s)
{
	text_add(text, duration_s < 1 ? "" : "about ");
	add_duration(text, duration_s);
}

int forecast_check(const struct forecast *forecast, const struct plan *plan,
		   struct refusal *refusal)
{
	const char *limit = plan->machine->limits.cpu_time;
	struct text needed = {0}, allowed = {0};

	if (!plan->budget_ends ||
	    forecast->once_s + forecast->round_s <= to_seconds(plan->time_budget_ns))
		return 0;
	add_about_duration(&needed, forecast->once_s + forecast->round_s);
	add_duration(&allowed, to_seconds(plan->time_budget_ns));
	refuse(refusal, EXIT_OPTIONS,
	       "one round of %zu bursts takes %s%s%s, and the time budget allows %s: a longer "
	       "--time-budget, fewer benchmarks, --pairs and --cpus help",
	       plan->visit_count, needed.data, *limit ? " with the CPU time of " : "", limit,
	       allowed.data);
	text_free(&needed);
	text_free(&allowed);
	return -1;
}

void forecast_add_left_out(struct text *text, const struct forecast *forecast,
			   const struct plan *plan)
{
	static const char *const points[] = {
		[SPARED_FIRST] = "plateaus only", [SPARED_MEMORY] = "plateaus of the caches only"};
	bool fewer = plan->budget_ends && forecast->rounds < plan->rounds_wanted;

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
	add_about_duration(text, forecast->least_s);
	if (plan->budget_ends && forecast->rounds < plan->rounds_wanted) {
		text_add(text, "; the time budget does not allow %" PRIu32 " rounds",
			 plan->rounds_wanted);
	} else if (forecast->most_s > forecast->least_s) {
		text_add(text, "; up to ");
		add_duration(text, forecast->most_s);
		text_add(text, " where more rounds are needed");
	}
	text_add(text, ".");
}
