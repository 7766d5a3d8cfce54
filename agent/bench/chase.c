/*
 * bench_chase.c: one thread loads lines of which each holds the address of the next, in a cycle
 * over a stretch of memory: the latency of the cache that holds it.
 *
 * Random: one cycle over all lines, translations included. Window: random within a window of 64
 * pages, the windows in random order, so that translations are found. Rising: prefetchers at their
 * best. The cycle is made anew in each round, on new pages, and by each point of its kind. */
#include "bench/sizes.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
	WINDOW_BYTES = 64 * 4096,
	CHECKED_LINES = 4096,      /* in a longer cycle the last line is not looked for */
	PART_LINES = 1 << 16,      /* linked between two signs of progress */
	WARM_LOADS_MOST = 1 << 22, /* the cycle is gone through once before, unless it is longer */
};

static const uint64_t size_most = UINT64_C(512) << 20;

static uint32_t usual_stride(enum order order)
{
	return order == ORDER_RANDOM ? 256 : 64;
}

static int add_point(const struct options *options, const struct point_context *context,
		     enum order order, uint64_t bytes, struct points *points,
		     struct refusal *refusal)
{
	uint32_t stride = options->stride ? (uint32_t)options->stride : usual_stride(order);
	bool huge = points_have_huge_pages(context);
	const char *pages = huge ? "huge" : "base";
	struct point point = {.bytes = bytes,
			      .arena_bytes = bytes,
			      .stride_bytes = stride,
			      .threads = 1,
			      .order = (uint8_t)order,
			      .huge_pages = huge};
	char size[SIZE_ROOM];

	point.cycle = chase_cycle_key(&point);
	format_size(bytes, size);
	if (bytes / stride < 2)
		return refuse(refusal, EXIT_OPTIONS,
			      "--stride: %s has no two lines %" PRIu32 " bytes apart", size,
			      stride);
	if (stride == usual_stride(order))
		snprintf(point.name, sizeof point.name, "%s.%s.%s", order_name(order), size, pages);
	else
		snprintf(point.name, sizeof point.name, "%s.%s.s%" PRIu32 ".%s", order_name(order),
			 size, stride, pages);
	return points_add(points, &point, refusal);
}

static int add_points(const struct options *options, const struct point_context *context,
		      struct points *points, struct refusal *refusal)
{
	struct sizes sizes;
	int err = read_sizes(options->sizes, context->facts, size_most, &sizes, refusal);

	if (context->by_node && !strcmp(options->sizes, "auto"))
		sizes = (struct sizes){{size_outside_caches(context, 1, size_most)}, 1};
	for (enum order order = ORDER_RANDOM; order <= ORDER_RISING; order++)
		for (size_t i = 0; !err && i < sizes.count; i++)
			if (!context->by_node || order == ORDER_WINDOW)
				err = add_point(options, context, order, sizes.bytes[i], points,
						refusal);
	return err;
}

static void shuffle_list(uint32_t *list, size_t count, struct random *random)
{
	for (size_t i = count; i > 1; i--) {
		size_t j = random_below(random, i);
		uint32_t last = list[i - 1];

		list[i - 1] = list[j];
		list[j] = last;
	}
}

/* Fills in windows in random order, each a permutation of its own; the last may be shorter. Returns
 * 0 or -ENOMEM. */
static int fill_order_by_windows(uint32_t *list, size_t count, size_t window, struct random *random)
{
	size_t windows = (count + window - 1) / window, filled = 0;
	uint32_t *order = calloc(windows, sizeof *order);

	if (!order)
		return -ENOMEM;
	for (size_t w = 0; w < windows; w++)
		order[w] = (uint32_t)w;
	shuffle_list(order, windows, random);
	for (size_t w = 0; w < windows; w++) {
		size_t first = order[w] * window, in_it = 0;

		for (; in_it < window && first + in_it < count; in_it++)
			list[filled + in_it] = (uint32_t)(first + in_it);
		shuffle_list(list + filled, in_it, random);
		filled += in_it;
	}
	free(order);
	return 0;
}

static int fill_order(uint32_t *list, size_t count, const struct point *point,
		      struct random *random)
{
	size_t window = WINDOW_BYTES / point->stride_bytes;

	if (point->order == ORDER_WINDOW)
		return fill_order_by_windows(list, count, window ? window : 1, random);
	for (size_t i = 0; i < count; i++)
		list[i] = (uint32_t)i;
	if (point->order == ORDER_RANDOM)
		shuffle_list(list, count, random);
	return 0;
}

static char *locate_line(const struct side *side, uint32_t number)
{
	return side->arena + (size_t)number * side->point->stride_bytes;
}

uint64_t chase_cycle_key(const struct point *point)
{
	return (uint64_t)point->order << 56 | (uint64_t)point->stride_bytes << 32 | point->bytes;
}

int chase_link_lines(struct side *side)
{
	if (*side->cycle) {
		side->chain.next = side->chain.start = *side->cycle;
		return 0;
	}
	size_t count = side->chain.lines;
	uint32_t *list = calloc(count, sizeof *list);
	int err = list ? fill_order(list, count, side->point, &side->chain.random) : -ENOMEM;

	for (size_t i = 0; !err && i < count; i++) {
		if (i % PART_LINES == 0)
			bench_report_progress(side);
		*(void **)locate_line(side, list[i]) =
			locate_line(side, list[i + 1 < count ? i + 1 : 0]);
	}
	if (!err)
		*side->cycle = side->chain.next = side->chain.start = locate_line(side, list[0]);
	free(list);
	return err;
}

void chase_set_up(struct side *sides, size_t count, struct random *random)
{
	for (size_t i = 0; i < count; i++) {
		const struct point *point = sides[i].point;
		uint64_t lines = point->arena_bytes / point->stride_bytes;

		sides[i].chain.lines = lines;
		sides[i].chain.random = random_start(random_next(random), i);
		sides[i].first =
			lines < WARM_LOADS_MOST ? (lines / LOADS + 1) * LOADS : WARM_LOADS_MOST;
	}
}

void chase_do_loads(struct side *side, uint32_t n)
{
	side->chain.next = side->variant->chase(side->chain.next, n / LOADS);
	side->chain.loads += n / LOADS * LOADS;
}

/* Checks that the chase is as many lines on as it counted loads: none left out, none done twice. */
bool chase_check_position(const struct side *sides, size_t count, char *words, size_t room)
{
	for (size_t i = 0; i < count; i++) {
		void *expected = sides[i].chain.start;

		if (sides[i].chain.lines > CHECKED_LINES)
			continue;
		for (uint64_t k = sides[i].chain.loads % sides[i].chain.lines; k; k--)
			expected = *(void **)expected;
		if (expected != sides[i].chain.next) {
			snprintf(words, room, "the chase did not do %" PRIu64 " loads",
				 sides[i].chain.loads);
			return false;
		}
	}
	return true;
}

void chase_try_loop(const struct variant *variant)
{
	void *line = &line;

	variant->chase(line, 1);
}

static const struct word orders[] = {
	{ORDER_RANDOM, "one cycle over all lines"},
	{ORDER_WINDOW, "within windows of 64 pages, so that translations are found"},
	{ORDER_RISING, "rising, prefetchers at their best"},
	{.meaning = NULL}};

static const struct parameter parameters[] = {
	{"bytes", "sizes", ROLE_ROW, POINT_MEMBER(bytes), .bytes = true},
	{"order", NULL, ROLE_COLUMN, POINT_MEMBER(order), order_name, .words = orders},
	{"stride_bytes", "stride", ROLE_COLUMN, POINT_MEMBER(stride_bytes), .bytes = true},
	PARAMETER_PAGES,
	PARAMETER_NODE,
	PARAMETER_THREADS,
	{.name = NULL}};

const struct benchmark bench_chase = {
	.name = "chase",
	.question = "What a load costs that needs the one before, by the size of the memory",
	.unit = "load",
	.heading = "ns per load",
	.view = "ladder",
	.parameters = parameters,
	.shape = SHAPE_GROUP,
	.all_timed = true,
	.huge_pages = true,
	.least = 1,
	.chunk = 1 << 14,
	.sample_us = 500,
	.native_variants = arch_chase,
	.generic_variants = generic_chase,
	.add_points = add_points,
	.grain_units = LOADS,
	.run_loops_once = chase_try_loop,
	.set_up = chase_set_up,
	.prepare = chase_link_lines,
	.do_units = chase_do_loads,
	.check_results = chase_check_position,
};
