/* rounds.c: every round makes every visit. After rounds 10, 20, 40, ... the run ends if nine in ten
 * visits are known to the precision, and otherwise when the time budget ends. */
#include "run/rounds.h"

#include "base/stop.h"
#include "plan/forecast.h"

#include <stdlib.h>

/* Bursts are taken again for a part of the time budget longer than it lasts; and only so many: who
 * loses more would fill the run's record with them. */
enum { AGAIN_PARTS = 10, AGAIN_MOST = 10000 };

uint64_t history_sample_units(const struct history *history)
{
	const struct visit *visit = history->visit;

	return history->iterations *
	       bench_units_in_grain(visit->choice->benchmark, plan_visit_point(visit));
}

void rounds_store_median(struct run *run, const struct history *history, uint32_t round, double ns)
{
	size_t width = run->plan->visit_count;

	for (; run->rounds <= round; run->rounds++) {
		float *rows = realloc(run->ns, (run->rounds + 1) * width * sizeof *rows);

		if (!rows) {
			stop_record_reason("out of memory");
			return;
		}
		for (size_t i = run->rounds * width; i < (run->rounds + 1) * width; i++)
			rows[i] = NO_VALUE;
		run->ns = rows;
	}
	run->ns[round * width + (size_t)(history - run->histories)] = (float)ns;
}

/* Reports whether the run has enough rounds; judges after rounds_wanted of them, 2, 4, 8 ... times
 * as many, and rounds_max. */
static bool is_finished(const struct rounds *rounds, uint32_t round)
{
	const struct plan *plan = rounds->run->plan;
	uint32_t judged = plan->rounds_wanted;

	while (judged < round)
		judged *= 2;
	if (round >= plan->rounds_max || round < judged)
		return round >= plan->rounds_max;
	rounds_find_levels(rounds->run, rounds->totals);
	return rounds->totals->converged >= 9 * rounds->totals->unconverged;
}

/* Returns when the time budget ends, after the minimum of rounds. */
static int64_t budget_end_ns(const struct run *run)
{
	const struct plan *plan = run->plan;
	int64_t took_ns = now_ns() - run->start_ns, least_ns = plan_least_budget_ns(plan);
	int64_t usual_ns = took_ns / plan->rounds * plan->rounds_usual;

	return run->start_ns + (!plan->time_budget_ns && usual_ns > least_ns ? usual_ns : least_ns);
}

bool rounds_begin(struct rounds *rounds, uint32_t round, void (*idle)(void))
{
	const struct plan *plan = rounds->run->plan;
	int64_t begin_ns = rounds->begun_ns + plan_round_interval_ns(plan);

	if (!rounds->begun_ns || begin_ns < now_ns())
		begin_ns = now_ns();
	if (is_finished(rounds, round))
		return false;
	if (!rounds->until_ns && (plan->budget_ends || round >= plan->rounds))
		rounds->until_ns = budget_end_ns(rounds->run);
	if (round >= plan->rounds && begin_ns >= rounds->until_ns)
		return false;
	for (int64_t now; (now = now_ns()) < begin_ns; idle())
		if (stop_wait(-1, 0, begin_ns - now < NS_PER_S ? begin_ns : now + NS_PER_S) ==
		    WAIT_STOP)
			return false;
	rounds->begun_ns = now_ns();
	return true;
}

void rounds_end(struct rounds *rounds)
{
	if (!rounds->until_ns)
		rounds->until_ns = budget_end_ns(rounds->run);
}

/* Returns how long a burst of this visit takes. */
static int64_t expected_burst_ns(const struct rounds *rounds, const struct history *history)
{
	double burst_s = history->took_s > 0 ? history->took_s
					     : cost_burst_s(rounds->run->plan, history->visit);

	return (int64_t)(burst_s * (double)NS_PER_S);
}

bool rounds_is_visit_due(const struct rounds *rounds, const struct history *history, uint32_t round)
{
	bool is_first = !rounds->totals->taken && !rounds->totals->failed;

	if (round < history->done || history->given_up)
		return false;
	return is_first || !rounds->until_ns ||
	       now_ns() + expected_burst_ns(rounds, history) < rounds->until_ns;
}

bool rounds_may_take_again(const struct rounds *rounds, const struct history *history)
{
	const struct run *run = rounds->run;
	int64_t until_ns = rounds->until_ns ? rounds->until_ns : budget_end_ns(run);

	until_ns += (until_ns - run->start_ns) / AGAIN_PARTS;
	return !history->given_up && rounds->totals->again < AGAIN_MOST &&
	       now_ns() + expected_burst_ns(rounds, history) < until_ns;
}

void rounds_find_levels(const struct run *run, struct totals *totals)
{
	const struct plan *plan = run->plan;
	double *work = calloc(3 * (size_t)run->rounds + 1, sizeof *work);
	size_t *visits = calloc(plan->block_count + 1, sizeof *visits);

	totals->converged = totals->reached_ppm = 0;
	for (size_t i = 0; work && visits && i < plan->visit_count; i++) {
		size_t count = plan_list_visits_made_together(plan, i, visits);

		totals->levels[i] = find_main_level(run->ns, plan->visit_count, run->rounds, visits,
						    count, work);
		uint32_t ppm = totals->levels[i].half_ppm;

		totals->converged += level_is_within(&totals->levels[i], plan->precision_ppm);
		totals->reached_ppm = ppm > totals->reached_ppm ? ppm : totals->reached_ppm;
	}
	totals->unconverged = plan->visit_count - totals->converged;
	free(work);
	free(visits);
}

size_t rounds_add_unreached(const struct run *run, bool given_up, struct text *text)
{
	const struct visit *visits = run->plan->visits;
	size_t all = 0, count = 0;

	for (size_t i = 0; i < run->plan->visit_count; i++) {
		const struct history *history = &run->histories[i];
		const struct choice *choice = visits[i].choice;
		const struct point *point = plan_visit_point(&visits[i]);
		bool is_made = history->took_s > 0 || history->done;

		count += history->given_up == given_up && (given_up || !is_made);
		if (!count ||
		    (i + 1 < run->plan->visit_count && plan_visit_point(&visits[i + 1]) == point))
			continue;
		text_add(text, "%s%s/%s%s%s", all ? ", " : "", choice->benchmark->name,
			 choice->variant->name, *point->name ? " " : "", point->name);
		if (count > 1)
			text_add(text, " (%zu)", count);
		all += count;
		count = 0;
	}
	return all;
}
