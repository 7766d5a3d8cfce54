/* split.c: of all partitions of the sorted logarithms into k parts, dynamic programming finds the
 * one that leaves the least scatter within the parts; the largest k counts for which every two
 * neighbouring parts are apart. Needs no library of mathematics. */
#include "base/split.h"

#include <stdbool.h>

enum { CUTS_MOST = 200, STRAYS_OF = 10 /* at most one of so many */, SELDOM_LEAST = 5 };

#define SCATTER_LEAST 1e-4 /* values are rounded */
#define NEVER         1e300
#define ALTERNATING   0.5           /* of the changes between two parts that a drawn order has */
#define NEAR          0.30010459246 /* logarithm of 1.35: parts further apart may alternate */

/* What parts must be to be levels. */
struct rule {
	uint32_t most, fewest; /* parts, values in each */
	double share;          /* of the values in each, at least */
	double ratio;          /* logarithm of the means' ratio, at least */
	double apart, more;    /* times the scatter within, and times it over the count */
};

/* Usual levels, two modes too seldom for them, and strays of a level. */
static const struct rule usual = {LEVELS_MOST, 3, 0.05, 0.04879016417, 5, 10};
static const struct rule seldom = {2, 1, 0.1, 0.22314355131, 5, 0};
static const struct rule stray = {2, 1, 0, 0.22314355131, 5, 0};

/* Places where the sorted values may be parted, and the sums of their logarithms up to each. */
static struct {
	size_t count, at[CUTS_MOST + 1];
	double sums[CUTS_MOST + 1], squares[CUTS_MOST + 1];
} cuts;

/* By the series of the inverse hyperbolic tangent, after halving. */
double logarithm(double x)
{
	const double ln2 = 0.69314718055994531;
	double halvings = 0, sum = 0;

	x = x < VALUE_LEAST ? VALUE_LEAST : x;
	for (; x > 4.0 / 3; x /= 2)
		halvings++;
	for (; x < 2.0 / 3; x *= 2)
		halvings--;
	double y = (x - 1) / (x + 1), power = y;

	for (int n = 1; n < 24; n += 2, power *= y * y)
		sum += power / n;
	return 2 * sum + halvings * ln2;
}

/* Of ascending logarithms; around the middle one, so that squares lose no digits. */
static void make_cuts(const double *sorted, size_t count)
{
	double origin = sorted[count / 2], sum = 0, squares = 0;
	size_t steps = count < CUTS_MOST ? count : CUTS_MOST;

	cuts.count = 0;
	for (size_t i = 0; i <= count; i++) {
		if ((i + 1) * steps > cuts.count * count) { /* i is cuts.count * count / steps */
			cuts.at[cuts.count] = i;
			cuts.sums[cuts.count] = sum;
			cuts.squares[cuts.count++] = squares;
		}
		if (i < count) {
			double x = sorted[i] - origin;

			sum += x;
			squares += x * x;
		}
	}
}

/* The squared distances from their mean of the values from one cut to another. */
static double within(size_t from, size_t to)
{
	double sum = cuts.sums[to] - cuts.sums[from];

	return cuts.squares[to] - cuts.squares[from] -
	       sum * sum / (double)(cuts.at[to] - cuts.at[from]);
}

static bool are_apart(const struct rule *rule, size_t from, size_t middle, size_t to)
{
	double left = (double)(cuts.at[middle] - cuts.at[from]);
	double right = (double)(cuts.at[to] - cuts.at[middle]);
	double gap = (cuts.sums[to] - cuts.sums[middle]) / right -
		     (cuts.sums[middle] - cuts.sums[from]) / left;
	double freedom = left + right > 2 ? left + right - 2 : 1;
	double scatter = (within(from, middle) + within(middle, to)) / freedom;
	double times = rule->apart + rule->more / (double)cuts.at[cuts.count - 1];

	if (scatter < SCATTER_LEAST * SCATTER_LEAST)
		scatter = SCATTER_LEAST * SCATTER_LEAST;
	return gap >= rule->ratio && gap * gap >= times * times * scatter;
}

/* Fills in the ends of the levels as places in the sorted values, and says how many they are. */
static uint32_t split(const struct rule *rule, size_t ends[LEVELS_MOST + 1])
{
	static double best[LEVELS_MOST + 1][CUTS_MOST + 1];
	static size_t back[LEVELS_MOST + 1][CUTS_MOST + 1];
	size_t last = cuts.count - 1, count = cuts.at[last], least = rule->fewest;

	while ((double)least < rule->share * (double)count)
		least++;
	uint32_t most = count / least < rule->most ? (uint32_t)(count / least) : rule->most;

	for (uint32_t parts = 1; parts <= most; parts++)
		for (size_t to = 0; to <= last; to++) {
			best[parts][to] = NEVER;
			for (size_t from = 0; from < to; from++) {
				double before = parts > 1 ? best[parts - 1][from]
						: from    ? NEVER
							  : 0;

				if (cuts.at[to] - cuts.at[from] < least || before >= NEVER)
					continue;
				double cost = before + within(from, to);

				if (cost < best[parts][to]) {
					best[parts][to] = cost;
					back[parts][to] = from;
				}
			}
		}
	for (uint32_t parts = most; parts > 1; parts--) {
		size_t at[LEVELS_MOST + 1] = {0};
		bool apart = best[parts][last] < NEVER;

		at[parts] = last;
		for (uint32_t i = parts; apart && i > 1; i--)
			at[i - 1] = back[i][at[i]];
		for (uint32_t i = 1; apart && i < parts; i++)
			apart = are_apart(rule, at[i - 1], at[i], at[i + 1]);
		for (uint32_t i = 0; apart && i <= parts; i++)
			ends[i] = cuts.at[at[i]];
		if (apart)
			return parts;
	}
	ends[0] = 0;
	ends[1] = count;
	return 1;
}

void leave_out_strays(const double *sorted, size_t *first, size_t *last)
{
	size_t ends[LEVELS_MOST + 1], most = (*last - *first + 1) / STRAYS_OF;

	while (most > 0) {
		make_cuts(sorted + *first, *last - *first + 1);
		if (split(&stray, ends) == 1)
			return;
		size_t low = ends[1], high = ends[2] - ends[1], few = low < high ? low : high;

		if (few > most)
			return;
		if (low < high)
			*first += low;
		else
			*last -= high;
		most -= few;
	}
}

/* Do values alternate between those from `low` and those from `middle` to `high` as if drawn? */
static bool alternate(const double *values, size_t count, double low, double middle, double high)
{
	double upper = 0, seen = 0, changes = 0;
	bool before = false;

	for (size_t i = 0; i < count; i++) {
		bool now = values[i] >= middle;

		if (values[i] < low || values[i] > high)
			continue;
		changes += seen++ > 0 && now != before;
		upper += now;
		before = now;
	}
	return changes > ALTERNATING * 2 * upper * (seen - upper) / seen / seen * (seen - 1);
}

uint32_t split_sorted(const double *values, const double *sorted, const double *logs, size_t count,
		      size_t ends[LEVELS_MOST + 1])
{
	make_cuts(logs, count);
	uint32_t levels = split(&usual, ends);

	if (levels == 1 && count >= SELDOM_LEAST)
		levels = split(&seldom, ends);
	for (uint32_t i = levels; i-- > 1;) { /* lines, not levels: see split.py */
		double gap = logs[(ends[i] + ends[i + 1]) / 2] - logs[(ends[i - 1] + ends[i]) / 2];

		if (gap >= NEAR || !alternate(values, count, sorted[ends[i - 1]], sorted[ends[i]],
					      sorted[ends[i + 1] - 1]))
			continue;
		levels--;
		for (uint32_t k = i; k <= levels; k++)
			ends[k] = ends[k + 1];
	}
	return levels;
}
