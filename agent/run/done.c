/* done.c: reads what an earlier agent measured of this plan. */
#include "run/run.h"

#include "run/again.h"
#include "run/rounds.h"

#include "base/text.h"

#include <stdlib.h>
#include <string.h>

static const char blanks[] = " \n";

/* Reads a whole number; returns false if the word is not one. */
static bool read_count(const char *word, uint64_t most, uint64_t *count)
{
	const char *end = word ? text_read_number(word, most, count) : NULL;

	return end && !*end;
}

/* For bsearch(): visits lie choice by choice, point by point, and in each by their CPUs. */
static int compare_visits(const void *left, const void *right)
{
	const struct visit *p = left, *q = right;

	if (p->choice != q->choice)
		return p->choice < q->choice ? -1 : 1;
	if (p->point != q->point)
		return p->point < q->point ? -1 : 1;
	if (p->a != q->a)
		return p->a < q->a ? -1 : 1;
	return (p->b > q->b) - (p->b < q->b);
}

static bool find_choice(const struct plan *plan, const char *benchmark, const char *variant,
			struct visit *wanted)
{
	for (size_t i = 0; i < plan->choice_count; i++) {
		wanted->choice = &plan->choices[i];
		if (!strcmp(wanted->choice->benchmark->name, benchmark) &&
		    !strcmp(wanted->choice->variant->name, variant))
			return true;
	}
	return false;
}

static bool find_point(struct visit *wanted, const char *name)
{
	for (size_t i = 0; i < wanted->choice->point_count; i++) {
		wanted->point = (uint16_t)i;
		if (!strcmp(plan_visit_point(wanted)->name, name))
			return true;
	}
	return false;
}

static bool find_group(const struct plan *plan, struct visit *wanted, int first, int last)
{
	for (size_t i = 0; i < plan->group_count; i++) {
		const struct group *group = &plan->groups[i];

		wanted->a = wanted->b = (uint16_t)i;
		if (group->count == plan_visit_point(wanted)->threads && group->cpus[0] == first &&
		    group->cpus[group->count - 1] == last)
			return true;
	}
	return false;
}

/* Fills in the CPUs, or the group, of a visit by its first and last CPU; false: not in the plan. */
static bool find_cpus(const struct plan *plan, struct visit *wanted, int first, int last)
{
	int a = plan_find_cpu(plan, first), b = plan_find_cpu(plan, last);

	if (wanted->choice->benchmark->shape == SHAPE_GROUP)
		return find_group(plan, wanted, first, last);
	wanted->a = (uint16_t)a;
	wanted->b = (uint16_t)b;
	return a >= 0 && b >= 0;
}

/* Gives up the visit that killed its agent, and those like it. scope: `memory`, all that use as
 * much or more; `variant`, or `point`, all of that visit's. Returns false for another word. */
static bool give_up_visits(struct run *run, const struct visit *lost, const char *scope)
{
	uint64_t bytes = plan_visit_point(lost)->arena_bytes + plan_visit_point(lost)->walk_bytes;

	for (size_t i = 0; i < run->plan->visit_count; i++) {
		struct history *history = &run->histories[i];
		const struct point *point = plan_visit_point(history->visit);
		bool as_much = bytes && point->arena_bytes + point->walk_bytes >= bytes;
		bool like = history->visit->choice == lost->choice;

		if (!strcmp(scope, "point"))
			like &= history->visit->point == lost->point && *point->name;
		if (!strcmp(scope, "memory") ? as_much : like)
			history->given_up = true;
	}
	return !strcmp(scope, "memory") || !strcmp(scope, "variant") || !strcmp(scope, "point");
}

/* Notes what an earlier agent measured: twice its median, in ticks. */
static void store_earlier_median(struct run *run, struct history *history, uint64_t twice_median)
{
	double ways = history->visit->choice->benchmark->two_ways ? 2 : 1;
	double ns = (double)twice_median / 2 * 1e9 / (double)run->clock->clock.ticks_per_second;

	rounds_store_median(run, history, history->done,
			    ns / (double)history_sample_units(history) / ways);
}

/* Reads how often a burst was disturbed, and has it taken again. */
static bool read_disturbed(const struct run *run, const struct history *history, const char *count)
{
	uint64_t number;

	if (!read_count(count, UINT16_MAX, &number) || !number)
		return false;
	struct attempt next = {.visit = (uint32_t)(history - run->histories),
			       .round = history->done,
			       .number = (uint32_t)number};

	return !again_add(run->again, next);
}

/* Reads the outcome of a round: twice a median in ticks; `~` and how often the burst was disturbed;
 * or `-`, and the scope of what is given up. */
static bool read_outcome(struct run *run, struct history *history, bool measured, const char *word)
{
	uint64_t twice;

	if (*word == '~')
		return read_disturbed(run, history, word + 1);
	if (*word == '-')
		return !word[1] || give_up_visits(run, history->visit, word + 1);
	if (!measured || !read_count(word, UINT64_MAX, &twice))
		return false;
	store_earlier_median(run, history, twice);
	return true;
}

static bool read_outcomes(struct run *run, struct history *history, bool measured, char **rest)
{
	const char *word;

	while ((word = strtok_r(NULL, blanks, rest))) {
		if (history->done == run->plan->rounds_max ||
		    !read_outcome(run, history, measured, word))
			return false;
		history->done++;
		run->done++;
		run->done_minimum += history->done <= run->plan->rounds;
	}
	return history->done > 0;
}

/* Reads one line: benchmark, variant, point, first and last CPU, units in a sample, outcomes. Where
 * the benchmark has no points, theirs is "-" or missing. */
static bool read_done_line(char *line, void *context)
{
	struct run *run = context;
	const struct plan *plan = run->plan;
	char *rest;
	const char *benchmark = strtok_r(line, blanks, &rest);
	const char *variant = strtok_r(NULL, blanks, &rest);
	const char *word = strtok_r(NULL, blanks, &rest);
	struct visit wanted = {0};
	uint64_t first, last, units;

	if (!word || !find_choice(plan, benchmark, variant, &wanted))
		return false;
	bool nameless = !wanted.choice->points[0].name[0], dash = !strcmp(word, "-");

	if (!nameless && !find_point(&wanted, word))
		return false;
	if (!nameless || dash)
		word = strtok_r(NULL, blanks, &rest);
	if (!read_count(word, INT32_MAX, &first) ||
	    !read_count(strtok_r(NULL, blanks, &rest), INT32_MAX, &last) ||
	    !read_count(strtok_r(NULL, blanks, &rest), INT64_MAX, &units) ||
	    !find_cpus(plan, &wanted, (int)first, (int)last))
		return false;
	uint64_t grain = bench_units_in_grain(wanted.choice->benchmark, plan_visit_point(&wanted));
	const struct visit *visit =
		bsearch(&wanted, plan->visits, plan->visit_count, sizeof wanted, compare_visits);
	struct history *history = visit ? &run->histories[visit - plan->visits] : NULL;

	if (!history || history->done || units % grain || units / grain > UINT32_MAX)
		return false;
	if (units)
		history->iterations = (uint32_t)(units / grain);
	return read_outcomes(run, history, units > 0, &rest);
}

int done_read_file(struct run *run, const char *path, struct refusal *refusal)
{
	if (read_option_lines(refusal, "--done", path, read_done_line, run))
		return -1;
	for (size_t i = 0; i < run->plan->visit_count; i++) {
		const struct history *history = &run->histories[i];

		if (history->given_up && history->done < run->plan->rounds)
			run->done_minimum += run->plan->rounds - history->done;
	}
	return 0;
}
