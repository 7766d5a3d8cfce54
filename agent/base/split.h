/* split.h: splits values into levels, by the rule of fleet/analysis/reduce/split.py. */
#ifndef FLEET_BASE_SPLIT_H
#define FLEET_BASE_SPLIT_H

#include <stddef.h>
#include <stdint.h>

enum { LEVELS_MOST = 6 };

#define VALUE_LEAST 1e-300 /* a coarse clock may give 0 */

/* Of VALUE_LEAST, where a value is smaller. */
double logarithm(double value);

/* Fills in the ends of the levels of values as places in ascending order, and says how many they
 * are. values: in order of time; sorted: the same, ascending; logs: their logarithms. */
uint32_t split_sorted(const double *values, const double *sorted, const double *logs, size_t count,
		      size_t ends[LEVELS_MOST + 1]);

/* Narrows a level, given as its first and last place in ascending logarithms, to the part without
 * strays: a few far from all others, at most a tenth of it. */
void leave_out_strays(const double *sorted, size_t *first, size_t *last);

#endif
