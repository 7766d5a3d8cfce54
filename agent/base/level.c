/* level.c: see level.h. Squares and products are compared: logarithms would need a library. */
#include "base/level.h"

#include "base/interval.h"

#include <string.h>

#define REACH 1.15

/* Returns a number of ns to divide by: a coarse clock may give 0. */
static double make_positive(double ns)
{
	return ns > 1e-6 ? ns : 1e-6;
}

/* Returns the squared half-sample mode (T. Robertson and J. D. Cryer, J. Am. Stat. Assoc. 69
 * (1974)): takes the half of the values that lies closest together, then the closest half of those,
 * until two are left. The mode is their geometric mean, or the smaller one if they are too far
 * apart to be at one level. */
static double squared_half_sample_mode(const double *sorted, size_t count)
{
	while (count > 2) {
		size_t half = (count + 1) / 2, first = 0;

		for (size_t i = 1; i + half <= count; i++)
			if (sorted[i + half - 1] * sorted[first] <
			    sorted[first + half - 1] * sorted[i])
				first = i;
		sorted += first;
		count = half;
	}
	double low = sorted[0], high = sorted[count - 1];

	return low * (high > low * REACH * REACH ? low : high);
}

struct level find_main_level(const float *ns, size_t width, uint32_t rounds, const size_t *visits,
			     size_t count, double *work)
{
	struct level level = {.half_ppm = UINT32_MAX};
	double *values = work, *own = values + rounds, *others = own + rounds, *bursts = others;
	size_t known = 0;

	memset(work, 0, 3 * (size_t)rounds * sizeof *work);
	for (const size_t *visit = visits; visit < visits + count; visit++, known = 0) {
		for (uint32_t i = 0; i < rounds; i++)
			if (ns[i * width + *visit] >= 0)
				own[known++] = ns[i * width + *visit];
		double usual = make_positive(known ? median(own, known) : 1);

		for (uint32_t i = 0; i < rounds; i++)
			if (ns[i * width + *visit] >= 0) {
				values[i] += make_positive(ns[i * width + *visit]) / usual;
				bursts[i]++;
			}
	}
	for (uint32_t i = 0; i < rounds; i++)
		if (bursts[i] > 0)
			own[known++] = values[i] /= bursts[i];
	if (!known)
		return level;
	sort_values(own, known);
	double mode2 = squared_half_sample_mode(own, known);

	for (uint32_t i = 0; i < rounds; i++) {
		double burst = ns[i * width + visits[0]], value2 = values[i] * values[i];

		if (burst < 0)
			continue;
		if (value2 <= mode2 * REACH * REACH && value2 * REACH * REACH >= mode2)
			own[level.count++] = burst;
		else
			others[level.others++] = burst;
	}
	if (!level.count) { /* it failed in all rounds at the main level */
		own = others;
		level.count = level.others;
		level.others = 0;
	}
	memcpy(values, own, level.count * sizeof *own);
	level.median = level.count ? median(values, level.count) : 0;
	level.other = level.others ? median(others, level.others) : 0;
	const struct interval interval = estimate_interval(own, level.count);

	level.half_ppm = relative_root_ppm(interval.half_squared, interval.mean);
	return level;
}

bool level_is_within(const struct level *level, uint32_t precision_ppm)
{
	return level->count >= level->others && level->half_ppm <= precision_ppm;
}
