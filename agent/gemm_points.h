/* gemm_points.h: the points of gemm. */
#ifndef FLEET_GEMM_POINTS_H
#define FLEET_GEMM_POINTS_H

#include "points.h"

/* Adds the points of the context's variant. */
int gemm_add_points(const struct options *options, const struct point_context *context,
		    struct points *points, struct refusal *refusal);

#endif
