/* pace.c: rounds spread over time, and more of them for pairs that are not precise yet. */
#include "pace.h"

#include "budget.h"
#include "levels.h"
#include "stop.h"

#include <stdlib.h>

enum {
	FAILED_MOST = 3, /* bursts in a row without a number: no further round for this pair */
	BUDGET_USUAL_S = 20,
	BUDGET_USUAL_TIMES = 2, /* what the least rounds took */
	KEPT_MOST = 1000,       /* medians of a visit; what comes later changes little */
};

#define Z95 1.959964

static void note_failure(struct visit *visit)
{
	visit->failed_in_row += visit->failed_in_row < UINT8_MAX;
}

static bool keep(const struct plan *plan, struct visit *visit, double value)
{
	if (visit->kept == visit->room) {
		uint32_t room = visit->room ? 2 * visit->room : plan->rounds_wanted;
		float *more;

		room = room > KEPT_MOST ? KEPT_MOST : room;
		more = realloc(visit->medians, room * sizeof *more);
		if (!more) {
			stop_because("out of memory");
			return false;
		}
		visit->medians = more;
		visit->room = room;
	}
	visit->medians[visit->kept++] = (float)value;
	return true;
}

/* How well is the level known that most of its bursts are at? */
static void judge(const struct plan *plan, struct visit *visit)
{
	static double values[KEPT_MOST], work[KEPT_MOST];

	for (uint32_t i = 0; i < visit->kept; i++)
		values[i] = visit->medians[i];
	struct level level = level_of_most(values, work, visit->kept);
	const struct interval interval = level.interval;
	double allowed = interval.mean * plan->precision_ppm / 1e6;
	bool known = interval.half_squared >= 0;
	double needed = Z95 * Z95 * interval.variance / (allowed * allowed);

	visit->levels = (uint8_t)level.levels;
	visit->precise = known && interval.half_squared <= allowed * allowed;
	allowed *= PACE_FAIR;
	visit->fair = known && interval.half_squared <= allowed * allowed;
	needed = needed * visit->kept / interval.count;
	visit->needed = known && needed < UINT32_MAX ? (uint32_t)needed : UINT32_MAX;
}

static void note_median(const struct plan *plan, struct visit *visit, double ticks)
{
	visit->failed_in_row = 0;
	if (plan->precision_ppm && visit->kept < KEPT_MOST &&
	    keep(plan, visit, ticks / visit->iterations))
		judge(plan, visit);
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

bool pace_gives_up(const struct pace *pace, const struct visit *visit)
{
	return visit->fair && !visit->precise && visit->needed > visit->kept &&
	       visit->needed - visit->kept > pace->rounds_left;
}

/* Does this round want it, as far as is known now? */
static bool wants(const struct pace *pace, const struct plan *plan, const struct visit *visit,
		  uint32_t round)
{
	return round < plan->rounds_wanted || (visit->failed_in_row < FAILED_MOST &&
					       !visit->precise && !pace_gives_up(pace, visit));
}

bool pace_visits(const struct pace *pace, const struct plan *plan, const struct visit *visit,
		 uint32_t round)
{
	return round >= visit->done && !visit->left_out && wants(pace, plan, visit, round);
}

static bool any_visit(const struct pace *pace, const struct plan *plan, uint32_t round)
{
	for (size_t i = 0; i < plan->visit_count; i++)
		if (pace_visits(pace, plan, &plan->visits[i], round))
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

/* How many rounds begin from now on until the budget ends. */
static uint32_t rounds_left(const struct pace *pace, const struct plan *plan, int64_t until_ns)
{
	int64_t left_ns = until_ns - now_ns(), gap = gap_ns(plan);
	int64_t each_ns = pace->length_ns > gap ? pace->length_ns : gap;

	if (left_ns <= 0)
		return 0;
	return each_ns && left_ns / each_ns < UINT32_MAX ? (uint32_t)(left_ns / each_ns)
							 : UINT32_MAX;
}

uint32_t pace_first(struct pace *pace, const struct run *run)
{
	const struct plan *plan = run->plan;
	uint32_t first = plan->rounds_max;

	pace->rounds_left = rounds_left(pace, plan, budget_end_ns(run));
	for (size_t i = 0; i < plan->visit_count; i++) {
		const struct visit *visit = &plan->visits[i];

		if (visit->done < first && wants(pace, plan, visit, visit->done))
			first = visit->done;
	}
	return first;
}

/* May the time budget end this round? */
static bool has_budget(const struct plan *plan, uint32_t round)
{
	return plan->budget_ends || round >= plan->rounds;
}

bool pace_begin(struct pace *pace, const struct run *run, uint32_t round, void (*idle)(void))
{
	const struct plan *plan = run->plan;
	int64_t begin_ns = pace->round_ns ? pace->round_ns + gap_ns(plan) : now_ns();

	if (has_budget(plan, round) && !pace->until_ns)
		pace->until_ns = budget_end_ns(run);
	if (pace->until_ns)
		pace->rounds_left = rounds_left(pace, plan, pace->until_ns);
	if (round >= plan->rounds_max || !any_visit(pace, plan, round) ||
	    (round >= plan->rounds && begin_ns >= pace->until_ns))
		return false;
	if (!wait_until(begin_ns, idle))
		return false;
	pace->length_ns = pace->round_ns ? now_ns() - pace->round_ns : 0;
	pace->round_ns = now_ns();
	return true;
}

bool pace_has_room(const struct pace *pace, const struct plan *plan, const struct visit *visit,
		   uint32_t round)
{
	double burst_s = visit->took_s > 0 ? visit->took_s : budget_burst_s(visit);

	return !has_budget(plan, round) ||
	       now_ns() + (int64_t)(burst_s * (double)NS_PER_S) < pace->until_ns;
}
