/* levels.h: states of a machine at its visits to a pair, and the levels of what was found there. */
#ifndef FLEET_BASE_LEVELS_H
#define FLEET_BASE_LEVELS_H

#include "base/interval.h"
#include "base/split.h"

#include <stdbool.h>

#define NO_VALUE (-1.0)

/* The medians of a visit's bursts, round by round; NO_VALUE where there is none. */
struct series {
	const double *values;
	size_t count;
	bool decides; /* on states; filled in when they are found */
};

/* One of the levels. */
struct level_part {
	double median;            /* of the averages of every two of its values */
	double dwell;             /* how many bursts in a row are at it, on average */
	size_t count;             /* bursts */
	struct interval interval; /* of these alone, without strays */
	double ratio;             /* of the highest of them to the lowest, without strays */
	uint8_t state;
};

/* The level of most bursts of the main state; of equals the faster. Its interval has no strays. */
struct level {
	struct level_part main;
	double other;    /* median of the level with most of the other bursts; 0: none */
	uint32_t levels; /* how many the pair has */
};

/* The machine's state in each round, 0 the fastest, and the one that the pair's numbers are of. */
struct states {
	uint8_t *of; /* room for as many rounds as the longest series has */
	uint8_t main;
};

/* Splits the rounds in which a pair was visited into states, by all series together, as
 * fleet/analysis/reduce/split.py does. One value must be there. work: 4 x the longest series. */
void states_find(struct series *series, size_t count, double *work, struct states *states);

/* Splits the values of a series into as many levels within each state as they prove, by the rule of
 * fleet/analysis/reduce/split.py, and says how many. parts: the fastest first. work: room for four
 * times as many values, of which one must be there. */
uint32_t levels_of(const struct series *series, const struct states *states, double *work,
		   struct level_part parts[LEVELS_MOST]);

/* None of its bursts may be of the main state: then its level is that of most. */
struct level level_of_most(const struct series *series, const struct states *states, double *work);

#endif
