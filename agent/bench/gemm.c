/* gemm.c: threads that multiply matrices, C = A x B, each its own: operations a second of the
 * vector or matrix unit, on registers, in cache and from memory.
 *
 * A product of m x k by k x n values is 2mnk operations. After each burst C is compared with the
 * product in whole numbers, bit for bit. */
#include "bench/matrices.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 1 << 24, ATTEMPT_BYTES = 4096, PROGRESS_COPIES = 16 };

static uint64_t units_in_product(const struct point *point)
{
	return point->grain;
}

static bool is_peak_point(const struct side *side)
{
	return side->point->operation == GEMM_PEAK;
}

static void set_up_products(struct side *sides, size_t count, struct random *random)
{
	(void)random;
	for (size_t i = 0; i < count; i++) {
		struct side *side = &sides[i];
		struct product *product = &side->product;
		const struct gemm *gemm = side->variant->gemm;

		side->first = side->point->grain;
		if (is_peak_point(side))
			continue;
		gemm_compute_layout(gemm, side->point, &product->layout);
		product->reference = gemm_get_reference(gemm, side->point);
	}
}

/* Fills C with bytes that are no product, so that no part of it can go unwritten. */
static int write_matrices(struct side *side)
{
	const struct gemm *gemm = side->variant->gemm;
	const struct gemm_layout *layout = &side->product.layout;
	const struct gemm_reference *reference = side->product.reference;

	if (gemm->begin)
		gemm->begin();
	if (is_peak_point(side)) {
		gemm_write_register_values(gemm, side->product.values);
		return 0;
	}
	if (!reference)
		return -ENOMEM;
	char *a = side->arena + layout->c_bytes, *b = a + layout->a_bytes;

	memset(side->arena, 0xff, layout->c_bytes);
	gemm_write_a(gemm, layout, reference, a);
	gemm_write_b(gemm, reference, b);
	for (uint32_t i = 1; i < layout->copies; i++) {
		memcpy(b + i * layout->b_copy, b, layout->b_bytes);
		if (layout->a_copy)
			memcpy(a + i * layout->a_copy, a, layout->a_bytes);
		if (i % PROGRESS_COPIES == 0)
			bench_report_progress(side);
	}
	return 0;
}

static uint32_t next_copy(const struct product *product)
{
	return product->copy + 1 < product->layout.copies ? product->copy + 1 : 0;
}

/* Moves on to the next call: all rows of A, then the next columns of B, then the next product. */
static void advance_to_next_call(struct side *side)
{
	struct product *product = &side->product;
	const struct gemm *gemm = side->variant->gemm;

	product->row += product->layout.strips * gemm->rows;
	product->calls++;
	if (product->row < side->point->m)
		return;
	product->row = 0;
	product->column += gemm->columns;
	if (product->column < side->point->n)
		return;
	product->column = 0;
	product->calls = 0;
	product->copy = next_copy(product);
}

/* Returns the operations of the next call. The last may have fewer columns: the rest of its panel
 * of B is 0. */
static uint64_t count_call_operations(const struct side *side)
{
	uint32_t left = side->point->n - side->product.column;
	uint32_t columns = side->variant->gemm->columns;

	return side->product.layout.column_operations * (left < columns ? left : columns);
}

static void multiply_call(struct side *side)
{
	const struct product *product = &side->product;
	const struct gemm_layout *layout = &product->layout;
	const struct gemm *gemm = side->variant->gemm;
	const char *a = side->arena + layout->c_bytes, *b = a + layout->a_bytes;
	const struct gemm_tile tile = {
		.a = a + product->copy * layout->a_copy +
		     product->row / gemm->rows * layout->a_strip,
		.a_row = layout->a_row,
		.a_step = layout->a_step,
		.a_strip = layout->a_strip,
		.b = b + product->copy * layout->b_copy +
		     product->column / gemm->columns * layout->b_panel,
		.c = side->arena + product->row * layout->c_row + product->column * sizeof(int32_t),
		.c_row = layout->c_row,
		.strips = layout->strips,
		.steps = layout->steps,
		.add = side->point->operation == GEMM_DEEP && product->copy > 0,
		.ahead = b + next_copy(product) * layout->b_copy +
			 product->calls * layout->strips * layout->steps * layout->ahead_step,
		.ahead_step = layout->ahead_step,
	};

	if (side->point->operation == GEMM_STREAM_AHEAD)
		gemm->multiply_ahead(&tile);
	else
		gemm->multiply(&tile);
	advance_to_next_call(side);
}

static void multiply_units(struct side *side, uint32_t n)
{
	struct product *product = &side->product;

	product->owed += n;
	if (is_peak_point(side)) {
		const struct gemm *gemm = side->variant->gemm;

		gemm->peak(product->values, product->owed / gemm->peak_operations);
		product->owed %= gemm->peak_operations;
		return;
	}
	for (uint64_t next; product->owed >= (next = count_call_operations(side));
	     product->owed -= next)
		multiply_call(side);
}

static void finish_product(struct side *side)
{
	struct product *product = &side->product;

	while (product->row || product->column)
		multiply_call(side);
	if (side->variant->gemm->end)
		side->variant->gemm->end();
}

/* Returns how many products C adds up. C holds the product before the next one. */
static uint32_t count_sums_in_c(const struct product *product, const struct point *point)
{
	if (point->operation != GEMM_DEEP)
		return 1;
	return product->copy ? product->copy : product->layout.copies;
}

static bool check_products(const struct side *sides, size_t count, char *words, size_t room)
{
	for (size_t i = 0; i < count; i++) {
		const struct side *side = &sides[i];
		const struct product *product = &side->product;

		if (!is_peak_point(side) &&
		    !gemm_check_sums(side->variant->gemm, &product->layout, product->reference,
				     side->arena, count_sums_in_c(product, side->point), words,
				     room))
			return false;
	}
	return true;
}

static void run_loops_once(const struct variant *variant)
{
	static _Alignas(4096) char a[ATTEMPT_BYTES], b[ATTEMPT_BYTES], c[ATTEMPT_BYTES];
	const struct gemm *gemm = variant->gemm;
	const size_t step = ATTEMPT_BYTES / 64 / gemm->rows * 64;
	const struct gemm_tile tile = {.a = a,
				       .a_row = step,
				       .a_step = step,
				       .b = b,
				       .c = c,
				       .c_row = gemm->columns * sizeof(int32_t),
				       .strips = 1,
				       .steps = 1,
				       .ahead = b};

	if (gemm->begin)
		gemm->begin();
	gemm->peak(a, 1);
	gemm->multiply(&tile);
	gemm->multiply_ahead(&tile);
	if (gemm->end)
		gemm->end();
}

static MEANINGS(operations, {GEMM_PEAK, "registers"},
		{GEMM_ROWS, "A in rows of an even number of lines"},
		{GEMM_ODD, "A in rows of an odd number of lines"},
		{GEMM_BLOCKED, "A as the loop reads it"}, {GEMM_STREAM, "a new B each time"},
		{GEMM_STREAM_AHEAD, "a new B each time, prefetched"},
		{GEMM_DEEP, "a new A and B each time, all added up"});

PARAMETERS({"operation", NULL, ROLE_ROW, POINT_MEMBER(operation), gemm_point_name,
	    .words = operations},
	   {"bytes", "sizes", ROLE_ROW, POINT_MEMBER(bytes), .bytes = true},
	   {"stride_bytes", NULL, ROLE_NONE, POINT_MEMBER(stride_bytes), .bytes = true},
	   {"threads", "threads", ROLE_TABLE, POINT_MEMBER(threads)}, PARAMETER_PAGES);

const struct benchmark bench_gemm = {
	.name = "gemm",
	.question = "How many operations a second a matrix multiply does, on one CPU or on many",
	.unit = "operation",
	.heading = "Gop/s",
	.rate = "Gop/s",
	.view = "products",
	.parameters = parameters,
	.shape = SHAPE_GROUP,
	.clocked = true,
	.compares = true,
	.huge_pages = true,
	.all_timed = true,
	.least = 1,
	.chunk = CHUNK,
	.sample_us = 100,
	.native_variants = arch_gemm,
	.generic_variants = generic_gemm,
	.add_points = gemm_add_points,
	.units_in_grain = units_in_product,
	.run_loops_once = run_loops_once,
	.set_up = set_up_products,
	.prepare = write_matrices,
	.do_units = multiply_units,
	.finish = finish_product,
	.check_results = check_products,
};
