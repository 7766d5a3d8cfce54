/* precision.c: the median, running mean and variance, Student's t. Needs no library of mathematics.
 */
#include "precision.h"

#include <stdlib.h>

static int by_size(const void *a, const void *b)
{
	double left = *(const double *)a, right = *(const double *)b;

	return (left > right) - (left < right);
}

double median(double *values, size_t count)
{
	qsort(values, count, sizeof *values, by_size);
	return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

/* Welford's way (Technometrics 4, 1962): no sum of large squares that would lose digits. */
void tally_add(struct tally *tally, double value)
{
	double before = value - tally->mean;

	if (tally->count)
		tally->lagged += (value - tally->first) * (tally->last - tally->first);
	else
		tally->first = value;
	tally->last = value;
	tally->count++;
	tally->mean += before / tally->count;
	tally->squares += before * (value - tally->mean);
}

/*
 * The first from a table; then the expansion in 1/freedom around the normal quantile (Abramowitz
 * and Stegun 26.7.5), which is right to four digits from there on.
 */
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

/*
 * By how much the variance of the mean is larger than that of as many independent values: (1 + r) /
 * (1 - r) for a row in which neighbours correlate by r (first-order autoregression). What a short
 * row shows of r is too low by about as much as 2 / n gives back; negative likeness is not made use
 * of.
 */
static double likeness(const struct tally *tally)
{
	double n = tally->count, mean = tally->mean - tally->first,
	       last = tally->last - tally->first;
	double lagged = tally->lagged - mean * (2 * mean * n - last) + (n - 1) * mean * mean;
	double r = tally->squares > 0 ? lagged / tally->squares + 2 / n : 0;

	r = r < 0 ? 0 : r > 0.8 ? 0.8 : r;
	return (1 + r) / (1 - r);
}

bool tally_is_precise(const struct tally *tally, uint32_t ppm)
{
	if (tally->count < 2)
		return false;
	double n = tally->count, t = student_t95(tally->count - 1);
	double allowed = tally->mean * ppm / 1e6;

	return t * t * likeness(tally) * tally->squares / (n - 1) / n <= allowed * allowed;
}
