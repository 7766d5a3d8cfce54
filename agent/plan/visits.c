/* visits.c: which CPUs, pairs and groups a round visits, and at which points. */
#include "plan/parts.h"

#include <stdlib.h>
#include <string.h>

struct pair {
	int a, b; /* a < b */
};

/* The pairs of a list; null: no list, so all. */
struct pair_list {
	struct pair *list;
	size_t count;
};

/* The lists of --pairs and --few-pairs. */
struct listed {
	struct pair_list usual, few;
};

static int compare_pairs(const void *left, const void *right)
{
	const struct pair *p = left, *q = right;

	if (p->a != q->a)
		return p->a < q->a ? -1 : 1;
	return (p->b > q->b) - (p->b < q->b);
}

/* Reads 0-1 or 0:1 and moves past it. Returns 0, or -1 and a refusal. */
static int read_pair(const struct plan *plan, const char **next, struct pair *pair,
		     struct refusal *refusal)
{
	const char *from = *next, *end;
	uint64_t sides[2];
	bool read = (end = text_read_number(from, INT32_MAX, &sides[0])) &&
		    (*end == '-' || *end == ':') &&
		    (end = text_read_number(end + 1, INT32_MAX, &sides[1]));

	if (!read || (*end && *end != ','))
		return refuse(
			refusal, EXIT_OPTIONS,
			"--pairs is half, ordered or a list like 0-1,0-4, and cannot have '%.*s'",
			(int)strcspn(from, ","), from);
	*next = end;
	if (sides[0] == sides[1])
		return refuse(refusal, EXIT_OPTIONS, "--pairs has CPU %d with itself",
			      (int)sides[0]);
	for (int i = 0; i < 2; i++)
		if (plan_find_cpu(plan, (long)sides[i]) < 0)
			return plan_refuse_cpu(plan, (long)sides[i], refusal);
	pair->a = (int)(sides[0] < sides[1] ? sides[0] : sides[1]);
	pair->b = (int)(sides[0] < sides[1] ? sides[1] : sides[0]);
	return 0;
}

static int check_repeats(const struct pair *pairs, size_t count, struct refusal *refusal)
{
	for (size_t i = 1; i < count; i++)
		if (!compare_pairs(&pairs[i - 1], &pairs[i]))
			return refuse(refusal, EXIT_OPTIONS, "--pairs has %d-%d twice", pairs[i].a,
				      pairs[i].b);
	return 0;
}

/* Reads the list into a fresh array, ascending; the caller frees it. */
static int read_pairs(const struct plan *plan, const char *list, struct pair_list *pairs,
		      struct refusal *refusal)
{
	size_t room = 1;
	int err = 0;

	for (const char *next = list; *next; next++)
		room += *next == ',';
	pairs->list = calloc(room, sizeof *pairs->list);
	if (!pairs->list)
		return refuse(refusal, EXIT_OTHER, "out of memory for %zu pairs", room);
	for (; !err; list++) {
		err = read_pair(plan, &list, &pairs->list[pairs->count], refusal);
		pairs->count++;
		if (!*list)
			break;
	}
	if (err)
		return err;
	qsort(pairs->list, pairs->count, sizeof *pairs->list, compare_pairs);
	return check_repeats(pairs->list, pairs->count, refusal);
}

/* Keeps only the CPUs of the listed pairs in plan->cpus. */
static int keep_listed_cpus(struct plan *plan, const struct listed *listed, struct refusal *refusal)
{
	const struct pair_list *lists[] = {&listed->usual, &listed->few};
	bool *wanted = calloc(plan->cpu_count, sizeof *wanted);
	size_t count = 0;

	if (!wanted)
		return refuse(refusal, EXIT_OTHER, "out of memory");
	for (size_t k = 0; k < 2; k++)
		for (size_t i = 0; i < lists[k]->count; i++) {
			wanted[plan_find_cpu(plan, lists[k]->list[i].a)] = true;
			wanted[plan_find_cpu(plan, lists[k]->list[i].b)] = true;
		}
	for (size_t i = 0; i < plan->cpu_count; i++)
		if (wanted[i]) {
			if (plan->cores)
				plan->cores[count] = plan->cores[i];
			plan->cpus[count++] = plan->cpus[i];
		}
	plan->cpu_count = count;
	free(wanted);
	return 0;
}

/* Where visits are added; while they are only counted, `visits` is null. */
struct adding {
	struct visit *visits;
	size_t count;
};

static void add_visit(struct adding *adding, const struct visit *kind, size_t a, size_t b)
{
	if (adding->visits) {
		struct visit *visit = &adding->visits[adding->count];

		*visit = *kind;
		visit->a = (uint16_t)a;
		visit->b = (uint16_t)b;
	}
	adding->count++;
}

static void add_all_pairs(const struct plan *plan, struct adding *adding, const struct visit *kind)
{
	for (size_t a = 0; a < plan->cpu_count; a++)
		for (size_t b = plan->pairs == PAIRS_ORDERED ? 0 : a + 1; b < plan->cpu_count; b++)
			if (a != b)
				add_visit(adding, kind, a, b);
}

static void add_pairs(const struct plan *plan, struct adding *adding, const struct visit *kind,
		      const struct pair_list *listed)
{
	if (!listed->list) {
		add_all_pairs(plan, adding, kind);
		return;
	}
	for (size_t i = 0; i < listed->count; i++)
		add_visit(adding, kind, (size_t)plan_find_cpu(plan, listed->list[i].a),
			  (size_t)plan_find_cpu(plan, listed->list[i].b));
}

/* Reports whether a group has the point's size and serves its benchmark; single CPUs serve all. */
static bool is_group_for(const struct group *group, const struct visit *kind)
{
	return group->count == plan_visit_point(kind)->threads &&
	       (group->count == 1 || group->uses & plan_benchmark_bit(kind->choice->benchmark));
}

/* Adds the visits at one point: of each CPU, each pair, or each group of the point's size. */
static void add_visits(const struct plan *plan, struct adding *adding, const struct visit *kind,
		       const struct listed *listed)
{
	switch (kind->choice->benchmark->shape) {
	case SHAPE_CPU:
		for (size_t i = 0; i < plan->cpu_count; i++)
			add_visit(adding, kind, i, i);
		break;
	case SHAPE_PAIR:
		add_pairs(plan, adding, kind,
			  kind->choice->benchmark->many_points && listed->few.list
				  ? &listed->few
				  : &listed->usual);
		break;
	case SHAPE_GROUP:
		for (size_t i = 0; i < plan->group_count; i++)
			if (is_group_for(&plan->groups[i], kind))
				add_visit(adding, kind, i, i);
		break;
	}
}

/* Reports whether the benchmark's visits to a pair are made together with those of others. */
static bool is_visited_in_blocks(const struct benchmark *benchmark)
{
	return benchmark->shape == SHAPE_PAIR && !benchmark->many_points;
}

static void add_all_visits(struct plan *plan, struct adding *adding, const struct listed *listed)
{
	adding->count = plan->block_count = 0;
	for (size_t i = 0; i < plan->choice_count; i++) {
		const struct benchmark *benchmark = plan->choices[i].benchmark;

		for (size_t p = 0; p < plan->choices[i].point_count; p++) {
			struct point *point = &plan->choices[i].points[p];
			const struct visit kind = {.choice = &plan->choices[i],
						   .point = (uint16_t)p};

			point->first_visit = adding->count;
			if (plan->blocks && is_visited_in_blocks(benchmark))
				plan->blocks[plan->block_count++] = adding->count;
			add_visits(plan, adding, &kind, listed);
			point->visit_count = adding->count - point->first_visit;
		}
	}
}

/* Allocates room for as many blocks as there are points. */
static size_t *allocate_blocks(const struct plan *plan)
{
	size_t points = 0;

	for (size_t i = 0; i < plan->choice_count; i++)
		points += plan->choices[i].point_count;
	return calloc(points, sizeof *plan->blocks);
}

/* Allocates room for the plan's visits and blocks. A plan that is made again has fewer points, for
 * which the first room suffices: giving it back and mapping it anew took most of the time. */
static int allocate_visits(struct plan *plan, const struct listed *listed, struct refusal *refusal)
{
	struct adding adding = {0};

	if (plan->visits)
		return 0;
	add_all_visits(plan, &adding, listed);
	plan->visits = calloc(adding.count, sizeof *plan->visits);
	plan->blocks = allocate_blocks(plan);
	if (!plan->visits || !plan->blocks || adding.count > UINT32_MAX)
		return refuse(refusal, EXIT_OTHER, "out of memory for %zu visits", adding.count);
	return 0;
}

static int make_visits(struct plan *plan, const struct listed *listed, struct refusal *refusal)
{
	if (allocate_visits(plan, listed, refusal))
		return -1;
	struct adding adding = {.visits = plan->visits};

	plan->block_visits = plan->pair_count;
	add_all_visits(plan, &adding, listed);
	plan->visit_count = adding.count;
	return 0;
}

/* Reports whether a point needs a third CPU, which may be in no pair. */
static bool needs_third_cpu(const struct plan *plan)
{
	for (size_t i = 0; i < plan->choice_count; i++)
		for (size_t p = 0; p < plan->choices[i].point_count; p++)
			if (plan->choices[i].benchmark->shape == SHAPE_PAIR &&
			    plan->choices[i].points[p].threads == PAIR_THREADS)
				return true;
	return false;
}

static int read_lists(struct plan *plan, const struct options *options, struct listed *listed,
		      struct refusal *refusal)
{
	bool all = plan->pairs != PAIRS_LISTED;

	if ((!all && read_pairs(plan, options->pairs, &listed->usual, refusal)) ||
	    (options->few_pairs && read_pairs(plan, options->few_pairs, &listed->few, refusal)))
		return -1;
	if (!all)
		plan->pair_count = listed->usual.count;
	return all || needs_third_cpu(plan) ? 0 : keep_listed_cpus(plan, listed, refusal);
}

int plan_make_visits(struct plan *plan, const struct options *options, struct refusal *refusal)
{
	size_t n = plan->cpu_count;
	struct listed listed = {{0}, {0}};

	plan->pairs = !strcmp(options->pairs, "half")      ? PAIRS_HALF
		      : !strcmp(options->pairs, "ordered") ? PAIRS_ORDERED
							   : PAIRS_LISTED;
	plan->pair_count = plan->pairs == PAIRS_ORDERED ? n * (n - 1) : n * (n - 1) / 2;
	int err = read_lists(plan, options, &listed, refusal);

	if (!err)
		err = make_visits(plan, &listed, refusal);
	free(listed.usual.list);
	free(listed.few.list);
	return err;
}
