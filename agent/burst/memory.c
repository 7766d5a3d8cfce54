/* memory.c: which arenas the threads of a burst work on. */
#include "burst/worker.h"

/* Who has the arena that all work on: the thread that also would touch lines first. */
static size_t owner_of(const struct burst_order *order)
{
	bool pong = order->placement.owner_pong && order->benchmark->shape == SHAPE_PAIR;

	return pong ? order->cpu_count - 1 : 0;
}

/* What an arena holds for other points is lost to those that come. */
static void take_cycle(struct arena *arena, const struct point *point, struct side *side)
{
	uint64_t kind = side->index ? 0 : point->cycle;

	if (!kind || arena->cycle_kind != kind)
		arena->cycle = NULL;
	arena->cycle_kind = kind;
	side->cycle = &arena->cycle;
}

int burst_take_arenas(struct burst *burst)
{
	const struct burst_order *order = &burst->order;
	size_t owner = owner_of(order);
	int err = 0;

	for (size_t i = 0; !err && order->point->arena_bytes && i < burst->count; i++)
		if (i == owner || !order->point->one_arena)
			err = arena_take(point_arena_of(order->point, order->cpus, i),
					 order->point->huge_pages,
					 point_node_of(order->point, i, order->placement.node),
					 &burst->workers[i].arena);
	for (size_t i = 0; !err && order->point->walk_bytes && i < burst->count; i++) {
		err = arena_take(order->cpus[i], order->point->walk_huge, -1,
				 &burst->workers[i].walk);
		burst->sides[i].walk = err ? NULL : burst->workers[i].walk->start;
	}
	for (size_t i = 0; !err && order->point->arena_bytes && i < burst->count; i++) {
		size_t from = order->point->one_arena ? owner : i;

		burst->sides[i].arena = burst->workers[from].arena->start;
		take_cycle(burst->workers[from].arena, order->point, &burst->sides[i]);
	}
	return err;
}

void burst_leave_arenas(const struct worker *worker)
{
	if (worker->arena)
		arena_leave(worker->arena);
	if (worker->walk)
		arena_leave(worker->walk);
}
