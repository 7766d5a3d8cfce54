/* level.c: see level.h. Products stand for sums of logarithms, which need a library elsewhere. */
#include "base/level.h"

#include "base/interval.h"

#include <string.h>

#define WIDTH 1.15
#define TINY  1e-6 /* a coarse clock may give 0 */

/* T. Robertson and J. D. Cryer, J. Am. Stat. Assoc. 69 (1974): of the half of the values that lies
 * closest together take such a half again, until two are left. Their geometric mean, squared. */
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
	return sorted[0] * sorted[count - 1];
}

struct level find_main_level(const float *const *visits, size_t count, uint32_t rounds,
			     double *work)
{
	struct level level = {.half_ppm = UINT32_MAX};
	double *products = work, *own = products + rounds, *others = own + rounds;
	double *middles = others + rounds, width = 1;
	size_t count_known = 0;

	for (size_t v = 0; v < count; v++, count_known = 0, width *= WIDTH) {
		for (uint32_t i = 0; i < rounds; i++)
			if (visits[v][i] >= 0)
				own[count_known++] = visits[v][i];
		middles[v] = count_known ? median(own, count_known) : 1;
		middles[v] = middles[v] > TINY ? middles[v] : TINY;
	}
	for (uint32_t i = 0; i < rounds; i++) {
		double share = NO_VALUE; /* of the middle; stands for a burst that failed, too */

		for (size_t v = 0; v < count; v++)
			share = visits[v][i] >= 0 ? visits[v][i] / middles[v] : share;
		products[i] = 1;
		for (size_t v = 0; v < count; v++)
			products[i] *= visits[v][i] >= 0 ? visits[v][i] / middles[v] : share;
		if (share >= 0)
			own[count_known++] = products[i];
	}
	if (!count_known)
		return level;
	sort_values(own, count_known);
	double mode2 = squared_half_sample_mode(own, count_known), width2 = width * width;

	for (uint32_t i = 0; i < rounds; i++)
		if (visits[0][i] >= 0 && products[i] * products[i] <= mode2 * width2 &&
		    products[i] * products[i] * width2 >= mode2)
			own[level.count++] = visits[0][i];
		else if (visits[0][i] >= 0)
			others[level.others++] = visits[0][i];
	if (!level.count) { /* a few that lie far apart */
		own = others;
		level.count = level.others;
		level.others = 0;
	}
	memcpy(products, own, level.count * sizeof *own);
	level.median = level.count ? median(products, level.count) : 0;
	level.other = level.others ? median(others, level.others) : 0;
	const struct interval interval = estimate_interval(own, level.count);

	level.half_ppm = relative_root_ppm(interval.half_squared, interval.mean);
	return level;
}
