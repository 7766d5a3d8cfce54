/* precision.h: the median, and how well the mean of a pair's burst medians is known. */
#ifndef FLEET_PRECISION_H
#define FLEET_PRECISION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Median of a list, which is sorted on the way; count >= 1. Other estimators are the reader's. */
double median(double *values, size_t count);

/*
 * Of the values so far: how many, their mean, the sum of squared distances from it, and for the
 * likeness of neighbours the ends of the row and the sum of (value - first) * (value before -
 * first).
 */
struct tally {
	double mean, squares;
	double first, last, lagged;
	uint32_t count;
};

void tally_add(struct tally *tally, double value);

/*
 * Is the 95 % t-interval of the mean, widened for neighbours that resemble each other, at most
 * `ppm` millionths of the mean to either side? Never of fewer than two values.
 */
bool tally_is_precise(const struct tally *tally, uint32_t ppm);

/* Student's t that 95 % lie within, two-sided; degrees of freedom >= 1. */
double student_t95(uint32_t freedom);

#endif
