/* interval.h: the median, and how well the mean of burst medians is known. */
#ifndef FLEET_BASE_INTERVAL_H
#define FLEET_BASE_INTERVAL_H

#include <stddef.h>
#include <stdint.h>

/* Median of a list, which is sorted on the way; count >= 1. Other estimators are the reader's. */
double median(double *values, size_t count);

/* Sorts a list, the smallest first. */
void sort_values(double *values, size_t count);

/* Of some values: how many, their mean and variance, and the square of half its 95 % t interval. */
struct interval {
	uint32_t count;
	double mean, variance, half_squared; /* the last two negative with fewer than two values */
	double correlation;                  /* as of neighbours; -1 if all values are equal */
};

/* The interval of values in order of time, which become their distances from the mean. It is
 * widened where they resemble each other; docs/statistics.md has the formula. */
struct interval estimate_interval(double *values, size_t count);

/* The root of a variance, or of half an interval squared, as a share of the mean, in millionths and
 * rounded up; UINT32_MAX if that is negative. */
uint32_t relative_root_ppm(double squared, double mean);

/* Student's t that 95 % lie within, two-sided; degrees of freedom >= 1. */
double student_t95(uint32_t freedom);

#endif
