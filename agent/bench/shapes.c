/* shapes.c: the points of gemm: what is multiplied, and in which shape. */
#include "bench/matrices.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { SIDE_USUAL = 256 };

static const uint64_t stream_least = UINT64_C(16) << 20, stream_most = UINT64_C(256) << 20,
		      given_most = UINT64_C(4) << 30;

static const char *const kind_names[GEMM_POINTS] = {
	[GEMM_PEAK] = "peak",     [GEMM_ROWS] = "hot.rows",
	[GEMM_ODD] = "hot.odd",   [GEMM_BLOCKED] = "hot.blocked",
	[GEMM_STREAM] = "stream", [GEMM_STREAM_AHEAD] = "stream.prefetch",
	[GEMM_DEEP] = "deep",
};

const char *gemm_point_name(unsigned kind)
{
	return kind_names[kind];
}

static uint32_t nearest_multiple(uint32_t number, uint32_t divisor)
{
	uint32_t next = (number + divisor - 1) / divisor * divisor;

	return next <= SIDE_MOST ? next : SIDE_MOST / divisor * divisor;
}

/* Reads one number of MxNxK and moves past it and its x; false if none is there. */
static bool read_extent(const char **next, uint32_t *side)
{
	uint64_t number;
	const char *end = **next == '0' ? NULL : text_read_number(*next, SIDE_MOST, &number);

	if (!end)
		return false;
	*side = (uint32_t)number;
	*next = end + (*end == 'x');
	return true;
}

/* Reads MxNxK, or auto, into the point. A shape that does not fit is refused; beside other
 * benchmarks it is noted instead, and *fits is false. */
static int read_shape(const char *text, const struct point_context *context, struct point *point,
		      bool *fits, struct refusal *refusal)
{
	const struct gemm *gemm = context->variant->gemm;
	bool given = strcmp(text, "auto");
	const char *next = given ? text : "256x256x256";

	if (!read_extent(&next, &point->m) || !read_extent(&next, &point->n) ||
	    !read_extent(&next, &point->k) || *next || next[-1] == 'x')
		return options_refuse_value("shape", text, refusal);
	const struct point asked = *point;

	point->m = nearest_multiple(point->m, gemm->rows);
	point->n = nearest_multiple(point->n, gemm->block);
	point->k = nearest_multiple(point->k, gemm->depth);
	*fits = !given || (point->m == asked.m && point->n == asked.n && point->k == asked.k);
	if (*fits)
		return 0;
	refuse(refusal, EXIT_OPTIONS,
	       "--shape %s: gemm/%s multiplies %d rows, %d columns and a depth of %d at once; the "
	       "nearest shape for all its variants is %" PRIu32 "x%" PRIu32 "x%" PRIu32,
	       text, context->variant->name, gemm->rows, gemm->block, gemm->depth,
	       nearest_multiple(asked.m, context->rows),
	       nearest_multiple(asked.n, context->columns),
	       nearest_multiple(asked.k, context->depth));
	if (!context->others)
		return -1;
	notes_add(context->others, "gemm/%s is left out: %s.", context->variant->name,
		  refusal->text);
	return 0;
}

/* Returns the bytes for matrices that stream: well outside all caches. */
static uint64_t streaming_bytes(const struct point_context *context)
{
	const struct cpu_cache *last = last_data_cache(context->facts);
	uint64_t bytes = last ? 4 * (uint64_t)last->bytes : stream_most;

	return bytes < stream_least ? stream_least : bytes > stream_most ? stream_most : bytes;
}

static int add_point(const struct point_context *context, struct point point, uint64_t bytes,
		     const char *size, struct points *points, struct refusal *refusal)
{
	const struct gemm *gemm = context->variant->gemm;
	const char *name = kind_names[point.operation];
	struct gemm_layout layout;

	if (point.operation == GEMM_PEAK) {
		point.m = point.n = point.k = 0;
		point.grain = gemm->peak_operations;
		snprintf(point.name, sizeof point.name, "%s.x%" PRIu32, name, point.threads);
		return points_add(points, &point, refusal);
	}
	if (point.operation >= GEMM_STREAM)
		point.copies = gemm_count_copies(gemm, &point, bytes);
	gemm_compute_layout(gemm, &point, &layout);
	point.bytes = layout.bytes;
	point.grain = layout.product_operations;
	point.stride_bytes = (uint32_t)layout.a_row;
	point.arena_bytes = point.bytes;
	point.huge_pages = points_have_huge_pages(context);
	int length =
		snprintf(point.name, sizeof point.name,
			 "%s.%" PRIu32 "x%" PRIu32 "x%" PRIu32 "%s.%s.x%" PRIu32, name, point.m,
			 point.n, point.k, size, point.huge_pages ? "huge" : "base", point.threads);

	return (size_t)length < sizeof point.name
		       ? points_add(points, &point, refusal)
		       : refuse(refusal, EXIT_OPTIONS, "the point %s has too long a name", name);
}

/* The points that stream, for each size that was asked for. */
static int add_streaming_points(const struct options *options, const struct point_context *context,
				struct point point, struct points *points, struct refusal *refusal)
{
	bool given = strcmp(options->sizes, "auto");
	char size[SIZE_ROOM + 1] = ".";
	struct sizes sizes = {.count = 0};
	int err =
		given ? read_sizes(options->sizes, context->facts, given_most, &sizes, refusal) : 0;

	if (!given)
		return add_point(context, point, streaming_bytes(context), "", points, refusal);
	for (size_t i = 0; !err && i < sizes.count; i++) {
		format_size(sizes.bytes[i], size + 1);
		err = add_point(context, point, sizes.bytes[i], size, points, refusal);
	}
	return err;
}

int gemm_add_points(const struct options *options, const struct point_context *context,
		    struct points *points, struct refusal *refusal)
{
	struct point point = {0};
	bool fits = false;
	int err = read_shape(options->shape, context, &point, &fits, refusal);

	for (size_t t = 0; !err && fits && t < context->thread_count; t++)
		for (enum gemm_point kind = GEMM_PEAK; !err && kind < GEMM_POINTS; kind++) {
			point.operation = (uint8_t)kind;
			point.threads = context->threads[t];
			err = kind < GEMM_STREAM ? add_point(context, point, 0, "", points, refusal)
						 : add_streaming_points(options, context, point,
									points, refusal);
		}
	return err;
}
