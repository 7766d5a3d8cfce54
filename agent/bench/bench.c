/* bench.c: what all benchmarks have in common. */
#include "bench/bench.h"

#include <string.h>

const struct variant *bench_variant(const struct benchmark *benchmark, size_t i)
{
	const struct variant *tables[] = {benchmark->native_variants, benchmark->generic_variants};

	for (size_t t = 0; t < 2; t++)
		for (const struct variant *v = tables[t]; v && v->name; v++)
			if (i-- == 0)
				return v;
	return NULL;
}

void bench_report_progress(struct side *side)
{
	__atomic_store_n(side->progress, *side->progress + 1, __ATOMIC_RELAXED);
}

const char *operation_name(unsigned operation)
{
	static const char *const names[] = {
		[OPERATION_READ] = "read",     [OPERATION_WRITE] = "write",
		[OPERATION_NT] = "nt",         [OPERATION_ZERO] = "zero",
		[OPERATION_MODIFY] = "modify", [OPERATION_COPY] = "copy",
		[OPERATION_NTCOPY] = "ntcopy", [OPERATION_SWAP] = "swap",
		[OPERATION_FAA] = "faa",       [OPERATION_CAS] = "cas",
		[OPERATION_STORE] = "store",   [OPERATION_TURN] = "turn",
		[OPERATION_WATCH] = "watch",   [OPERATION_WATCH_ALL] = "watch-all",
		[OPERATION_TICKET] = "ticket", [OPERATION_MCS] = "mcs",
		[OPERATION_MIX] = "mix",       [OPERATION_IDLE] = "idle",
	};

	return names[operation];
}

bool bench_has_name(const struct benchmark *benchmark, const char *name)
{
	return !strcmp(benchmark->name, name);
}

bool bench_has_nodes(const struct benchmark *benchmark)
{
	for (const struct parameter *p = benchmark->parameters; p && p->name; p++)
		if (p->node)
			return true;
	return false;
}

uint64_t bench_units_in_grain(const struct benchmark *benchmark, const struct point *point)
{
	if (benchmark->units_in_grain)
		return benchmark->units_in_grain(point);
	return benchmark->grain_units ? benchmark->grain_units : 1;
}

uint64_t point_arena_bytes(const struct point *point, size_t thread)
{
	return thread && point->load_bytes ? point->load_bytes : point->arena_bytes;
}

int point_arena_owner(const struct point *point, const int *cpus, size_t thread)
{
	return point->memory_node == NO_NODE ? cpus[thread] : (int)thread;
}

int point_choose_node(const struct point *point, size_t thread, int usual)
{
	uint32_t node =
		thread && point->load_node != NO_NODE ? point->load_node : point->memory_node;

	return node == NO_NODE ? usual : (int)node;
}

double bench_combine_ticks(const struct benchmark *benchmark, const uint64_t *ticks, size_t threads,
			   size_t apart)
{
	double sum = 0, rate = 0;

	for (size_t i = 0; i < threads; i++) {
		sum += (double)ticks[i * apart];
		rate += 1 / (double)ticks[i * apart];
	}
	return benchmark->shape == SHAPE_PAIR ? sum / (double)threads : 1 / rate;
}

const char *order_name(unsigned order)
{
	static const char *const names[] = {
		[ORDER_RANDOM] = "random", [ORDER_WINDOW] = "window", [ORDER_RISING] = "rising",
		[ORDER_CHASE] = "chase",   [ORDER_STREAM] = "stream",
	};

	return names[order];
}

const char *sharing_name(unsigned sharing)
{
	static const char *const names[] = {[SHARING_OWN] = "own",
					    [SHARING_ONE] = "one",
					    [SHARING_SHARED] = "shared",
					    [SHARING_WORDS] = "words"};

	return names[sharing];
}

const char *pages_name(unsigned huge)
{
	return huge ? "huge" : "base";
}

MEANINGS(pages_words, {true, "huge pages"}, {false, "base pages"});
