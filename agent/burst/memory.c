/* memory.c: which arenas the threads of a burst work on. */
#include "burst/worker.h"

/* Returns the thread whose arena all work on: the one that touches lines first. */
static size_t arena_owner(const struct burst_order *order)
{
	bool pong = order->placement.owner_pong && order->benchmark->shape == SHAPE_PAIR;

	return pong ? order->cpu_count - 1 : 0;
}

/* Offers a side the cycle in its arena if this point can reuse it; else drops the cycle. */
static void reuse_or_drop_cycle(struct arena *arena, const struct point *point, struct side *side)
{
	uint64_t kind = side->index ? 0 : point->cycle;

	if (!kind || arena->cycle_kind != kind)
		arena->cycle = NULL;
	arena->cycle_kind = kind;
	side->cycle = &arena->cycle;
}

int burst_acquire_arenas(struct burst *burst)
{
	const struct burst_order *order = &burst->order;
	size_t owner = arena_owner(order);
	int err = 0;

	for (size_t i = 0; !err && order->point->arena_bytes && i < burst->count; i++)
		if (i == owner || !order->point->one_arena)
			err = arena_acquire(
				point_arena_owner(order->point, order->cpus, i),
				order->point->huge_pages,
				point_choose_node(order->point, i, order->placement.node),
				&burst->workers[i].arena);
	for (size_t i = 0; !err && order->point->walk_bytes && i < burst->count; i++) {
		err = arena_acquire(order->cpus[i], order->point->walk_huge, -1,
				    &burst->workers[i].walk);
		burst->sides[i].walk = err ? NULL : burst->workers[i].walk->start;
	}
	for (size_t i = 0; !err && order->point->arena_bytes && i < burst->count; i++) {
		size_t from = order->point->one_arena ? owner : i;

		burst->sides[i].arena = burst->workers[from].arena->start;
		reuse_or_drop_cycle(burst->workers[from].arena, order->point, &burst->sides[i]);
	}
	return err;
}

void burst_abandon_arenas(const struct worker *worker)
{
	if (worker->arena)
		arena_abandon(worker->arena);
	if (worker->walk)
		arena_abandon(worker->walk);
}
