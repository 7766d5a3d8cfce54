/* matrices.c: see matrices.h. All values are whole numbers from -4 to 4; those of an unsigned A
 * from 0 to 8. Sums stay below 2^24, so that fp32 holds each exactly and C is equal for every
 * variant. */
#include "bench/matrices.h"

#include "base/random.h"
#include "base/stop.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CACHE_LINE = 64, VALUES_BYTES = 2048, LEAST = -4, MOST = 4 };

/* Copies that may add up in C: each adds at most so much a value of k, and none may pass 2^24. */
enum { SUM_MOST = 1 << 24, PRODUCT_MOST = 32 };

/* Operations of a call, if it has more than one strip. */
enum { CALL_MOST = 1 << 24 };

static size_t value_bytes(const struct gemm *gemm)
{
	switch (gemm->value) {
	case GEMM_FP32:
		return 4;
	case GEMM_BF16:
		return 2;
	case GEMM_INT8:
	case GEMM_UINT8:
		break;
	}
	return 1;
}

/* Rounds up to whole cache lines: an odd number of them, or an even one. */
static size_t round_up_to_lines(size_t bytes, bool odd)
{
	size_t lines = (bytes + CACHE_LINE - 1) / CACHE_LINE;

	return (lines + (lines % 2 != odd)) * CACHE_LINE;
}

static void compute_a_layout(const struct gemm *gemm, const struct point *point,
			     struct gemm_layout *layout)
{
	size_t row_bytes = point->k * value_bytes(gemm), step = gemm->depth * value_bytes(gemm);

	if (point->operation == GEMM_BLOCKED) {
		layout->a_row = step;
		layout->a_step = step * gemm->rows;
		layout->a_strip = row_bytes * gemm->rows;
	} else {
		layout->a_row = round_up_to_lines(row_bytes, point->operation != GEMM_ROWS);
		layout->a_step = step;
		layout->a_strip = layout->a_row * gemm->rows;
	}
	layout->a_bytes = round_up_to_lines(layout->a_strip * (point->m / gemm->rows), true);
}

/* Returns the most strips that divide A evenly and keep a call short enough for the supervisor. */
static uint32_t strips_per_call(const struct gemm *gemm, const struct point *point)
{
	uint64_t operations = UINT64_C(2) * gemm->rows * gemm->columns * point->k;
	uint32_t all = point->m / gemm->rows, most = 1;

	if (!gemm->strips)
		return 1;
	for (uint32_t strips = 2; strips <= all && strips * operations <= CALL_MOST; strips++)
		if (all % strips == 0)
			most = strips;
	return most;
}

/* Returns the panels of B; a call takes one, and the last may be wider than B. */
static size_t count_panels(const struct gemm *gemm, size_t n)
{
	return (n + gemm->columns - 1) / gemm->columns;
}

void gemm_compute_layout(const struct gemm *gemm, const struct point *point,
			 struct gemm_layout *layout)
{
	const size_t across = count_panels(gemm, point->n), wide = across * gemm->columns;
	bool deep = point->operation == GEMM_DEEP;
	uint32_t strips = strips_per_call(gemm, point);
	size_t calls = point->m / gemm->rows / strips * across;
	uint64_t all_steps = calls * strips * (point->k / gemm->depth);

	*layout = (struct gemm_layout){.c_row = round_up_to_lines(wide * sizeof(int32_t), true),
				       .steps = point->k / gemm->depth,
				       .strips = strips,
				       .copies = 1};
	compute_a_layout(gemm, point, layout);
	layout->c_bytes = layout->c_row * point->m;
	layout->b_panel = gemm->columns * point->k * value_bytes(gemm);
	layout->b_bytes = round_up_to_lines(across * layout->b_panel, false);
	layout->column_operations = UINT64_C(2) * strips * gemm->rows * point->k;
	layout->product_operations = UINT64_C(2) * point->m * point->n * point->k;
	layout->ahead_step = (layout->b_bytes + all_steps - 1) / all_steps;
	layout->b_copy = layout->b_bytes + (deep ? layout->a_bytes : 0);
	if (point->operation >= GEMM_STREAM) {
		layout->a_copy = deep ? layout->b_copy : 0;
		layout->copies = point->copies;
	}
	layout->bytes = layout->c_bytes + layout->a_bytes + (layout->copies - 1) * layout->b_copy +
			layout->b_bytes;
}

uint32_t gemm_count_copies(const struct gemm *gemm, const struct point *point, uint64_t bytes)
{
	uint64_t most = SUM_MOST / PRODUCT_MOST / point->k;
	struct gemm_layout layout;

	gemm_compute_layout(gemm, point, &layout);
	uint64_t copies = bytes / layout.b_copy;

	if (point->operation == GEMM_DEEP && copies > most)
		copies = most;
	return copies < 2 ? 2 : (uint32_t)copies;
}

static struct gemm_reference *references; /* all made so far */

/* Fills in C. Takes half a minute for the largest shape; returns false if the run must end. */
static bool multiply_reference(const struct gemm_reference *reference)
{
	for (size_t i = 0; i < reference->m; i++) {
		if (stop_run_idle_and_check())
			return false;
		for (size_t p = 0; p < reference->k; p++) {
			int32_t value = reference->a[i * reference->k + p];

			for (size_t j = 0; j < reference->n; j++)
				reference->c[i * reference->n + j] +=
					value * reference->b[p * reference->n + j];
		}
	}
	return true;
}

static int8_t *draw_values(size_t count, int least, struct random *random)
{
	int8_t *values = calloc(count, 1);

	if (!values)
		return NULL;
	for (size_t i = 0; i < count; i++)
		values[i] = (int8_t)((int)random_below(random, MOST - LEAST + 1) + least);
	return values;
}

static bool make_reference(struct gemm_reference *reference)
{
	size_t m = reference->m, n = reference->n, k = reference->k;
	struct random random = random_start(m ^ (uint64_t)n << 16 ^ (uint64_t)k << 32, 0);

	reference->a = draw_values(m * k, reference->is_unsigned ? 0 : LEAST, &random);
	reference->b = draw_values(k * n, LEAST, &random);
	reference->c = calloc(m * n, sizeof *reference->c);
	if (!reference->a || !reference->b || !reference->c)
		return false;
	return multiply_reference(reference);
}

static bool is_same_shape(const struct gemm_reference *reference,
			  const struct gemm_reference *wanted)
{
	return reference->m == wanted->m && reference->n == wanted->n &&
	       reference->k == wanted->k && reference->is_unsigned == wanted->is_unsigned;
}

const struct gemm_reference *gemm_get_reference(const struct gemm *gemm, const struct point *point)
{
	const struct gemm_reference wanted = {.m = point->m,
					      .n = point->n,
					      .k = point->k,
					      .is_unsigned = gemm->value == GEMM_UINT8};
	struct gemm_reference *reference = references;

	while (reference && !is_same_shape(reference, &wanted))
		reference = reference->next;
	if (reference)
		return reference;
	reference = malloc(sizeof *reference);
	if (!reference)
		return NULL;
	*reference = wanted;
	if (!make_reference(reference)) {
		free(reference->a);
		free(reference->b);
		free(reference->c);
		free(reference);
		return NULL;
	}
	reference->next = references;
	references = reference;
	return reference;
}

static void write_value(const struct gemm *gemm, char *to, int value)
{
	float exact = (float)value;
	uint32_t bits;

	memcpy(&bits, &exact, sizeof bits);
	switch (gemm->value) {
	case GEMM_FP32:
		memcpy(to, &exact, sizeof exact);
		break;
	case GEMM_BF16:
		memcpy(to, &(uint16_t){(uint16_t)(bits >> 16)}, sizeof(uint16_t));
		break;
	case GEMM_INT8:
	case GEMM_UINT8:
		*to = (char)value;
		break;
	}
}

void gemm_write_a(const struct gemm *gemm, const struct gemm_layout *layout,
		  const struct gemm_reference *reference, char *to)
{
	size_t bytes = value_bytes(gemm);

	for (size_t i = 0; i < reference->m; i++)
		for (size_t p = 0; p < reference->k; p++)
			write_value(gemm,
				    to + i / gemm->rows * layout->a_strip +
					    i % gemm->rows * layout->a_row +
					    p / gemm->depth * layout->a_step +
					    p % gemm->depth * bytes,
				    reference->a[i * reference->k + p]);
}

/* Writes B in the order in which it is read: panel, step, block, group of `pack` values of k,
 * column, value. */
void gemm_write_b(const struct gemm *gemm, const struct gemm_reference *reference, char *to)
{
	size_t k = reference->k, n = reference->n, bytes = value_bytes(gemm);
	size_t wide = count_panels(gemm, n) * gemm->columns;

	for (size_t p = 0; p < k; p++)
		for (size_t j = 0; j < wide; j++) {
			size_t within = p % gemm->depth, column = j % gemm->columns;
			size_t at = j / gemm->columns * gemm->columns * k +
				    p / gemm->depth * gemm->depth * gemm->columns +
				    column / gemm->block * gemm->block * gemm->depth +
				    within / gemm->pack * gemm->pack * gemm->block +
				    column % gemm->block * gemm->pack + within % gemm->pack;

			write_value(gemm, to + at * bytes, j < n ? reference->b[p * n + j] : 0);
		}
}

void gemm_write_register_values(const struct gemm *gemm, char *to)
{
	size_t bytes = value_bytes(gemm);

	for (size_t i = 0; i < VALUES_BYTES / bytes; i++)
		write_value(gemm, to + i * bytes, 1 + (int)(i % MOST));
}

/* Reads a value of C; *whole: it is a whole number. If it is not, returns the bits of the float. */
static int32_t read_sum(const struct gemm *gemm, const char *at, bool *whole)
{
	float sum;
	int32_t value;

	memcpy(&value, at, sizeof value);
	memcpy(&sum, at, sizeof sum);
	*whole = true;
	if (gemm->value == GEMM_INT8 || gemm->value == GEMM_UINT8)
		return value;
	*whole = sum > -2e9f && sum < 2e9f && sum == (float)(int32_t)sum;
	return *whole ? (int32_t)sum : value;
}

bool gemm_check_sums(const struct gemm *gemm, const struct gemm_layout *layout,
		     const struct gemm_reference *reference, const char *c, uint32_t times,
		     char *words, size_t room)
{
	size_t wrong = 0, first = 0, n = reference->n, count = reference->m * n;
	bool whole;

	for (size_t i = 0; i < count; i++) {
		const char *at = c + i / n * layout->c_row + i % n * sizeof(int32_t);

		if (read_sum(gemm, at, &whole) == reference->c[i] * (int32_t)times && whole)
			continue;
		if (!wrong++)
			first = i;
	}
	if (!wrong)
		return true;
	int32_t sum =
		read_sum(gemm, c + first / n * layout->c_row + first % n * sizeof sum, &whole);

	snprintf(words, room,
		 "%zu of %zu results differ, first at row %zu, column %zu: %s%" PRId32
		 ", not %" PRId32,
		 wrong, count, first / n, first % n, whole ? "" : "no whole number, bits ", sum,
		 reference->c[first] * (int32_t)times);
	return false;
}
