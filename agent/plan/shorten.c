/* shorten.c: what a time budget, or a lack of memory, leaves out. */
#include "plan/parts.h"

#include "base/stop.h"
#include "bench/sizes.h"
#include "machine/arena.h"
#include "plan/forecast.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	FULL_ROUNDS = 3, /* rounds of all points that must fit, else some are dropped */
	MARGIN = 2,      /* times the estimate: the machine may be busy */
};

static bool is_alike_but_size(const struct point *left, const struct point *right)
{
	return left->operation == right->operation && left->order == right->order &&
	       left->sharing == right->sharing && left->threads == right->threads;
}

/* Counts the points like this one, from `least` to `most` bytes, that are smaller and larger. */
static void count_alike_by_size(const struct choice *choice, const struct point *point,
				uint64_t least, uint64_t most, size_t *smaller, size_t *larger)
{
	*smaller = *larger = 0;
	for (size_t i = 0; i < choice->point_count; i++) {
		const struct point *other = &choice->points[i];

		if (!is_alike_but_size(point, other) || other->bytes < least || other->bytes > most)
			continue;
		*smaller += other->bytes < point->bytes;
		*larger += other->bytes > point->bytes;
	}
}

/* Returns how much of a cache each of so many threads has; all share the last one. */
static uint64_t cache_share(const struct plan *plan, const struct cpu_cache *cache,
			    uint32_t threads)
{
	uint64_t bytes = cache->bytes > 0 ? (uint64_t)cache->bytes : 0;
	uint64_t share = plan->cache_bytes / (threads ? threads : 1);

	return cache == last_data_cache(&plan->facts) && share < bytes ? share : bytes;
}

/* Finds the sizes that lie with the point well outside the caches before and well inside the next.
 * Returns false if the point lies between two levels, or is outside all caches. */
static bool find_sizes_of_level(const struct plan *plan, const struct point *point, uint64_t *least,
				uint64_t *most)
{
	uint64_t before = 0;

	for (size_t i = 0; i < plan->facts.cache_count; i++) {
		const struct cpu_cache *cache = &plan->facts.caches[i];
		uint64_t bytes = cache_share(plan, cache, point->threads);

		if (!strcmp(cache->kind, "Instruction"))
			continue;
		*least = 2 * before;
		*most = bytes / 2;
		if (point->bytes >= *least && point->bytes <= *most)
			return true;
		if (bytes > before)
			before = bytes;
	}
	return false;
}

/* Reports whether the point is one of the two sizes that show a level: its smallest and its
 * largest. Two, since a guest may have less of a cache than it is told. */
static bool is_level_end(const struct plan *plan, const struct choice *choice,
			 const struct point *point)
{
	uint64_t least, most;
	size_t smaller, larger;

	if (!find_sizes_of_level(plan, point, &least, &most))
		return false;
	count_alike_by_size(choice, point, least, most, &smaller, &larger);
	return !smaller || !larger;
}

static enum spared decide_when_spared(const struct plan *plan, const struct choice *choice,
				      const struct point *point)
{
	size_t smaller, larger;

	if (!plan_is_ladder(choice->benchmark) || point->memory_node != NO_NODE)
		return SPARED_NEVER;
	count_alike_by_size(choice, point, 0, UINT64_MAX, &smaller, &larger);
	if (!larger)
		return SPARED_MEMORY;
	if (!last_data_cache(&plan->facts) || is_level_end(plan, choice, point))
		return SPARED_NEVER;
	return SPARED_FIRST;
}

/* Notes in each point when it may be left out. */
static void rank_points(struct plan *plan)
{
	for (size_t i = 0; i < plan->choice_count; i++)
		for (size_t p = 0; p < plan->choices[i].point_count; p++) {
			struct point *point = &plan->choices[i].points[p];

			point->spared = (uint8_t)decide_when_spared(plan, &plan->choices[i], point);
		}
}

/* Drops the points that can be spared so, and returns how many. A choice keeps its points if no
 * others are left, unless they are too large. */
static size_t drop_points(struct plan *plan, enum spared spared)
{
	size_t dropped = 0, choices = 0;

	for (size_t i = 0; i < plan->choice_count; i++) {
		struct choice choice = plan->choices[i];
		size_t remaining = 0;

		for (size_t p = 0; p < choice.point_count; p++)
			remaining += choice.points[p].spared != spared;
		if (remaining || spared == SPARED_LARGE) {
			remaining = 0;
			for (size_t p = 0; p < choice.point_count; p++)
				if (choice.points[p].spared != spared)
					choice.points[remaining++] = choice.points[p];
			dropped += choice.point_count - remaining;
			choice.point_count = remaining;
		}
		if (choice.point_count)
			plan->choices[choices++] = choice;
		else
			free(choice.points);
	}
	plan->choice_count = choices;
	return dropped;
}

static int drop_points_and_remake(struct plan *plan, enum spared spared,
				  const struct options *options, size_t *dropped,
				  struct refusal *refusal)
{
	*dropped += drop_points(plan, spared);
	return plan_make_visits(plan, options, refusal);
}

static double estimate_planned_s(const struct plan *plan, uint32_t rounds)
{
	const struct cost cost = cost_estimate(plan, NULL);

	return cost.once_s + rounds * cost.round_s;
}

int plan_shorten(struct plan *plan, const struct options *options, struct notes *notes,
		 struct refusal *refusal)
{
	double budget_s = (double)plan->time_budget_ns / (double)NS_PER_S / MARGIN;
	size_t dropped = 0;

	rank_points(plan);
	if (!plan->budget_ends || strcmp(options->sizes, "auto"))
		return 0;
	if (estimate_planned_s(plan, FULL_ROUNDS) > budget_s &&
	    drop_points_and_remake(plan, SPARED_FIRST, options, &dropped, refusal))
		return -1;
	size_t between = dropped;

	if (estimate_planned_s(plan, 1) > budget_s &&
	    drop_points_and_remake(plan, SPARED_MEMORY, options, &dropped, refusal))
		return -1;
	plan->left_out = dropped > between ? SPARED_MEMORY : dropped ? SPARED_FIRST : SPARED_NEVER;
	if (dropped)
		notes_add(notes,
			  "To keep the time budget %zu points of chase and bandwidth are left out: "
			  "sizes between the plateaus%s.",
			  dropped, dropped > between ? ", and those outside all caches" : "");
	return 0;
}

/* Marks the points that take most memory; returns false if no others would be left. */
static bool mark_largest_points(struct plan *plan)
{
	uint64_t largest = 0;
	bool others = false;

	for (int pass = 0; pass < 2; pass++)
		for (size_t i = 0; i < plan->choice_count; i++)
			for (size_t p = 0; p < plan->choices[i].point_count; p++) {
				struct point *point = &plan->choices[i].points[p];

				if (!pass)
					largest = point->arena_bytes > largest ? point->arena_bytes
									       : largest;
				else if (point->arena_bytes == largest)
					point->spared = SPARED_LARGE;
				else
					others = true;
			}
	return others;
}

int plan_reserve_memory(struct plan *plan, const struct options *options, struct notes *notes,
			struct refusal *refusal)
{
	const char *limit = plan->machine->limits.memory;
	uint64_t available = plan->machine->limits.memory_bytes, total = 0;
	size_t dropped = 0, choices = plan->choice_count;
	char memory_words[192];

	snprintf(memory_words, sizeof memory_words,
		 "no more than half of the %.0f MiB available%s%s%s", (double)available / (1 << 20),
		 *limit ? " (" : "", limit, *limit ? ")" : "");
	for (;;) {
		if (plan_reserve_arenas(plan, &total, refusal) || plan_check_nodes(plan, refusal))
			return -1;
		if (total <= available / 2 || strcmp(options->sizes, "auto") ||
		    !mark_largest_points(plan))
			break;
		if (drop_points_and_remake(plan, SPARED_LARGE, options, &dropped, refusal))
			return -1;
	}
	bool twice = available < UINT64_MAX && total <= available / 4;

	if (twice)
		arena_enable_round_overlap();
	plan->bytes = twice ? 2 * total : total;
	for (size_t i = 0; i < plan->node_count; i++)
		plan->node_bytes[i] <<= twice;
	if (total > available / 2)
		return refuse(refusal, EXIT_OPTIONS,
			      "the points take %.0f MiB in all, and %s may be taken: --sizes, "
			      "--threads, --pairs and --cpus reduce it",
			      (double)total / (1 << 20), memory_words);
	if (dropped)
		notes_add(notes, "To take %s, %zu points are left out: the largest sizes%s.",
			  memory_words, dropped,
			  plan->choice_count < choices ? ", all of some benchmarks" : "");
	return 0;
}
