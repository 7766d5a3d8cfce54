/* plan.c: see plan.h. */
#include "plan/plan.h"

#include "base/stop.h"
#include "plan/parts.h"

#include <stdlib.h>
#include <string.h>

enum { SAMPLES_SLOW = 3 };

#define BUDGET_USUAL_NS (10 * NS_PER_S)

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

/* Returns a CPU other than the two, on another core if there is one. */
static int choose_third_cpu(const struct plan *plan, size_t a, size_t b)
{
	int third = plan->cpus[a];

	for (size_t i = plan->cpu_count; i--;) {
		bool apart = plan->cores && plan->cores[i] != plan->cores[a] &&
			     plan->cores[i] != plan->cores[b];

		if (i != a && i != b && (apart || third == plan->cpus[a]))
			third = plan->cpus[i];
	}
	return third;
}

const int *plan_visit_cpus(const struct plan *plan, const struct visit *visit, uint32_t round,
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
	if (plan_visit_point(visit)->threads == PAIR_THREADS) {
		*count = PAIR_THREADS;
		pair[2] = pair[1];
		pair[1] = choose_third_cpu(plan, visit->a, visit->b);
	}
	return pair;
}

const struct point *plan_visit_point(const struct visit *visit)
{
	return &visit->choice->points[visit->point];
}

bool plan_is_ladder(const struct benchmark *benchmark)
{
	return bench_has_name(benchmark, "chase") || bench_has_name(benchmark, "bandwidth");
}

uint32_t plan_sample_count(const struct plan *plan, bool slow)
{
	return plan->warmup + (slow && !plan->samples_given ? SAMPLES_SLOW : plan->samples);
}

size_t plan_max_threads(const struct plan *plan)
{
	size_t most = PAIR_THREADS;

	for (size_t i = 0; i < plan->group_count; i++)
		if (plan->groups[i].count > most)
			most = plan->groups[i].count;
	return most;
}

int64_t plan_round_interval_ns(const struct plan *plan)
{
	return plan->spread_ns / (plan->rounds_wanted > 1 ? plan->rounds_wanted - 1 : 1);
}

int64_t plan_least_budget_ns(const struct plan *plan)
{
	int64_t spread_ns = plan->rounds_wanted * plan_round_interval_ns(plan);

	if (plan->time_budget_ns)
		return plan->time_budget_ns;
	return spread_ns > BUDGET_USUAL_NS ? spread_ns : BUDGET_USUAL_NS;
}

int *plan_copy_cpus(const int *cpus, size_t count)
{
	int *copy = calloc(count, sizeof *copy);

	return copy ? memcpy(copy, cpus, count * sizeof *copy) : NULL;
}
