/* median.h: the one estimator the agent itself needs; all others belong to the reader of raw
 * samples. */
#ifndef FLEET_MEDIAN_H
#define FLEET_MEDIAN_H

#include <stddef.h>

/* Median of a list, which is sorted on the way; count >= 1. */
double median(double *values, size_t count);

#endif
