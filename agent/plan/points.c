/* points.c: the points each choice is measured at, and the memory they take. */
#include "plan/parts.h"

#include "bench/sizes.h"
#include "machine/arena.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const struct point nameless;

uint32_t plan_benchmark_bit(const struct benchmark *benchmark)
{
	size_t i = 0;

	while (bench_all[i] != benchmark)
		i++;
	return UINT32_C(1) << i;
}

/* Lists the sizes of the groups for a use, ascending; the caller frees them. */
static uint32_t *list_thread_counts(const struct plan *plan, uint32_t use, size_t *counted)
{
	uint32_t *counts = calloc(plan->group_count + 1, sizeof *counts);
	size_t count = 0;

	for (size_t i = 0; counts && i < plan->group_count; i++) {
		uint32_t size = (uint32_t)plan->groups[i].count;
		size_t place = count;

		if (!(plan->groups[i].uses & use))
			continue;
		while (place && counts[place - 1] > size)
			place--;
		if (place && counts[place - 1] == size)
			continue;
		memmove(counts + place + 1, counts + place, (count - place) * sizeof *counts);
		counts[place] = size;
		count++;
	}
	*counted = count;
	return counts;
}

/* Reports whether a better variant of the plan does this point already. */
static bool has_better_variant(const struct plan *plan, const struct choice *choice,
			       const struct point *point)
{
	for (const struct choice *other = plan->choices; other < choice; other++)
		if (other->benchmark == choice->benchmark &&
		    choice->benchmark->is_supported(other->variant, point))
			return true;
	return false;
}

/* Adds a point whose memory is on this node, and that of its other threads on that one, which may
 * be NO_NODE. */
static int add_placed_point(struct point point, uint32_t node, uint32_t load_node,
			    struct points *points, struct refusal *refusal)
{
	size_t length = strlen(point.name), room = sizeof point.name - length;
	char load[WORD_ROOM] = "";

	if (load_node != NO_NODE)
		snprintf(load, sizeof load, "-n%u", load_node);
	int used = snprintf(point.name + length, room, "%sn%u%s", length ? "." : "", node, load);

	if ((size_t)used >= room)
		return refuse(refusal, EXIT_OPTIONS, "the point %s has too long a name",
			      point.name);
	point.memory_node = node;
	point.load_node = load_node;
	return points_add(points, &point, refusal);
}

/* Adds a point on each node of --nodes, for both memories where other threads use one of their own.
 * Adds the point alone if the benchmark places no memory. */
static int add_point_on_nodes(const struct plan *plan, const struct benchmark *benchmark,
			      struct point point, struct points *points, struct refusal *refusal)
{
	int err = 0;

	point.memory_node = point.load_node = NO_NODE;
	if (!plan->node_count || !bench_has_nodes(benchmark))
		return points_add(points, &point, refusal);
	for (size_t n = 0; !err && n < plan->node_count; n++) {
		uint32_t node = (uint32_t)plan->nodes[n];

		if (!point.load_variant)
			err = add_placed_point(point, node, NO_NODE, points, refusal);
		for (size_t m = 0; !err && point.load_variant && m < plan->node_count; m++)
			err = add_placed_point(point, node, (uint32_t)plan->nodes[m], points,
					       refusal);
	}
	return err;
}

/* Gives the choice, of all points, those that it is to measure. */
static int keep_chosen_points(const struct plan *plan, struct choice *choice,
			      const struct points *all, struct refusal *refusal)
{
	const struct benchmark *benchmark = choice->benchmark;
	struct points remaining = {0};
	int err = 0;

	for (size_t i = 0; !err && i < all->count; i++) {
		const struct point *point = &all->list[i];

		if (benchmark->is_supported && !benchmark->is_supported(choice->variant, point))
			continue;
		if (benchmark->is_supported && choice->automatic &&
		    has_better_variant(plan, choice, point))
			continue;
		err = add_point_on_nodes(plan, benchmark, *point, &remaining, refusal);
	}
	choice->points = remaining.list;
	choice->point_count = remaining.count;
	return err;
}

/* Fills in the variants of the threads beside ping; a mix needs one that reads and writes. */
static void find_helper_variants(const struct plan *plan, const struct benchmark *helper,
				 struct notes *notes, struct point_context *context)
{
	for (enum operation o = OPERATION_READ; o < OPERATION_SWAP; o++)
		context->helpers[o] = plan_best_variant(plan->machine, helper, o, notes);
	const struct variant *reads = context->helpers[OPERATION_READ];

	context->helpers[OPERATION_MIX] = reads && reads->stream[OPERATION_WRITE] ? reads : NULL;
}

static int make_points(struct plan *plan, struct choice *choice, const struct options *options,
		       struct point_context *context, struct refusal *refusal)
{
	struct points all = {0};

	context->benchmark = choice->benchmark;
	context->variant = choice->variant;
	context->automatic = choice->automatic;
	context->by_node = plan->node_count && bench_has_nodes(choice->benchmark);
	uint32_t *threads = list_thread_counts(plan, plan_benchmark_bit(choice->benchmark),
					       &context->thread_count);

	if (!threads)
		return refuse(refusal, EXIT_OTHER, "out of memory");
	context->threads = threads;
	int err = choice->benchmark->add_points
			  ? choice->benchmark->add_points(options, context, &all, refusal)
			  : points_add(&all, &nameless, refusal);

	if (!err)
		err = keep_chosen_points(plan, choice, &all, refusal);
	if (!err && choice->point_count > UINT16_MAX)
		err = refuse(refusal, EXIT_OPTIONS, "%s: more than %d points",
			     choice->benchmark->name, UINT16_MAX);
	free(all.list);
	free(threads);
	return err;
}

/* Drops choices that are left without a point; each benchmark must keep one. */
static int drop_empty_choices(struct plan *plan, struct refusal *refusal)
{
	size_t remaining = 0;

	for (size_t i = 0; i < plan->choice_count; i++) {
		struct choice *choice = &plan->choices[i];
		bool last = i + 1 == plan->choice_count || choice[1].benchmark != choice->benchmark;
		bool any = remaining && plan->choices[remaining - 1].benchmark == choice->benchmark;

		if (choice->point_count) {
			struct choice moved = *choice;

			choice->points = NULL; /* they belong to one choice, whoever frees them */
			plan->choices[remaining++] = moved;
		} else if (last && !any && choice->benchmark->is_supported)
			return refuse(refusal, EXIT_VARIANT,
				      "%s has no point of the operations and threads asked for",
				      choice->benchmark->name);
	}
	plan->choice_count = remaining;
	return 0;
}

/* Reports whether any point does the operation; one without a load counts for all done at a
 * rate. */
static bool has_operation(const struct plan *plan, const char *name)
{
	for (size_t i = 0; i < plan->choice_count; i++)
		for (size_t p = 0; p < plan->choices[i].point_count; p++) {
			unsigned operation = plan->choices[i].points[p].operation;

			if (plan->choices[i].benchmark->is_supported &&
			    (operation == OPERATION_IDLE ||
			     !strcmp(operation_name(operation), name)))
				return true;
		}
	return false;
}

/* Refuses an operation asked for by name that no variant does; the usual ones may be missing. */
static int check_operations(const struct plan *plan, const char *list, struct refusal *refusal)
{
	char word[WORD_ROOM];

	while (plan_read_word(&list, word))
		if (!has_operation(plan, word))
			return refuse(refusal, EXIT_VARIANT,
				      "--op %s: no variant that is measured here does it", word);
	return 0;
}

static bool has_operations(const struct plan *plan)
{
	for (size_t i = 0; i < plan->choice_count; i++)
		if (plan->choices[i].benchmark->is_supported)
			return true;
	return false;
}

static bool choose_huge_pages(const struct plan *plan, const struct options *options,
			      struct notes *notes)
{
	bool used = false, expected = false;

	for (size_t i = 0; i < plan->choice_count; i++) {
		const struct benchmark *benchmark = plan->choices[i].benchmark;

		used |= benchmark->add_points != NULL;
		expected |= benchmark->add_points &&
			    (benchmark->huge_pages || options_has_pages(options, "huge"));
	}
	if (!used || options_has_pages(options, "base"))
		return false;
	if (machine_huge_page_size(plan->machine))
		return true;
	if (!expected)
		return false;
	notes_add(notes,
		  "No huge pages of up to %d MiB are to be had here: memory lies in base pages.",
		  HUGE_MOST >> 20);
	return false;
}

static uint32_t common_multiple(uint32_t a, uint32_t b)
{
	uint32_t multiple = a;

	while (multiple % b)
		multiple += a;
	return multiple;
}

/* Finds what shapes must be multiples of, and whether gemm is measured beside other benchmarks. */
static void find_shape_multiples(const struct plan *plan, struct notes *notes,
				 struct point_context *context)
{
	context->rows = context->columns = context->depth = 1;
	for (size_t i = 0; i < plan->choice_count; i++) {
		const struct gemm *gemm = plan->choices[i].variant->gemm;

		if (!gemm) {
			context->others = notes;
			continue;
		}
		context->rows = common_multiple(context->rows, gemm->rows);
		context->columns = common_multiple(context->columns, gemm->block);
		context->depth = common_multiple(context->depth, gemm->depth);
	}
}

int plan_make_points(struct plan *plan, const struct options *options, struct notes *notes,
		     struct refusal *refusal)
{
	struct point_context context = {.facts = &plan->facts,
					.flushes = plan->machine->features & FEATURE_FLUSH,
					.cache_bytes = plan->cache_bytes,
					.cpu_count = plan->cpu_count,
					.base_asked = options_has_pages(options, "base"),
					.huge_asked = options_has_pages(options, "huge"),
					.huge_pages = choose_huge_pages(plan, options, notes)};
	int err = 0;

	find_shape_multiples(plan, notes, &context);
	for (size_t i = 0; i < plan->choice_count; i++)
		if (plan->choices[i].benchmark->helper && !context.helpers[OPERATION_READ])
			find_helper_variants(plan, plan->choices[i].benchmark->helper, notes,
					     &context);
	for (size_t i = 0; !err && i < plan->choice_count; i++)
		err = make_points(plan, &plan->choices[i], options, &context, refusal);
	if (err || drop_empty_choices(plan, refusal))
		return -1;
	return has_operations(plan) ? check_operations(plan, options->operations, refusal) : 0;
}

/* Reserves the arenas of a visit. Which CPU of a pair has the memory that both use changes from
 * round to round. */
static int reserve_arenas_of_visit(const struct plan *plan, const struct visit *visit)
{
	const struct point *point = plan_visit_point(visit);
	int pair[PAIR_THREADS], err = 0;
	size_t count;
	const int *cpus = plan_visit_cpus(plan, visit, 0, pair, &count);
	bool first_only = point->one_arena && visit->choice->benchmark->shape == SHAPE_GROUP;

	for (size_t i = 0; !err && point->arena_bytes && i < (first_only ? 1 : count); i++)
		err = arena_reserve(point_arena_owner(point, cpus, i), point->huge_pages,
				    point_choose_node(point, i, plan->placement.node),
				    point_arena_bytes(point, i));
	for (size_t i = 0; !err && point->walk_bytes && i < count; i++)
		err = arena_reserve(cpus[i], point->walk_huge, -1, point->walk_bytes);
	return err;
}

/* Reserves the arenas of the visits at a point. Of a pair's memory each CPU has as much, whoever
 * the other is: a pair whose CPUs both have theirs, as most have, is passed over. `reserved` is the
 * last point whose arenas were reserved for each CPU. Returns 0 or -ENOMEM. */
static int reserve_arenas_of_point(const struct plan *plan, const struct point *point,
				   const struct point **reserved)
{
	const struct visit *first = plan->visits + point->first_visit;
	int err = 0;

	if (!point->arena_bytes && !point->walk_bytes)
		return 0;
	for (size_t i = 0; !err && i < point->visit_count; i++) {
		const struct visit *visit = first + i;
		bool is_pair = visit->choice->benchmark->shape == SHAPE_PAIR &&
			       point->threads < PAIR_THREADS;

		if (is_pair && reserved[visit->a] == point && reserved[visit->b] == point)
			continue;
		err = reserve_arenas_of_visit(plan, visit);
		if (is_pair)
			reserved[visit->a] = reserved[visit->b] = point;
	}
	return err;
}

static int reserve_arenas_of_points(const struct plan *plan)
{
	const struct point **reserved = calloc(plan->cpu_count, sizeof *reserved);
	int err = reserved ? 0 : -ENOMEM;

	for (size_t i = 0; i < plan->choice_count; i++)
		for (size_t p = 0; !err && p < plan->choices[i].point_count; p++)
			err = reserve_arenas_of_point(plan, &plan->choices[i].points[p], reserved);
	free(reserved);
	return err;
}

int plan_reserve_arenas(struct plan *plan, uint64_t *total, struct refusal *refusal)
{
	arena_clear_reservations();
	if (reserve_arenas_of_points(plan))
		return refuse(refusal, EXIT_OTHER, "out of memory");
	*total = arena_total_bytes(plan->machine->page_bytes, plan->machine->huge_page_bytes,
				   ALL_NODES);
	return 0;
}
