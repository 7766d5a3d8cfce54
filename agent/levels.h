/* levels.h: the levels of a pair: groups of its burst medians that are close to each other. */
#ifndef FLEET_LEVELS_H
#define FLEET_LEVELS_H

#include "precision.h"

enum { LEVELS_MOST = 6 };

/* One of the levels. */
struct level_part {
	double median;
	double dwell;             /* how many bursts in a row are at it, on average */
	size_t count;             /* bursts */
	struct interval interval; /* of these alone, without strays */
};

/* The level that most bursts are at; of equals the faster one. Strays are none of its interval's.
 */
struct level {
	double median, other; /* the latter of the level with most of the other bursts; 0: none */
	struct interval interval; /* of its bursts alone */
	uint32_t levels;          /* how many the pair has */
};

/*
 * Splits positive values, in order of time, into as many levels as they prove, by the rule of
 * fleet/analysis/reduce/split.py, and says how many. parts: the fastest first. work: room for as
 * many values. count >= 1.
 */
uint32_t levels_of(const double *values, double *work, size_t count,
		   struct level_part parts[LEVELS_MOST]);

struct level level_of_most(const double *values, double *work, size_t count);

#endif
