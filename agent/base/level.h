/* level.h: the main level of a visit's bursts, and how well it is known. */
#ifndef FLEET_BASE_LEVEL_H
#define FLEET_BASE_LEVEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NO_VALUE (-1.0f) /* stands for a burst that gave no number */

struct level {
	uint32_t count, others; /* bursts at the main level, and at another */
	double median, other;   /* their medians; 0: there are none */
	uint32_t half_ppm; /* half the 95 % interval, as a share of the mean; UINT32_MAX: none */
};

/* Finds the main level of visits[0], which is made together with the other `count` - 1 visits. ns:
 * a row per round, of `width` visits. The value of a round is the mean of its bursts, each divided
 * by the median of its visit. The bursts of rounds within 15 % of the half-sample mode are at the
 * main level; if visits[0] has none there, all of its bursts are. work: room for 3 x rounds.
 * fleet/analysis/reduce/burst_levels.py has the same rule. */
struct level find_main_level(const float *ns, size_t width, uint32_t rounds, const size_t *visits,
			     size_t count, double *work);

/* Reports whether the level is known to the precision. A level with less than half of the bursts is
 * not: it may be another one in the end. */
bool level_is_within(const struct level *level, uint32_t precision_ppm);

#endif
