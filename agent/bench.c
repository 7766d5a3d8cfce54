/* bench.c: the list of benchmarks. */
#include "bench.h"

const struct benchmark *const bench_all[] = {
	&bench_cas,   &bench_readwrite, &bench_clock,      &bench_message, &bench_fetch,
	&bench_chase, &bench_bandwidth, &bench_interleave, &bench_gemm,    NULL};

const struct variant *bench_variant(const struct benchmark *benchmark, size_t i)
{
	const struct variant *tables[] = {benchmark->native_variants, benchmark->generic_variants};

	for (size_t t = 0; t < 2; t++)
		for (const struct variant *v = tables[t]; v && v->name; v++)
			if (i-- == 0)
				return v;
	return NULL;
}

void bench_progress(struct side *side)
{
	__atomic_store_n(side->progress, *side->progress + 1, __ATOMIC_RELAXED);
}

uint64_t bench_grain(const struct benchmark *benchmark, const struct point *point)
{
	return benchmark->grain ? benchmark->grain(point) : 1;
}

double bench_sample(const struct benchmark *benchmark, const uint64_t *ticks, size_t threads,
		    size_t apart)
{
	double sum = 0, rate = 0;

	for (size_t i = 0; i < threads; i++) {
		sum += (double)ticks[i * apart];
		rate += 1 / (double)ticks[i * apart];
	}
	return benchmark->shape == SHAPE_PAIR ? sum / (double)threads : 1 / rate;
}

const char *order_name(enum order order)
{
	static const char *const names[] = {
		[ORDER_RANDOM] = "random", [ORDER_WINDOW] = "window", [ORDER_RISING] = "rising",
		[ORDER_CHASE] = "chase",   [ORDER_STREAM] = "stream",
	};

	return names[order];
}

const char *unit_name(enum unit unit)
{
	static const char *const names[] = {
		[UNIT_ROUND_TRIP] = "round_trip",
		[UNIT_READING] = "reading",
		[UNIT_MESSAGE] = "message",
		[UNIT_LINE] = "line",
		[UNIT_LOAD] = "load",
		[UNIT_BYTE] = "byte",
		[UNIT_OPERATION] = "operation",
	};

	return names[unit];
}
