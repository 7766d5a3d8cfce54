/* budget.c: see budget.h. */
#include "budget.h"

#include "plan_parts.h"
#include "points.h"
#include "stop.h"

#include <stdlib.h>
#include <string.h>

enum {
	FULL_ROUNDS = 3, /* of all points that must have room, else some are dropped */
	MARGIN = 2,      /* times the estimate: the machine may be busy */
	NAMED_BYTES = 1200,
};

/* Seconds of a burst, and more for each byte that one of its threads works on. */
static const struct {
	const struct benchmark *benchmark;
	double burst_s, byte_s;
} costs[] = {
	{&bench_chase, 0.014, 1.0e-9},
	{&bench_bandwidth, 0.002, 4.0e-10},
	{&bench_gemm, 0.03, 0},
};

static const double usual_s = 0.0016, arena_byte_s = 1.5e-9;

double budget_burst_s(const struct visit *visit)
{
	for (size_t i = 0; i < sizeof costs / sizeof *costs; i++)
		if (costs[i].benchmark == visit->choice->benchmark)
			return costs[i].burst_s +
			       costs[i].byte_s * (double)plan_point(visit)->bytes;
	return usual_s;
}

double budget_points_s(const struct plan *plan)
{
	double total_s = 0;

	for (size_t i = 0; i < plan->visit_count; i++)
		if (!i || plan_point(&plan->visits[i]) != plan_point(&plan->visits[i - 1]))
			total_s += budget_burst_s(&plan->visits[i]);
	return total_s;
}

/* A round: its bursts, and writing the memory that they work on. */
static double round_s(const struct plan *plan)
{
	double total_s = 0, most_bytes = 0;

	for (size_t i = 0; i < plan->visit_count; i++) {
		const struct point *point = plan_point(&plan->visits[i]);
		double bytes = (double)point->arena_bytes * point->threads;

		total_s += budget_burst_s(&plan->visits[i]);
		most_bytes = bytes > most_bytes ? bytes : most_bytes;
	}
	return total_s + most_bytes * arena_byte_s;
}

/* ---- what can be spared ---------------------------------------------------------------------- */

static bool is_ladder(const struct benchmark *benchmark)
{
	return benchmark == &bench_chase || benchmark == &bench_bandwidth;
}

static bool is_alike(const struct point *left, const struct point *right)
{
	return left->operation == right->operation && left->order == right->order &&
	       left->sharing == right->sharing && left->threads == right->threads;
}

/* How many of the points alike from `least` to `most` bytes are smaller, and how many larger. */
static void count_alike(const struct choice *choice, const struct point *point, uint64_t least,
			uint64_t most, size_t *smaller, size_t *larger)
{
	*smaller = *larger = 0;
	for (size_t i = 0; i < choice->point_count; i++) {
		const struct point *other = &choice->points[i];

		if (!is_alike(point, other) || other->bytes < least || other->bytes > most)
			continue;
		*smaller += other->bytes < point->bytes;
		*larger += other->bytes > point->bytes;
	}
}

/* What each of so many threads has of a cache, if they share the last one. */
static uint64_t share_of(const struct plan *plan, const struct cpu_cache *cache, uint32_t threads)
{
	uint64_t bytes = cache->bytes > 0 ? (uint64_t)cache->bytes : 0;
	uint64_t each = plan->cache_bytes / (threads ? threads : 1);

	return cache == last_cache(&plan->facts) && each < bytes ? each : bytes;
}

/*
 * Is it one of the two sizes that show a level, the ends of those well inside a cache and well
 * outside the one before? Two, since a guest may have less of a cache than it is told.
 */
static bool is_of_level(const struct plan *plan, const struct choice *choice,
			const struct point *point)
{
	size_t smaller, larger;
	uint64_t before = 0;

	for (size_t i = 0; i < plan->facts.cache_count; i++) {
		const struct cpu_cache *cache = &plan->facts.caches[i];
		uint64_t bytes = share_of(plan, cache, point->threads);

		if (!strcmp(cache->kind, "Instruction"))
			continue;
		if (point->bytes >= 2 * before && point->bytes <= bytes / 2) {
			count_alike(choice, point, 2 * before, bytes / 2, &smaller, &larger);
			return !smaller || !larger;
		}
		before = bytes > before ? bytes : before;
	}
	return false;
}

static enum spared spared_of(const struct plan *plan, const struct choice *choice,
			     const struct point *point)
{
	size_t smaller, larger;

	if (!is_ladder(choice->benchmark))
		return SPARED_NEVER;
	count_alike(choice, point, 0, UINT64_MAX, &smaller, &larger);
	if (!larger)
		return SPARED_MEMORY;
	if (!last_cache(&plan->facts) || is_of_level(plan, choice, point))
		return SPARED_NEVER;
	return SPARED_FIRST;
}

static void rank_points(struct plan *plan)
{
	for (size_t i = 0; i < plan->choice_count; i++)
		for (size_t p = 0; p < plan->choices[i].point_count; p++) {
			struct point *point = &plan->choices[i].points[p];

			point->spared = (uint8_t)spared_of(plan, &plan->choices[i], point);
		}
}

/* ---- leaving out ----------------------------------------------------------------------------- */

/* Drops the points that can be spared so, but none that its choice would be left without. */
static size_t drop(struct plan *plan, enum spared spared)
{
	size_t dropped = 0;

	for (size_t i = 0; i < plan->choice_count; i++) {
		struct choice *choice = &plan->choices[i];
		size_t kept = 0;

		for (size_t p = 0; p < choice->point_count; p++)
			kept += choice->points[p].spared != spared;
		if (!kept)
			continue;
		kept = 0;
		for (size_t p = 0; p < choice->point_count; p++)
			if (choice->points[p].spared != spared)
				choice->points[kept++] = choice->points[p];
		dropped += choice->point_count - kept;
		choice->point_count = kept;
	}
	return dropped;
}

static int drop_and_make(struct plan *plan, enum spared spared, const struct options *options,
			 size_t *dropped, struct refusal *refusal)
{
	*dropped += drop(plan, spared);
	free(plan->visits);
	free(plan->order);
	free(plan->blocks);
	plan->visits = NULL;
	plan->order = NULL;
	plan->blocks = NULL;
	return plan_make_visits(plan, options, refusal);
}

int budget_shorten(struct plan *plan, const struct options *options, struct notes *notes,
		   struct refusal *refusal)
{
	double budget_s = (double)plan->time_budget_ns / (double)NS_PER_S / MARGIN;
	size_t dropped = 0;

	rank_points(plan);
	if (!plan->budget_ends || strcmp(options->sizes, "auto"))
		return 0;
	/* Before the first bursts come trials that take as long. */
	if ((FULL_ROUNDS + 1) * round_s(plan) > budget_s &&
	    drop_and_make(plan, SPARED_FIRST, options, &dropped, refusal))
		return -1;
	size_t between = dropped;

	if (2 * round_s(plan) > budget_s &&
	    drop_and_make(plan, SPARED_MEMORY, options, &dropped, refusal))
		return -1;
	if (dropped)
		notes_add(notes,
			  "To keep the time budget %zu points of chase and bandwidth are left out: "
			  "sizes that are no plateau%s.",
			  dropped, dropped > between ? ", and those outside all caches" : "");
	return 0;
}

/* ---- the first round ------------------------------------------------------------------------- */

struct place {
	uint64_t bytes;
	uint32_t visit;
	size_t at;
	bool spared;
};

static int by_need(const void *left, const void *right)
{
	const struct place *p = left, *q = right;

	if (p->spared != q->spared)
		return p->spared ? 1 : -1;
	if (p->bytes != q->bytes)
		return p->bytes < q->bytes ? -1 : 1;
	return (p->at > q->at) - (p->at < q->at);
}

int budget_order(struct plan *plan)
{
	struct place *places = calloc(plan->visit_count, sizeof *places);

	if (!places)
		return -1;
	for (size_t i = 0; i < plan->visit_count; i++) {
		const struct visit *visit = &plan->visits[plan->order[i]];
		const struct point *point = plan_point(visit);
		const struct benchmark *benchmark = visit->choice->benchmark;
		bool many = benchmark->many_points || benchmark->shape == SHAPE_GROUP;

		places[i] = (struct place){.bytes = is_ladder(benchmark) ? point->bytes : many,
					   .visit = plan->order[i],
					   .at = i,
					   .spared = point->spared == SPARED_FIRST};
	}
	qsort(places, plan->visit_count, sizeof *places, by_need);
	for (size_t i = 0; i < plan->visit_count; i++)
		plan->order[i] = places[i].visit;
	free(places);
	return 0;
}

/* ---- what was not reached -------------------------------------------------------------------- */

static bool is_reached(const struct visit *visit)
{
	return visit->took_s > 0 || visit->done;
}

size_t budget_unreached(const struct plan *plan)
{
	size_t count = 0;

	for (size_t i = 0; i < plan->visit_count; i++)
		count += !is_reached(&plan->visits[i]);
	return count;
}

void budget_name_unreached(const struct plan *plan, struct text *text)
{
	size_t unnamed = 0;

	for (size_t i = 0, next; i < plan->visit_count; i = next) {
		const struct visit *visit = &plan->visits[i];
		const char *name = plan_point(visit)->name;
		size_t count = 0;

		for (next = i; next < plan->visit_count &&
			       plan_point(&plan->visits[next]) == plan_point(visit);
		     next++)
			count += !is_reached(&plan->visits[next]);
		if (count && text->length > NAMED_BYTES) {
			unnamed++;
			continue;
		}
		if (count)
			text_add(text, "%s%s/%s%s%s", text->length ? ", " : "",
				 visit->choice->benchmark->name, visit->choice->variant->name,
				 *name ? " " : "", name);
		if (count > 1)
			text_add(text, " (%zu)", count);
	}
	if (unnamed)
		text_add(text, " and %zu more points", unnamed);
}
