/* bench.c: the list of benchmarks. */
#include "bench.h"

const struct benchmark *const bench_all[] = {&bench_cas, &bench_readwrite, &bench_clock, NULL};

const struct variant *bench_variant(const struct benchmark *benchmark, size_t i)
{
	const struct variant *tables[] = {benchmark->native_variants, benchmark->generic_variants};

	for (size_t t = 0; t < 2; t++)
		for (const struct variant *v = tables[t]; v && v->name; v++)
			if (i-- == 0)
				return v;
	return NULL;
}
