/* level.c: see level.h. Comparing squares and products spares the logarithms, which need a library.
 */
#include "base/level.h"

#include "base/interval.h"

#include <string.h>

#define REACH   1.15
#define TINY_NS 1e-6 /* a coarse clock may give 0 */

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

struct level find_main_level(const float *const *visits, size_t count, uint32_t rounds,
			     double *work)
{
	struct level level = {.half_ppm = UINT32_MAX};
	double *values = work, *own = values + rounds, *others = own + rounds;
	double *medians = others + rounds;
	size_t count_known = 0;

	for (size_t v = 0; v < count; v++, count_known = 0) {
		for (uint32_t i = 0; i < rounds; i++)
			if (visits[v][i] >= 0)
				own[count_known++] = visits[v][i];
		medians[v] = count_known ? median(own, count_known) : 1;
		medians[v] = medians[v] > TINY_NS ? medians[v] : TINY_NS;
	}
	for (uint32_t i = 0; i < rounds; i++) {
		size_t bursts = 0;

		values[i] = 0;
		for (size_t v = 0; v < count; v++)
			if (visits[v][i] >= 0) {
				double ns = visits[v][i] > TINY_NS ? visits[v][i] : TINY_NS;

				values[i] += ns / medians[v];
				bursts++;
			}
		if (bursts)
			own[count_known++] = values[i] /= (double)bursts;
	}
	if (!count_known)
		return level;
	sort_values(own, count_known);
	double mode2 = squared_half_sample_mode(own, count_known);

	for (uint32_t i = 0; i < rounds; i++)
		if (visits[0][i] >= 0 && values[i] * values[i] <= mode2 * REACH * REACH &&
		    values[i] * values[i] * REACH * REACH >= mode2)
			own[level.count++] = visits[0][i];
		else if (visits[0][i] >= 0)
			others[level.others++] = visits[0][i];
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
