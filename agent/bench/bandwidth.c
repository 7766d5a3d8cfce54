/* bandwidth.c: threads that go through memory, each its own or all the same: bytes a second
 * of the cache that holds it.
 *
 * Bytes are those that instructions move: one for each byte read or written, two for each copied or
 * modified. What a write brings into the cache before it is not counted. */
#include "bench/sizes.h"

#include <inttypes.h>
#include <string.h>

enum { CHUNK = 2 << 20 };

static const uint64_t memory_most = UINT64_C(1) << 30;

int read_operations(const char *list, uint32_t *mask, struct refusal *refusal)
{
	return read_words_as_mask("op", list, operation_name, OPERATIONS, mask, refusal);
}

static bool is_copy(const struct point *point)
{
	return point->operation == OPERATION_COPY || point->operation == OPERATION_NTCOPY;
}

/* Returns the bytes moved for each byte of the memory gone through. */
static uint32_t moves_per_byte(const struct point *point)
{
	return is_copy(point) || point->operation == OPERATION_MODIFY ? 2 : 1;
}

/* Returns the bytes gone through in one pass; a copy goes through half of its memory. */
static uint64_t pass_bytes(const struct point *point)
{
	return is_copy(point) ? point->bytes / 2 : point->bytes;
}

static uint64_t units_in_pass(const struct point *point)
{
	return pass_bytes(point) * moves_per_byte(point);
}

static bool has_loop(const struct variant *variant, const struct point *point)
{
	return variant->stream[point->operation] ||
	       (variant->tiles && point->operation == OPERATION_READ);
}

/* Returns the bytes from row to row of the matrix whose tiles are read; 0: not read by tiles. */
static uint32_t tile_stride(const struct variant *variant, const struct options *options)
{
	const struct tiles *tiles = variant->tiles;

	if (!tiles)
		return 0;
	return options->stride && !tiles->is_fixed ? (uint32_t)options->stride : tiles->stride;
}

static uint64_t tile_rows_bytes(const struct point *point)
{
	return point->stride_bytes ? TILE_ROWS * (uint64_t)point->stride_bytes : 1;
}

/* Adds a point unless there is one of its name; a size of tiles is rounded down to whole rows. */
static int add_point(const struct point_context *context, struct point point, struct points *points,
		     struct refusal *refusal)
{
	const struct tiles *tiles = context->variant->tiles;
	char size[SIZE_ROOM], stride[16] = "";

	point.bytes -= point.bytes % tile_rows_bytes(&point);
	if (!point.bytes)
		return 0;
	format_size(point.bytes, size);
	if (tiles && point.stride_bytes != tiles->stride)
		snprintf(stride, sizeof stride, ".s%" PRIu32, point.stride_bytes);
	point.huge_pages = points_have_huge_pages(context);
	point.arena_bytes = point.bytes;
	point.one_arena = point.sharing == SHARING_ONE;
	int length = snprintf(point.name, sizeof point.name, "%s.%s.%s%s.%s.x%" PRIu32,
			      operation_name(point.operation), sharing_name(point.sharing), size,
			      stride, point.huge_pages ? "huge" : "base", point.threads);

	if ((size_t)length >= sizeof point.name)
		return refuse(refusal, EXIT_OPTIONS, "the point of %s has too long a name", size);
	return points_has_name(points, point.name) ? 0 : points_add(points, &point, refusal);
}

/* Adds all sizes of one operation by so many threads. */
static int add_sizes(const struct point_context *context, const struct sizes *sizes, bool given,
		     struct point point, struct points *points, struct refusal *refusal)
{
	uint64_t memory = size_outside_caches(context, point.threads, memory_most);
	int err = 0;

	for (size_t i = 0; !err && i < sizes->count; i++) {
		point.bytes = sizes->bytes[i];
		if (given || (!context->by_node && point.bytes < memory))
			err = add_point(context, point, points, refusal);
	}
	point.bytes = memory;
	return err || given ? err : add_point(context, point, points, refusal);
}

static int add_points(const struct options *options, const struct point_context *context,
		      struct points *points, struct refusal *refusal)
{
	bool given = strcmp(options->sizes, "auto");
	const char *usual = context->by_node ? "read,copy" : "read,write,copy,nt";
	uint32_t operations, shares, stride = tile_stride(context->variant, options);
	struct sizes sizes;
	int err = read_sizes(options->sizes, context->facts, memory_most, &sizes, refusal);

	if (err ||
	    read_operations(options->operations ? options->operations : usual, &operations,
			    refusal) ||
	    read_words_as_mask("share", options->share ? options->share : "own", sharing_name,
			       SHARING_ONE + 1, &shares, refusal))
		return -1;
	if (stride && context->automatic) /* whatever has tiles has vectors, which read too */
		return 0;
	if (stride % TILE_ROW_BYTES)
		return refuse(refusal, EXIT_OPTIONS,
			      "--stride: of bandwidth/%s it is a multiple of %d, not %" PRIu32,
			      context->variant->name, TILE_ROW_BYTES, stride);
	for (enum operation o = OPERATION_READ; o < OPERATION_SWAP; o++)
		for (enum sharing s = SHARING_OWN; s <= SHARING_ONE; s++)
			for (size_t t = 0; !err && t < context->thread_count; t++) {
				const struct point point = {.operation = (uint8_t)o,
							    .sharing = (uint8_t)s,
							    .stride_bytes = stride,
							    .threads = context->threads[t]};
				bool shared = s == SHARING_ONE;

				if (!(operations >> o & 1) || !(shares >> s & 1) ||
				    (shared && (o != OPERATION_READ || point.threads == 1)))
					continue;
				err = add_sizes(context, &sizes, given, point, points, refusal);
			}
	if (!err && !points->count && stride && operations & 1u << OPERATION_READ)
		return refuse(refusal, EXIT_OPTIONS,
			      "--stride: of bandwidth/%s %d rows of %" PRIu32
			      " bytes have room in none of the sizes",
			      context->variant->name, TILE_ROWS, stride);
	if (!err && !points->count && operations < 1u << OPERATION_SWAP)
		return refuse(refusal, EXIT_OPTIONS,
			      "--share one is for several threads that read, and there are none");
	return err;
}

static void set_up_sweeps(struct side *sides, size_t count, struct random *random)
{
	(void)random;
	for (size_t i = 0; i < count; i++) {
		struct side *side = &sides[i];

		side->sweep.to = side->arena;
		side->sweep.bytes = pass_bytes(side->point);
		side->sweep.from = side->arena + side->point->bytes - side->sweep.bytes;
		side->first = units_in_pass(side->point);
	}
}

static int begin_tiles(struct side *side)
{
	if (side->variant->tiles)
		side->variant->tiles->begin();
	return 0;
}

static void end_tiles(struct side *side)
{
	if (side->variant->tiles)
		side->variant->tiles->end();
}

/* Returns the tile after `bytes` bytes of tiles. *left: tiles from it to the end of its rows. */
static const char *locate_tile(const struct side *side, size_t bytes, size_t *left)
{
	size_t stride = side->point->stride_bytes, columns = stride / TILE_ROW_BYTES;
	size_t tile = bytes / TILE_BYTES;

	*left = columns - tile % columns;
	return side->sweep.to + tile / columns * TILE_ROWS * stride +
	       tile % columns * TILE_ROW_BYTES;
}

static bool read_tiles(const struct side *side, size_t bytes)
{
	size_t left, ignored;
	const char *from = locate_tile(side, side->sweep.position, &left);
	const char *end = side->variant->tiles->read(from, side->point->stride_bytes, left,
						     bytes / TILE_BYTES);

	return end == locate_tile(side, side->sweep.position + bytes, &ignored);
}

static bool stream_bytes(const struct side *side, size_t bytes)
{
	char *to = side->sweep.to + side->sweep.position;
	const char *from = side->sweep.from + side->sweep.position;

	return side->variant->stream[side->point->operation](to, from, bytes) == to + bytes;
}

static void sweep_units(struct side *side, uint32_t n)
{
	bool tiles = side->variant->tiles;
	size_t left = n / moves_per_byte(side->point);

	while (left) {
		size_t position = side->sweep.position, rest = side->sweep.bytes - position;
		size_t bytes = left < rest ? left : rest;

		side->odd += !(tiles ? read_tiles(side, bytes) : stream_bytes(side, bytes));
		side->sweep.position = bytes < rest ? position + bytes : 0;
		left -= bytes;
	}
	__sync_synchronize(); /* what is stored past the caches may still be in buffers */
}

static void run_loops_once(const struct variant *variant)
{
	static _Alignas(4096) char memory[8192];

	for (enum operation o = OPERATION_READ; o < OPERATIONS; o++)
		if (variant->stream[o])
			variant->stream[o](memory, memory + 4096, 4096);
	if (!variant->tiles)
		return;
	const size_t stride = variant->tiles->stride, columns = stride / TILE_ROW_BYTES;

	variant->tiles->begin();
	variant->tiles->read(memory, stride, columns, columns);
	variant->tiles->end();
}

static MEANINGS(operations, {OPERATION_READ, "read"}, {OPERATION_WRITE, "written"},
		{OPERATION_COPY, "copied"}, {OPERATION_NT, "written past the caches"},
		{OPERATION_ZERO, "cleared"}, {OPERATION_MODIFY, "read and written"},
		{OPERATION_NTCOPY, "copied past the caches"});
static MEANINGS(sharings, {SHARING_OWN, "each thread its own memory"},
		{SHARING_ONE, "all the memory of the first"});

PARAMETERS({"bytes", "sizes", ROLE_ROW, POINT_MEMBER(bytes), .bytes = true},
	   {"operation", "op", ROLE_COLUMN, POINT_MEMBER(operation), operation_name,
	    .words = operations},
	   {"sharing", "share", ROLE_COLUMN, POINT_MEMBER(sharing), sharing_name,
	    .words = sharings},
	   {"stride_bytes", "stride", ROLE_COLUMN, POINT_MEMBER(stride_bytes), .bytes = true},
	   {"threads", "threads", ROLE_TABLE, POINT_MEMBER(threads)}, PARAMETER_PAGES,
	   PARAMETER_NODE);

const struct benchmark bench_bandwidth = {
	.name = "bandwidth",
	.question = "How many bytes a second go through memory, of one CPU or of many at once",
	.unit = "byte",
	.heading = "GB/s",
	.rate = "GB/s",
	.view = "ladder",
	.parameters = parameters,
	.shape = SHAPE_GROUP,
	.all_timed = true,
	.huge_pages = true,
	.least = 1,
	.chunk = CHUNK,
	.sample_us = 100,
	.native_variants = arch_stream,
	.generic_variants = generic_stream,
	.add_points = add_points,
	.is_supported = has_loop,
	.units_in_grain = units_in_pass,
	.run_loops_once = run_loops_once,
	.set_up = set_up_sweeps,
	.prepare = begin_tiles,
	.do_units = sweep_units,
	.finish = end_tiles,
};
