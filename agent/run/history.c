/* history.c: see history.h. */
#include "run/history.h"

#include "base/stop.h"

#include <stdlib.h>

#define A_FACTOR 1.25 /* between bursts: states until shown otherwise */

/* What is split together. */
static struct {
	struct series *series;
	double *values, work[4 * HISTORY_MOST];
	uint8_t of[HISTORY_MOST];
} split;

static bool has_room_to_split(const struct plan *plan)
{
	size_t most = plan->block_count ? plan->block_count : 1;

	split.series = calloc(most, sizeof *split.series);
	split.values = calloc(most * HISTORY_MOST, sizeof *split.values);
	return split.series && split.values;
}

struct history *history_start(const struct plan *plan)
{
	struct history *histories =
		has_room_to_split(plan) ? calloc(plan->visit_count, sizeof *histories) : NULL;

	for (size_t i = 0; histories && i < plan->visit_count; i++) {
		const struct visit *visit = &plan->visits[i];
		const struct benchmark *benchmark = visit->choice->benchmark;

		histories[i].visit = visit;
		histories[i].iterations = !benchmark->single ? plan->iterations : !benchmark->reset;
	}
	return histories;
}

void history_free(const struct plan *plan, struct history *histories)
{
	for (size_t i = 0; histories && i < plan->visit_count; i++)
		free(histories[i].medians);
	free(histories);
	free(split.series);
	free(split.values);
}

uint64_t history_units(const struct history *history)
{
	const struct visit *visit = history->visit;

	return history->iterations * bench_grain(visit->choice->benchmark, plan_point(visit));
}

/* Puts a value in its round's place; rounds before it that made no burst have none. */
static void keep(const struct plan *plan, struct history *history, uint32_t round, double value)
{
	if (!plan->precision_ppm || round >= HISTORY_MOST || round < history->rounds)
		return;
	if (round >= history->room) {
		uint32_t room = history->room ? 2 * history->room : plan->rounds_wanted;
		float *more;

		room = room > round ? room : round + 1;
		room = room > HISTORY_MOST ? HISTORY_MOST : room;
		more = realloc(history->medians, room * sizeof *more);
		if (!more) {
			stop_because("out of memory");
			return;
		}
		history->medians = more;
		history->room = room;
	}
	while (history->rounds < round)
		history->medians[history->rounds++] = (float)NO_VALUE;
	history->medians[history->rounds++] = (float)value;
	history->kept++;
	history->fresh = true;
}

static struct series series_of(const struct history *history, double *values)
{
	for (uint32_t i = 0; i < history->rounds; i++)
		values[i] = history->medians[i];
	return (struct series){values, history->rounds, false};
}

/* Splits what was found at a visit and at those made together with it. */
static struct states find_states(const struct plan *plan, const struct history *histories,
				 size_t visit)
{
	struct states states = {.of = split.of};
	size_t count = plan_companions(plan, visit), known = 0;

	for (size_t k = 0; k < count; k++) {
		const struct history *history = &histories[plan_companion(plan, visit, k)];

		if (history->kept) {
			split.series[known] =
				series_of(history, split.values + known * HISTORY_MOST);
			known++;
		}
	}
	states_find(split.series, known, split.work, &states);
	return states;
}

static struct level level_in(const struct states *states, const struct history *history)
{
	const struct series series = series_of(history, split.values);

	return level_of_most(&series, states, split.work);
}

struct level history_level(const struct plan *plan, const struct history *histories,
			   const struct history *history)
{
	const struct states states = find_states(plan, histories, (size_t)(history - histories));

	return level_in(&states, history);
}

/* So many more are at other levels as were so far. */
static uint16_t bursts_needed(const struct history *history, const struct interval *interval,
			      double correlation, double allowed)
{
	uint32_t needed = count_needed(interval->variance, correlation, allowed);
	double of_all = (double)needed * history->kept / interval->count;

	return of_all < COUNT_NEVER ? (uint16_t)of_all : COUNT_NEVER;
}

/* How well is the level known that most of its bursts are at, and what would it take? */
static void judge(const struct plan *plan, struct history *history, const struct level level)
{
	const struct interval interval = level.main.interval;
	double independent = interval.correlation < 0 ? interval.correlation : 0;
	double allowed = interval.mean * plan->precision_ppm / 1e6, fair = allowed * HISTORY_FAIR;
	bool again = history->fresh ? history->precise : history->settled;

	history->levels = (uint8_t)level.levels;
	history->mixed = level.main.ratio >= A_FACTOR;
	history->precise = history->settled = history->fair = false;
	if (interval.half_squared < 0)
		return;
	history->precise = interval.half_squared <= allowed * allowed;
	history->settled = history->precise && again;
	history->fair = interval.half_squared <= fair * fair;
	history->needed = bursts_needed(history, &interval, interval.correlation, allowed);
	history->needed_fair = bursts_needed(history, &interval, interval.correlation, fair);
	history->least_fair = bursts_needed(history, &interval, independent, fair);
}

void history_judge(const struct plan *plan, struct history *histories, void (*idle)(void))
{
	for (size_t i = 0; i < plan->visit_count; i++) {
		if (!histories[i].fresh)
			continue;
		const struct states states = find_states(plan, histories, i);

		for (size_t k = plan_companions(plan, i); k-- > 0;) {
			struct history *history = &histories[plan_companion(plan, i, k)];

			if (history->kept)
				judge(plan, history, level_in(&states, history));
			history->fresh = false;
		}
		idle();
	}
}

static void note_median(const struct plan *plan, struct history *history, uint32_t round,
			double ticks)
{
	history->failed_in_row = 0;
	keep(plan, history, round, ticks / history->iterations);
}

/* Of a group ping's ticks stand for all. */
void history_note(const struct plan *plan, struct history *history, uint32_t round,
		  const struct burst_result *result)
{
	static double values[SAMPLES_MAX];
	const struct benchmark *benchmark = history->visit->choice->benchmark;

	if (!result) {
		history->failed_in_row += history->failed_in_row < UINT8_MAX;
		return;
	}
	uint32_t samples = result->samples - plan->warmup;
	size_t threads = benchmark->shape == SHAPE_PAIR ? result->timed : 1;

	for (uint32_t i = 0; i < samples; i++)
		values[i] = bench_sample(benchmark, result->ticks + plan->warmup + i, threads,
					 result->samples);
	note_median(plan, history, round, plan->precision_ppm ? median(values, samples) : 0);
}

void history_recall(const struct plan *plan, struct history *history, const uint64_t *twice_median)
{
	if (twice_median)
		note_median(plan, history, history->done, (double)*twice_median / 2);
	else
		history->failed_in_row += history->failed_in_row < UINT8_MAX;
	history->precise = true; /* until judged, once for all that is recalled */
	history->done++;
}
