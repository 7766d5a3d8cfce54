/* interval.h: the median, and how well the mean of burst medians is known. */
#ifndef FLEET_BASE_INTERVAL_H
#define FLEET_BASE_INTERVAL_H

#include <stddef.h>
#include <stdint.h>

/* Sorts the list and returns its median; count >= 1. Other estimators are the reader's. */
double median(double *values, size_t count);

/* Sorts a list, the smallest first. */
void sort_values(double *values, size_t count);

/* The count, mean and variance of some values, and the square of half their 95 % t interval. */
struct interval {
	uint32_t count;
	double mean, variance, half_squared; /* the last two negative with fewer than two values */
	double correlation;                  /* of neighbouring values; -1 if all are equal */
};

/* Returns the interval of values in order of time; replaces them by their distances from the mean.
 * It is wider where neighbours resemble each other; docs/measuring.md has the formula. */
struct interval estimate_interval(double *values, size_t count);

/* Returns the root of a variance, or of a squared half interval, as a share of the mean in
 * millionths, rounded up; UINT32_MAX if `squared` is negative. */
uint32_t relative_root_ppm(double squared, double mean);

/* Returns Student's t for a two-sided 95 % interval; freedom >= 1. */
double student_t95(uint32_t freedom);

#endif
