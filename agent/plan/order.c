/* order.c: in which order a round makes its visits. */
#include "plan/parts.h"

#include <stdlib.h>

/* Inserts a value into a list of `count` at a random place. */
static void insert_at_random(uint32_t *list, size_t count, uint32_t value, struct random *random)
{
	size_t place = random_below(random, count + 1);

	list[count] = list[place];
	list[place] = value;
}

/* Returns which of plan->blocks a visit is in; plan->block_count: none. */
static size_t find_block(const struct plan *plan, size_t visit)
{
	size_t b = 0;

	while (b < plan->block_count && visit - plan->blocks[b] >= plan->block_visits)
		b++;
	return b;
}

/* Reports whether a visit is in a block other than the first, whose visit brings it along. */
static bool is_companion_visit(const struct plan *plan, size_t visit)
{
	size_t b = find_block(plan, visit);

	return b > 0 && b < plan->block_count;
}

size_t plan_list_visits_made_together(const struct plan *plan, size_t visit, size_t *visits)
{
	size_t b = find_block(plan, visit), count = b < plan->block_count ? plan->block_count : 1;

	visits[0] = visit;
	for (size_t k = 1; k < count; k++)
		visits[k] = plan->blocks[(b + k) % count] + visit - plan->blocks[b];
	return count;
}

/* Replaces each of the first `heads` visits of the order that is in the first block by all visits
 * to its pair, in random order. Goes from the end, so that no head is overwritten. */
static void insert_companions(const struct plan *plan, uint32_t *order, size_t heads,
			      struct random *random)
{
	size_t end = plan->visit_count;

	while (heads-- > 0 && end > heads + 1) {
		uint32_t head = order[heads];
		size_t pair = head - plan->blocks[0], count = 0;
		bool leads = pair < plan->block_visits;

		end -= leads ? plan->block_count : 1;
		if (!leads)
			order[end] = head;
		for (; leads && count < plan->block_count; count++)
			insert_at_random(order + end, count, (uint32_t)(plan->blocks[count] + pair),
					 random);
	}
}

struct place {
	uint64_t bytes;
	uint32_t visit;
	size_t order;
	bool spared;
};

static int compare_need(const void *left, const void *right)
{
	const struct place *p = left, *q = right;

	if (p->spared != q->spared)
		return p->spared ? 1 : -1;
	if (p->bytes != q->bytes)
		return p->bytes < q->bytes ? -1 : 1;
	return (p->order > q->order) - (p->order < q->order);
}

/* Orders visits by need: what can be spared last, small sizes first. */
static void order_by_need(const struct plan *plan, uint32_t *order)
{
	struct place *places = calloc(plan->visit_count, sizeof *places);

	if (!places)
		return;
	for (size_t i = 0; i < plan->visit_count; i++) {
		const struct visit *visit = &plan->visits[order[i]];
		const struct point *point = plan_visit_point(visit);
		const struct benchmark *benchmark = visit->choice->benchmark;
		bool many = benchmark->many_points || benchmark->shape == SHAPE_GROUP;

		places[i] = (struct place){.bytes = plan_is_ladder(benchmark) ? point->bytes : many,
					   .visit = order[i],
					   .order = i,
					   .spared = point->spared == SPARED_FIRST};
	}
	qsort(places, plan->visit_count, sizeof *places, compare_need);
	for (size_t i = 0; i < plan->visit_count; i++)
		order[i] = places[i].visit;
	free(places);
}

struct random plan_order_visits(const struct plan *plan, uint32_t round, uint32_t *order)
{
	struct random random = random_start(plan->seed, round);
	size_t heads = 0;

	for (size_t i = 0; i < plan->visit_count; i++)
		if (plan->sequential)
			order[i] = (uint32_t)i;
		else if (!is_companion_visit(plan, i))
			insert_at_random(order, heads++, (uint32_t)i, &random);
	if (!plan->sequential && plan->block_count > 1)
		insert_companions(plan, order, heads, &random);
	if (plan->budget_ends && !plan->sequential && round == 0)
		order_by_need(plan, order);
	return random;
}
