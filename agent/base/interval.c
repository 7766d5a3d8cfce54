/* interval.c: the median, the interval of a mean, Student's t. Needs no mathematics library. */
#include "base/interval.h"

#include <stdlib.h>

#define AUTOCORRELATION_MARGIN 1.3 /* standard errors of a correlation, 1 / sqrt(n) each */
#define AUTOCORRELATION_MAX    0.8
#define EFFECTIVE_LEAST        3.0

static int compare_doubles(const void *a, const void *b)
{
	double left = *(const double *)a, right = *(const double *)b;

	return (left > right) - (left < right);
}

void sort_values(double *values, size_t count)
{
	qsort(values, count, sizeof *values, compare_doubles);
}

double median(double *values, size_t count)
{
	sort_values(values, count);
	return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

/* The first values come from a table, the others from the expansion in 1/freedom around the normal
 * quantile (Abramowitz and Stegun 26.7.5), right to four digits from there on. */
double student_t95(uint32_t freedom)
{
	static const double table[] = {12.7062, 4.3027, 3.1824, 2.7764, 2.5706,
				       2.4469,  2.3646, 2.3060, 2.2622};
	const double z = 1.959964, z3 = z * z * z, z5 = z3 * z * z, z7 = z5 * z * z;
	double n = freedom;

	if (freedom <= sizeof table / sizeof *table)
		return table[freedom - 1];
	return z + (z3 + z) / (4 * n) + (5 * z5 + 16 * z3 + 3 * z) / (96 * n * n) +
	       (3 * z7 + 19 * z5 + 17 * z3 - 15 * z) / (384 * n * n * n);
}

/* Returns 1 / sqrt(n) for n >= 1, by Newton's method. */
static double inverse_square_root(double n)
{
	double x = 1 / n;

	for (int i = 0; i < 40; i++)
		x *= 1.5 - n * x * x / 2;
	return x;
}

/* Returns the upper bound used for the correlation of neighbouring values, 0 to
 * AUTOCORRELATION_MAX, from the one measured in `n` values. Few values show too little correlation,
 * and a run that stops at its first narrow interval stops where they show least. */
static double bound_autocorrelation(double correlation, double n)
{
	double r = correlation + AUTOCORRELATION_MARGIN * inverse_square_root(n);

	return r < 0 ? 0 : r > AUTOCORRELATION_MAX ? AUTOCORRELATION_MAX : r;
}

/* Returns the square of half the mean's 95 % interval. n values whose neighbours correlate by r are
 * worth n (1 - r) / (1 + r) independent ones. */
static double squared_half_width(double variance, double correlation, double n)
{
	double r = bound_autocorrelation(correlation, n), effective = n * (1 - r) / (1 + r);
	double least = n < EFFECTIVE_LEAST ? n : EFFECTIVE_LEAST;
	double t = student_t95((uint32_t)(effective < least ? least : effective) - 1);

	return t * t * variance / effective;
}

uint32_t relative_root_ppm(double squared, double mean)
{
	uint32_t low = squared < 0 ? UINT32_MAX : 0, high = UINT32_MAX;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		double root = mean * middle / 1e6;

		if (squared <= root * root)
			high = middle;
		else
			low = middle + 1;
	}
	return high;
}

/* Estimates the lag-1 correlation of a first-order process whose mean varies as much as that of
 * these values: sums the correlations at all lags, up to the first two in a row that are not
 * positive (C. J. Geyer, Stat. Sci. 7 (1992)). away: distances from the mean; squares: their sum of
 * squares. */
static double estimate_autocorrelation(const double *away, size_t count, double squares)
{
	double sum = -squares;

	for (size_t lag = 0; lag + 1 < count; lag += 2) {
		double two = 0;

		for (size_t i = lag; i < count; i++)
			two += away[i] * (away[i - lag] + (i > lag ? away[i - lag - 1] : 0));
		if (two <= 0)
			break;
		sum += two;
	}
	return sum > 0 ? sum / (squares + sum) : sum / squares;
}

struct interval estimate_interval(double *values, size_t count)
{
	struct interval interval = {.variance = -1, .half_squared = -1, .correlation = -1};
	double squares = 0;

	for (; interval.count < count; interval.count++)
		interval.mean += (values[interval.count] - interval.mean) / (interval.count + 1);
	if (count < 2)
		return interval;
	for (size_t i = 0; i < count; i++) {
		values[i] -= interval.mean;
		squares += values[i] * values[i];
	}
	interval.variance = squares / (interval.count - 1);
	if (squares > 0)
		interval.correlation = estimate_autocorrelation(values, count, squares);
	interval.half_squared =
		squared_half_width(interval.variance, interval.correlation, interval.count);
	return interval;
}
