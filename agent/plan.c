/* plan.c: from the options to a plan for this machine, and the order of its visits. */
#include "plan.h"

#include "budget.h"
#include "plan_parts.h"

#include <stdlib.h>
#include <string.h>

enum { ROUNDS_FOR_PRECISION = 1000, SAMPLES_SLOW = 3 };

static int check_cpu_count(const struct plan *plan, struct refusal *refusal)
{
	for (size_t i = 0; i < plan->choice_count; i++) {
		const struct benchmark *benchmark = plan->choices[i].benchmark;

		if (benchmark->shape == SHAPE_PAIR && plan->cpu_count < 2)
			return refuse(refusal, EXIT_TOO_FEW_CPUS,
				      "%s needs two CPUs, and the only one it may use is CPU %d",
				      benchmark->name, plan->cpus[0]);
	}
	return 0;
}

static int check_node(int64_t node, struct refusal *refusal)
{
	int err = node == NOT_GIVEN ? 0 : os_node_check((int)node);

	if (!err)
		return 0;
	return refuse(refusal, EXIT_CPU, "NUMA node %d cannot be used: %s", (int)node,
		      strerror(-err));
}

static struct placement placement_of(const struct options *options)
{
	return (struct placement){.fixed = !strcmp(options->line, "fixed"),
				  .owner_pong = !strcmp(options->owner, "pong"),
				  .huge_page = options->huge_page,
				  .node = (int)options->node,
				  .separation_bytes = (uint32_t)options->separation};
}

int plan_make(struct plan *plan, const struct options *options, int *cpus, size_t cpu_count,
	      struct notes *notes, struct refusal *refusal)
{
	uint32_t rounds = (uint32_t)options->rounds;
	bool more = options->precision_ppm && rounds < ROUNDS_FOR_PRECISION;

	*plan = (struct plan){.cpus = cpus,
			      .cpu_count = cpu_count,
			      .sequential = !strcmp(options->order, "sequential"),
			      .samples = (uint32_t)options->samples,
			      .samples_given = options->samples_given,
			      .warmup = (uint32_t)options->warmup,
			      .rounds = options->rounds_sure,
			      .rounds_wanted = rounds,
			      .rounds_max = more ? ROUNDS_FOR_PRECISION : rounds,
			      .iterations = (uint32_t)options->iterations,
			      .precision_ppm = (uint32_t)options->precision_ppm,
			      .time_budget_ns = options->time_budget_ns,
			      .budget_ends = options->budget_ends,
			      .spread_ns = options->spread_ns,
			      .seed = options->seed,
			      .preset = options->preset,
			      .estimator = options->estimator,
			      .placement = placement_of(options)};
	if (options->cpus && plan_choose_cpus(plan, options->cpus, refusal))
		return -1;
	if (plan->cpu_count > UINT16_MAX)
		return refuse(refusal, EXIT_OPTIONS, "--cpus: at most %d CPUs at once", UINT16_MAX);
	if (plan_choose_benchmarks(plan, options, notes, refusal) ||
	    check_cpu_count(plan, refusal) || check_node(options->node, refusal) ||
	    plan_make_groups(plan, options, refusal) ||
	    plan_make_points(plan, options, notes, refusal) ||
	    plan_make_visits(plan, options, refusal) ||
	    budget_shorten(plan, options, notes, refusal) || plan_want_memory(plan, refusal))
		return -1;
	return options->done ? plan_take_done(plan, options->done, refusal) : 0;
}

/* Puts a value into a list of `count`, at a place drawn. */
static void shuffle_in(uint32_t *list, size_t count, uint32_t value, struct random *random)
{
	size_t place = random_below(random, count + 1);

	list[count] = list[place];
	list[place] = value;
}

/* Is it one of plan->blocks, but not of the first? Then the visit of the first brings it along. */
static bool follows(const struct plan *plan, size_t visit)
{
	for (size_t b = 1; b < plan->block_count; b++)
		if (visit - plan->blocks[b] < plan->block_visits)
			return true;
	return false;
}

/* Puts the other visits to the pairs of the first `heads` of the order after each, from the end. */
static void expand(struct plan *plan, size_t heads, struct random *random)
{
	size_t end = plan->visit_count;

	while (heads-- > 0 && end > heads + 1) {
		uint32_t head = plan->order[heads];
		size_t pair = head - plan->blocks[0], count = 0;
		bool leads = pair < plan->block_visits;

		end -= leads ? plan->block_count : 1;
		if (!leads)
			plan->order[end] = head;
		for (; leads && count < plan->block_count; count++)
			shuffle_in(plan->order + end, count, (uint32_t)(plan->blocks[count] + pair),
				   random);
	}
}

struct random plan_shuffle(struct plan *plan, uint32_t round)
{
	struct random random = random_start(plan->seed, round);
	size_t heads = 0;

	for (size_t i = 0; i < plan->visit_count; i++)
		if (plan->sequential)
			plan->order[i] = (uint32_t)i;
		else if (!follows(plan, i))
			shuffle_in(plan->order, heads++, (uint32_t)i, &random);
	if (!plan->sequential && plan->block_count > 1)
		expand(plan, heads, &random);
	if (plan->budget_ends && !plan->sequential && round == 0)
		budget_order(plan);
	return random;
}

int plan_first_cpu(const struct plan *plan, const struct visit *visit)
{
	bool group = visit->choice->benchmark->shape == SHAPE_GROUP;

	return group ? plan->groups[visit->a].cpus[0] : plan->cpus[visit->a];
}

int plan_last_cpu(const struct plan *plan, const struct visit *visit)
{
	if (visit->choice->benchmark->shape != SHAPE_GROUP)
		return plan->cpus[visit->b];
	const struct group *group = &plan->groups[visit->b];

	return group->cpus[group->count - 1];
}

/* Neither of the two, of another core if there is one. */
static int third_cpu(const struct plan *plan, size_t a, size_t b)
{
	int found = plan->cpus[a];

	for (size_t i = plan->cpu_count; i--;) {
		bool apart = plan->cores && plan->cores[i] != plan->cores[a] &&
			     plan->cores[i] != plan->cores[b];

		if (i != a && i != b && (apart || found == plan->cpus[a]))
			found = plan->cpus[i];
	}
	return found;
}

const int *plan_cpus(const struct plan *plan, const struct visit *visit, uint32_t round,
		     int pair[PAIR_THREADS], size_t *count)
{
	bool swapped = plan->pairs != PAIRS_ORDERED && round % 2;

	if (visit->choice->benchmark->shape == SHAPE_GROUP) {
		*count = plan->groups[visit->a].count;
		return plan->groups[visit->a].cpus;
	}
	*count = visit->a == visit->b ? 1 : 2;
	pair[0] = plan->cpus[swapped ? visit->b : visit->a];
	pair[1] = plan->cpus[swapped ? visit->a : visit->b];
	if (plan_point(visit)->threads == PAIR_THREADS) {
		*count = PAIR_THREADS;
		pair[2] = pair[1];
		pair[1] = third_cpu(plan, visit->a, visit->b);
	}
	return pair;
}

const struct point *plan_point(const struct visit *visit)
{
	return &visit->choice->points[visit->point];
}

uint64_t plan_units(const struct visit *visit)
{
	return visit->iterations * bench_grain(visit->choice->benchmark, plan_point(visit));
}

static bool has_usual_samples(const struct plan *plan)
{
	return !plan->samples_given && !plan->preset;
}

uint32_t plan_samples_of(const struct plan *plan, const struct benchmark *benchmark)
{
	return has_usual_samples(plan) ? benchmark->samples : plan->samples;
}

uint32_t plan_samples(const struct plan *plan, const struct visit *visit)
{
	bool few = visit->slow && has_usual_samples(plan);

	return plan->warmup +
	       (few ? SAMPLES_SLOW : plan_samples_of(plan, visit->choice->benchmark));
}

size_t plan_threads_most(const struct plan *plan)
{
	size_t most = PAIR_THREADS;

	for (size_t i = 0; i < plan->group_count; i++)
		if (plan->groups[i].count > most)
			most = plan->groups[i].count;
	return most;
}

void plan_list(FILE *out, const int *cpus, size_t cpu_count)
{
	struct text text = {0};

	text_add_cpus(&text, cpus, cpu_count);
	fprintf(out, "cpus       %s\n", text.data);
	for (size_t b = 0; bench_all[b]; b++) {
		text_clear(&text);
		plan_add_variants(&text, bench_all[b]);
		fprintf(out, "%-10s %s\n", bench_all[b]->name, text.data);
	}
	text_free(&text);
}

void plan_free(struct plan *plan)
{
	for (size_t i = 0; i < plan->choice_count; i++)
		free(plan->choices[i].points);
	for (size_t i = 0; i < plan->group_count; i++)
		free(plan->groups[i].cpus);
	for (size_t i = 0; plan->visits && i < plan->visit_count; i++)
		free(plan->visits[i].medians);
	free(plan->cpus);
	free(plan->cores);
	free(plan->choices);
	free(plan->groups);
	free(plan->visits);
	free(plan->blocks);
	free(plan->order);
	*plan = (struct plan){0};
}

int *plan_copy_cpus(const int *cpus, size_t count)
{
	int *copy = calloc(count, sizeof *copy);

	return copy ? memcpy(copy, cpus, count * sizeof *copy) : NULL;
}
