/* levels.h: the levels of a pair: groups of its burst medians that are close to each other. */
#ifndef FLEET_LEVELS_H
#define FLEET_LEVELS_H

#include "precision.h"

/* The level that most bursts are at; of equals the faster one. Strays are none of its interval's.
 */
struct level {
	double median, other; /* the latter of the level with most of the other bursts; 0: none */
	struct interval interval; /* of its bursts alone */
	uint32_t levels;          /* how many the pair has */
};

/*
 * Splits positive values, in order of time, into as many levels as they prove, by the rule of
 * fleet/analysis/reduce/split.py. work: room for as many values. count >= 1.
 */
struct level level_of_most(const double *values, double *work, size_t count);

#endif
