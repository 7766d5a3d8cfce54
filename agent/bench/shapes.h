/* shapes.h: the points of gemm. */
#ifndef FLEET_BENCH_SHAPES_H
#define FLEET_BENCH_SHAPES_H

#include "bench/sizes.h"

/* Adds the points of the context's variant. */
int gemm_add_points(const struct options *options, const struct point_context *context,
		    struct points *points, struct refusal *refusal);

#endif
