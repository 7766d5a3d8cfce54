/* median.c: see median.h. */
#include "median.h"

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
