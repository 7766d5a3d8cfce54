/* pace.c: rounds spread over time, and more of them for pairs that are not precise yet. */
#include "pace.h"

#include "budget.h"
#include "stop.h"

#include <stdlib.h>

enum {
	FAILED_MOST = 3, /* bursts in a row without a number: no further round for this pair */
	BUDGET_USUAL_S = 20,
	BUDGET_USUAL_TIMES = 2, /* what the least rounds took */
	SURE = 20,              /* bursts whose scatter tells what more rounds will do */
	DOUBT = 4,              /* of fewer: rounds that so many times those left would not do */
	DENSER = 6,             /* pauses after the least rounds are shortened to a part of this */
};

#define RESERVE 0.5 /* share of the time left that the rounds still needed are to take */

static void note_failure(struct visit *visit)
{
	visit->failed_in_row += visit->failed_in_row < UINT8_MAX;
}

static bool keep(const struct plan *plan, struct visit *visit, double value)
{
	if (visit->kept == visit->room) {
		uint32_t room = visit->room ? 2 * visit->room : plan->rounds_wanted;
		float *more;

		room = room > PACE_KEPT_MOST ? PACE_KEPT_MOST : room;
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

struct level pace_level(const struct visit *visit)
{
	static double values[PACE_KEPT_MOST], work[PACE_KEPT_MOST];

	for (uint32_t i = 0; i < visit->kept; i++)
		values[i] = visit->medians[i];
	return level_of_most(values, work, visit->kept);
}

/* So many more are at other levels as were so far. */
static uint16_t bursts_needed(const struct visit *visit, const struct interval *interval,
			      double correlation, double allowed)
{
	uint32_t needed = count_needed(interval->variance, correlation, allowed);
	double of_all = (double)needed * visit->kept / interval->count;

	return of_all < COUNT_NEVER ? (uint16_t)of_all : COUNT_NEVER;
}

/* How well is the level known that most of its bursts are at, and what would it take? */
static void judge(const struct plan *plan, struct visit *visit)
{
	const struct level level = pace_level(visit);
	const struct interval interval = level.interval;
	double independent = interval.correlation < 0 ? interval.correlation : 0;
	double allowed = interval.mean * plan->precision_ppm / 1e6, fair = allowed * PACE_FAIR;

	visit->levels = (uint8_t)level.levels;
	if (interval.half_squared < 0)
		return;
	visit->precise = interval.half_squared <= allowed * allowed;
	visit->fair = interval.half_squared <= fair * fair;
	visit->needed = bursts_needed(visit, &interval, interval.correlation, allowed);
	visit->needed_fair = bursts_needed(visit, &interval, interval.correlation, fair);
	visit->least_fair = bursts_needed(visit, &interval, independent, fair);
}

static void note_median(const struct plan *plan, struct visit *visit, double ticks)
{
	visit->failed_in_row = 0;
	if (plan->precision_ppm && visit->kept < PACE_KEPT_MOST &&
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

/* Does it take more bursts than so many rounds bring, or than are kept? */
static bool takes_more(const struct visit *visit, uint32_t needed, uint64_t rounds)
{
	uint32_t room = PACE_KEPT_MOST - visit->kept;

	return needed > visit->kept && needed - visit->kept > (rounds < room ? rounds : room);
}

bool pace_gives_up(const struct pace *pace, const struct visit *visit)
{
	if (visit->precise)
		return false;
	if (visit->kept == PACE_KEPT_MOST)
		return true;
	if (visit->fair)
		return takes_more(visit, visit->needed, pace->rounds_left);
	uint64_t rounds = (uint64_t)pace->rounds_most * (visit->kept < SURE ? DOUBT : 1);

	return takes_more(visit, visit->least_fair, rounds);
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

int64_t pace_round_ns(const struct pace *pace, const struct plan *plan)
{
	int64_t gap = gap_ns(plan);

	return pace->length_ns > gap ? pace->length_ns : gap;
}

static uint32_t rounds_in(int64_t left_ns, int64_t each_ns)
{
	if (left_ns <= 0)
		return 0;
	if (each_ns <= left_ns / UINT32_MAX)
		return UINT32_MAX;
	return (uint32_t)(left_ns / each_ns);
}

/* How many rounds begin from now on until the budget ends. */
static void count_rounds(struct pace *pace, const struct plan *plan, int64_t until_ns)
{
	int64_t left_ns = until_ns - now_ns(), shortest = gap_ns(plan) / DENSER;

	pace->rounds_left = rounds_in(left_ns, pace_round_ns(pace, plan));
	pace->rounds_most =
		rounds_in(left_ns, pace->length_ns > shortest ? pace->length_ns : shortest);
}

/*
 * From the beginning of the last round to that of this one: as in the least rounds, or less where
 * else a visit that is not yet known fairly well would not get the bursts that this takes.
 */
static int64_t wait_ns(const struct pace *pace, const struct plan *plan, uint32_t round)
{
	int64_t usual = gap_ns(plan), shortest = usual / DENSER;
	uint32_t more = 0;

	for (size_t i = 0; round >= plan->rounds_wanted && i < plan->visit_count; i++) {
		const struct visit *visit = &plan->visits[i];

		if (!visit->fair && visit->needed_fair > visit->kept + more &&
		    pace_visits(pace, plan, visit, round))
			more = visit->needed_fair - visit->kept;
	}
	if (!more)
		return usual;
	int64_t each = (int64_t)(RESERVE * (double)(pace->until_ns - now_ns())) / more;

	return each < shortest ? shortest : each > usual ? usual : each;
}

uint32_t pace_first(struct pace *pace, const struct run *run)
{
	const struct plan *plan = run->plan;
	uint32_t first = plan->rounds_max;

	count_rounds(pace, plan, budget_end_ns(run));
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

/* The shorter one of the last two: a burst that gets stuck takes seconds. */
static void note_length(struct pace *pace)
{
	int64_t before = pace->last_ns;

	if (!pace->round_ns)
		return;
	pace->last_ns = now_ns() - pace->round_ns;
	pace->length_ns = before && before < pace->last_ns ? before : pace->last_ns;
}

bool pace_begin(struct pace *pace, const struct run *run, uint32_t round, void (*idle)(void))
{
	const struct plan *plan = run->plan;

	note_length(pace);
	if (has_budget(plan, round) && !pace->until_ns)
		pace->until_ns = budget_end_ns(run);
	if (pace->until_ns)
		count_rounds(pace, plan, pace->until_ns);
	int64_t begin_ns = pace->round_ns ? pace->round_ns + wait_ns(pace, plan, round) : now_ns();

	if (round >= plan->rounds_max || !any_visit(pace, plan, round) ||
	    (round >= plan->rounds && begin_ns >= pace->until_ns))
		return false;
	if (!wait_until(begin_ns, idle))
		return false;
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
