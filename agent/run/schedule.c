/* schedule.c: rounds spread over time, and more of them for pairs that are not precise yet. */
#include "run/schedule.h"

#include "base/stop.h"
#include "plan/forecast.h"

#include <stdlib.h>

enum {
	FAILED_MOST = 3, /* bursts in a row without a number: no further round for this pair */
	DOUBT = 4,       /* rounds that so many times those left would not do */
	OTHERS = 4,      /* one round of so many visits all; the others what is read first */
	DENSER = 6,      /* pauses after the minimum rounds are shortened to a part of this */
};

#define RESERVE 0.5 /* share of the time left that the rounds still needed are to take */

/* The numbers of pairs: rounds beyond those wanted are theirs before they are of ladders. */
static bool is_read_first(const struct history *history)
{
	const struct benchmark *benchmark = history->visit->choice->benchmark;

	return benchmark->shape == SHAPE_PAIR && !benchmark->many_points;
}

/* Will more rounds not help? Not even fairly well will it be known, were its bursts independent. */
static bool gives_up(const struct schedule *schedule, const struct history *history)
{
	uint64_t rounds = schedule->rounds_most * DOUBT;
	uint32_t room = HISTORY_MOST - history->kept;

	if (schedule->first_wanted && !is_read_first(history))
		rounds /= OTHERS;
	if (history->precise)
		return false;
	if (!room)
		return true;
	if (history->fair || (history->mixed && history->kept < HISTORY_TELLING))
		return false;
	return history->least_fair > history->kept + (rounds < room ? rounds : room);
}

/* Does this round want it, as far as is known now? */
static bool wants(const struct schedule *schedule, const struct history *history, uint32_t round)
{
	const struct plan *plan = schedule->run->plan;

	if (history->left_out || (schedule->first_wanted && round >= plan->rounds &&
				  round % OTHERS && !is_read_first(history)))
		return false;
	return round < plan->rounds_wanted || (history->failed_in_row < FAILED_MOST &&
					       !history->settled && !gives_up(schedule, history));
}

/* Does it, or one made together with it? All of these tell the states. */
static bool any_wants(const struct schedule *schedule, const struct history *history,
		      uint32_t round)
{
	const struct run *run = schedule->run;
	size_t visit = (size_t)(history - run->histories);
	bool wanted = wants(schedule, history, round);

	if (history->failed_in_row >= FAILED_MOST)
		return wanted;
	for (size_t k = plan_companions(run->plan, visit); !wanted && k-- > 0;)
		wanted = wants(schedule, &run->histories[plan_companion(run->plan, visit, k)],
			       round);
	return wanted;
}

bool schedule_visits(const struct schedule *schedule, const struct history *history, uint32_t round)
{
	return round >= history->done && !history->left_out && any_wants(schedule, history, round);
}

/* Is there a visit for this round? Notes whether one is read first. */
static bool any_visit(struct schedule *schedule, uint32_t round)
{
	bool any = false;

	schedule->first_wanted = false;
	for (size_t i = 0; !schedule->first_wanted && i < schedule->run->plan->visit_count; i++) {
		const struct history *history = &schedule->run->histories[i];

		if (schedule_visits(schedule, history, round)) {
			any = true;
			schedule->first_wanted = is_read_first(history);
		}
	}
	return any;
}

static int64_t budget_end_ns(const struct run *run)
{
	int64_t took_ns = now_ns() - run->start_ns;
	int64_t usual_ns = took_ns / run->plan->rounds_wanted * run->plan->rounds_usual;

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

int64_t schedule_round_ns(const struct schedule *schedule)
{
	int64_t gap = plan_gap_ns(schedule->run->plan);

	return schedule->length_ns > gap ? schedule->length_ns : gap;
}

/* How many rounds begin from now on until the budget ends, at most. */
static void count_rounds(struct schedule *schedule, int64_t until_ns)
{
	int64_t left = until_ns - now_ns(), each = plan_gap_ns(schedule->run->plan) / DENSER;

	if (each < schedule->length_ns)
		each = schedule->length_ns;
	schedule->rounds_most = left > 0 ? (uint64_t)(left / (each > 0 ? each : 1)) : 0;
}

/* From the beginning of the last round to that of this one: as in the minimum rounds, or less where
 * else a visit that is not yet known well would not get the bursts that this takes. */
static int64_t wait_ns(const struct schedule *schedule, uint32_t round)
{
	const struct plan *plan = schedule->run->plan;
	int64_t usual = plan_gap_ns(plan), shortest = usual / DENSER;
	uint32_t more = 0;

	for (size_t i = 0; round >= plan->rounds_wanted && i < plan->visit_count; i++) {
		const struct history *history = &schedule->run->histories[i];
		uint32_t needed = history->fair ? history->needed : history->needed_fair;

		if (!history->precise && needed > history->kept + more &&
		    schedule_visits(schedule, history, round))
			more = needed - history->kept;
	}
	if (!more)
		return usual;
	int64_t each = (int64_t)(RESERVE * (double)(schedule->until_ns - now_ns())) / more;

	return each < shortest ? shortest : each > usual ? usual : each;
}

uint32_t schedule_first(struct schedule *schedule)
{
	const struct plan *plan = schedule->run->plan;
	uint32_t first = plan->rounds_max;

	count_rounds(schedule, budget_end_ns(schedule->run));
	for (size_t i = 0; i < plan->visit_count; i++) {
		const struct history *history = &schedule->run->histories[i];

		if (history->done < first && wants(schedule, history, history->done))
			first = history->done;
	}
	return first;
}

/* May the time budget end this round? */
static bool has_budget(const struct plan *plan, uint32_t round)
{
	return plan->budget_ends || round >= plan->rounds;
}

/* The shorter one of the last two: a burst that gets stuck takes seconds. */
static void note_length(struct schedule *schedule)
{
	int64_t before = schedule->last_ns;

	if (!schedule->round_ns)
		return;
	schedule->last_ns = now_ns() - schedule->round_ns;
	schedule->length_ns = before && before < schedule->last_ns ? before : schedule->last_ns;
}

bool schedule_begin(struct schedule *schedule, uint32_t round, void (*idle)(void))
{
	const struct plan *plan = schedule->run->plan;

	note_length(schedule);
	if (has_budget(plan, round) && !schedule->until_ns)
		schedule->until_ns = budget_end_ns(schedule->run);
	if (schedule->until_ns)
		count_rounds(schedule, schedule->until_ns);
	int64_t begin_ns =
		schedule->round_ns ? schedule->round_ns + wait_ns(schedule, round) : now_ns();

	if (round >= plan->rounds_max || !any_visit(schedule, round) ||
	    (round >= plan->rounds && begin_ns >= schedule->until_ns))
		return false;
	if (!wait_until(begin_ns, idle))
		return false;
	schedule->round_ns = now_ns();
	return true;
}

bool schedule_has_room(const struct schedule *schedule, const struct history *history,
		       uint32_t round)
{
	double burst_s = history->took_s > 0 ? history->took_s
					     : cost_burst_s(schedule->run->plan, history->visit);

	return !has_budget(schedule->run->plan, round) ||
	       now_ns() + (int64_t)(burst_s * (double)NS_PER_S) < schedule->until_ns;
}
