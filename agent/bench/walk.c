/* walk.c: the cost of a load that needs the translation of another page than the one before. Chases
 * in random order over one line of each of so many base pages; each line is at another offset than
 * its neighbour's, so that they are in different sets of a cache. In base and huge pages. */
#include "bench/sizes.h"

#include <stdio.h>

enum {
	LINE = 64, /* bytes from one offset to the next */
	LEAST = 16,
	MOST = 1 << 16,
};

static const uint64_t memory_most = UINT64_C(512) << 20;

static int add_point(uint32_t lines, bool huge, struct points *points, struct refusal *refusal)
{
	uint64_t page = os_page_bytes();
	uint64_t stride = page + LINE; /* a line further on in each page: sets of a cache differ */
	struct point point = {.bytes = lines * page,
			      .arena_bytes = lines * stride,
			      .stride_bytes = (uint32_t)stride,
			      .threads = 1,
			      .order = ORDER_RANDOM,
			      .huge_pages = huge,
			      .spared = lines == LEAST ? SPARED_NEVER : SPARED_MEMORY};
	char size[SIZE_ROOM];

	if (point.arena_bytes > memory_most)
		return 0;
	format_size(point.bytes, size);
	snprintf(point.name, sizeof point.name, "%s.%s", size, pages_name(huge));
	point.cycle = chase_cycle_key(&point) + 1; /* of so many bytes, but one line a page */
	return points_add(points, &point, refusal);
}

static int add_points(const struct options *options, const struct point_context *context,
		      struct points *points, struct refusal *refusal)
{
	int err = 0;

	(void)options;
	for (uint32_t lines = LEAST; !err && lines <= MOST; lines *= 2) {
		if (!context->huge_asked)
			err = add_point(lines, false, points, refusal);
		if (!err && points_have_huge_pages(context))
			err = add_point(lines, true, points, refusal);
	}
	return err;
}

PARAMETERS({"bytes", NULL, ROLE_ROW, POINT_MEMBER(bytes), .bytes = true},
	   {"pages", "pages", ROLE_COLUMN, POINT_MEMBER(huge_pages), pages_name,
	    .words = pages_words},
	   {"stride_bytes", NULL, ROLE_NONE, POINT_MEMBER(stride_bytes), .bytes = true},
	   PARAMETER_THREADS);

const struct benchmark bench_walk = {
	.name = "walk",
	.question = "What a load costs that needs the translation of another page each time",
	.unit = "load",
	.heading = "ns per load",
	.parameters = parameters,
	.shape = SHAPE_GROUP,
	.threads = "1",
	.all_timed = true,
	.huge_pages = true,
	.least = 1,
	.chunk = 1 << 14,
	.sample_us = 500,
	.native_variants = arch_chase,
	.generic_variants = generic_chase,
	.add_points = add_points,
	.grain_units = 16,
	.run_loops_once = chase_try_loop,
	.set_up = chase_set_up,
	.prepare = chase_link_lines,
	.do_units = chase_do_loads,
	.check_results = chase_check_position,
};
