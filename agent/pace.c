/* pace.c: rounds spread over time, and more of them for pairs that are not precise yet. */
#include "pace.h"

#include "precision.h"
#include "stop.h"

enum {
	FAILED_MOST = 3, /* bursts in a row without a number: no further round for this pair */
	BUDGET_USUAL_S = 20,
	BUDGET_USUAL_TIMES = 2, /* what the least rounds took */
};

static void note_failure(struct visit *visit)
{
	visit->failed_in_row += visit->failed_in_row < UINT8_MAX;
}

static void note_median(const struct plan *plan, struct visit *visit, double ticks)
{
	visit->failed_in_row = 0;
	if (plan->precision_ppm)
		tally_add(&visit->medians, ticks / visit->iterations);
}

/* Of a group ping's ticks stand for all. */
void pace_note(const struct plan *plan, struct visit *visit, const struct burst_result *result)
{
	static double values[SAMPLES_MAX];
	const struct benchmark *benchmark = visit->choice->benchmark;

	if (!result) {
		note_failure(visit);
		return;
	}
	uint32_t samples = plan_samples(plan, visit) - plan->warmup;
	size_t threads = benchmark->shape == SHAPE_PAIR ? result->timed : 1;

	for (uint32_t i = 0; i < samples; i++)
		values[i] = bench_sample(benchmark, result->ticks + plan->warmup + i, threads,
					 result->samples);
	note_median(plan, visit, plan->precision_ppm ? median(values, samples) : 0);
}

void pace_recall(const struct plan *plan, struct visit *visit, const uint64_t *twice_median)
{
	if (twice_median)
		note_median(plan, visit, (double)*twice_median / 2);
	else
		note_failure(visit);
	visit->done++;
}

bool pace_is_precise(const struct plan *plan, const struct visit *visit)
{
	return tally_is_precise(&visit->medians, plan->precision_ppm);
}

/* Does this round want it, as far as is known now? */
static bool wants(const struct plan *plan, const struct visit *visit, uint32_t round)
{
	return round < plan->rounds_wanted ||
	       (visit->failed_in_row < FAILED_MOST && !pace_is_precise(plan, visit));
}

bool pace_visits(const struct plan *plan, const struct visit *visit, uint32_t round)
{
	return round >= visit->done && wants(plan, visit, round);
}

uint32_t pace_first(const struct plan *plan)
{
	uint32_t first = plan->rounds_max;

	for (size_t i = 0; i < plan->visit_count; i++) {
		const struct visit *visit = &plan->visits[i];

		if (visit->done < first && wants(plan, visit, visit->done))
			first = visit->done;
	}
	return first;
}

static bool any_visit(const struct plan *plan, uint32_t round)
{
	for (size_t i = 0; i < plan->visit_count; i++)
		if (pace_visits(plan, &plan->visits[i], round))
			return true;
	return false;
}

/* From the beginning of one round to that of the next, at least. */
static int64_t gap_ns(const struct plan *plan)
{
	return plan->spread_ns / (plan->rounds_wanted > 1 ? plan->rounds_wanted - 1 : 1);
}

static int64_t budget_end_ns(const struct run *run)
{
	int64_t usual_ns = BUDGET_USUAL_TIMES * (now_ns() - run->start_ns);

	if (run->plan->time_budget_ns)
		return run->start_ns + run->plan->time_budget_ns;
	if (usual_ns < BUDGET_USUAL_S * NS_PER_S)
		usual_ns = BUDGET_USUAL_S * NS_PER_S;
	return run->start_ns + usual_ns;
}

static bool wait_until(int64_t moment_ns, void (*idle)(void))
{
	while (now_ns() < moment_ns) {
		int64_t look_ns = now_ns() + NS_PER_S;

		if (stop_wait(-1, 0, look_ns < moment_ns ? look_ns : moment_ns) == WAIT_STOP)
			return false;
		idle();
	}
	return true;
}

bool pace_begin(struct pace *pace, const struct run *run, uint32_t round, void (*idle)(void))
{
	const struct plan *plan = run->plan;
	int64_t begin_ns = pace->round_ns ? pace->round_ns + gap_ns(plan) : now_ns();

	if (round >= plan->rounds && !pace->until_ns)
		pace->until_ns = budget_end_ns(run);
	if (round >= plan->rounds_max || !any_visit(plan, round) ||
	    (round >= plan->rounds && begin_ns >= pace->until_ns))
		return false;
	if (!wait_until(begin_ns, idle))
		return false;
	pace->round_ns = now_ns();
	return true;
}

bool pace_is_over(const struct pace *pace, const struct plan *plan, uint32_t round)
{
	return round >= plan->rounds && now_ns() >= pace->until_ns;
}
