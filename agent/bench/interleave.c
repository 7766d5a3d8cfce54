/* interleave.c: what it costs to write next to one another. Each thread writes as many bytes
 * as fit its own caches, into memory of its own or into every second block of one stretch. No line
 * is ever written by both. */
#include "bench/sizes.h"

#include <inttypes.h>

enum {
	BYTES = 256 << 10, /* of each thread in one pass */
	LINE = 64,
	PASS = BYTES / LINE,
	UNTIMED_PASSES = 2,
	CHUNK_PASSES = 32,
};

static bool is_block_size(uint64_t bytes)
{
	return bytes >= BLOCK_LEAST && bytes <= BLOCK_MOST && !(bytes & (bytes - 1));
}

/* Reads a list into a mask of powers of two. */
static int read_blocks(const char *list, uint32_t *mask, struct refusal *refusal)
{
	uint64_t first, last;

	*mask = 0;
	for (const char *next = list;; next++) {
		if (!read_size_range(&next, is_block_size, &first, &last))
			return options_refuse_value("blocks", list, refusal);
		for (; first <= last; first *= 2)
			*mask |= (uint32_t)first;
		if (!*next)
			return 0;
	}
}

static int add_point(const struct point_context *context, struct point point, struct points *points,
		     struct refusal *refusal)
{
	char block[SIZE_ROOM];

	point.bytes = BYTES;
	point.threads = 2;
	point.huge_pages = points_have_huge_pages(context);
	point.one_arena = point.sharing == SHARING_SHARED;
	point.arena_bytes = (uint64_t)BYTES * (point.one_arena ? point.threads : 1);
	format_size(point.block_bytes, block);
	snprintf(point.name, sizeof point.name, "%s.%s.%s%s", sharing_name(point.sharing),
		 operation_name(point.operation), block, point.huge_pages ? ".huge" : "");
	return points_add(points, &point, refusal);
}

static int add_points(const struct options *options, const struct point_context *context,
		      struct points *points, struct refusal *refusal)
{
	static const enum operation kinds[] = {OPERATION_WRITE, OPERATION_NT};
	static const enum sharing sharings[] = {SHARING_OWN, SHARING_SHARED};
	uint32_t blocks, operations = 1u << OPERATION_WRITE;
	int err = 0;

	if (read_blocks(options->blocks, &blocks, refusal) ||
	    (options->operations && read_operations(options->operations, &operations, refusal)))
		return -1;
	for (size_t k = 0; k < 2; k++)
		for (size_t s = 0; s < 2; s++)
			for (uint32_t block = BLOCK_LEAST; !err && block <= BLOCK_MOST;
			     block *= 2) {
				const struct point point = {.operation = (uint8_t)kinds[k],
							    .sharing = (uint8_t)sharings[s],
							    .block_bytes = block};

				if (blocks & block && operations >> kinds[k] & 1)
					err = add_point(context, point, points, refusal);
			}
	return err;
}

static blocks_fn *find_blocks_loop(const struct variant *variant, const struct point *point)
{
	return point->operation == OPERATION_NT ? variant->nt_blocks : variant->blocks;
}

static bool has_loop(const struct variant *variant, const struct point *point)
{
	return find_blocks_loop(variant, point);
}

static void set_up_blocks(struct side *sides, size_t count, struct random *random)
{
	(void)random;
	for (size_t i = 0; i < count; i++) {
		struct side *side = &sides[i];
		bool shared = side->point->sharing == SHARING_SHARED;
		size_t block = side->point->block_bytes;

		side->blocks.first = side->arena + (shared ? i * block : 0);
		side->blocks.step = shared ? count * block : block;
		side->blocks.end = side->blocks.first + BYTES / block * side->blocks.step;
		side->first = UNTIMED_PASSES * PASS;
	}
}

static void write_blocks(struct side *side, uint32_t n)
{
	blocks_fn *blocks = find_blocks_loop(side->variant, side->point);

	for (uint32_t pass = n / PASS; pass; pass--)
		side->odd += blocks(side->blocks.first, side->point->block_bytes, side->blocks.step,
				    side->blocks.end) != side->blocks.end;
}

static void run_loops_once(const struct variant *variant)
{
	static _Alignas(LINE) char memory[4 * LINE];

	if (variant->blocks)
		variant->blocks(memory, LINE, 2 * LINE, memory + sizeof memory);
	if (variant->nt_blocks)
		variant->nt_blocks(memory, LINE, 2 * LINE, memory + sizeof memory);
}

static MEANINGS(operations, {OPERATION_WRITE, "stores"}, {OPERATION_NT, "stores past the caches"});
static MEANINGS(sharings, {SHARING_OWN, "each thread its own memory"},
		{SHARING_SHARED, "blocks by turns in one"});

PARAMETERS({"block_bytes", "blocks", ROLE_ROW, POINT_MEMBER(block_bytes), .bytes = true},
	   {"sharing", NULL, ROLE_COLUMN, POINT_MEMBER(sharing), sharing_name, .words = sharings},
	   {"operation", "op", ROLE_TABLE, POINT_MEMBER(operation), operation_name,
	    .words = operations},
	   {"bytes", NULL, ROLE_NONE, POINT_MEMBER(bytes), .bytes = true}, PARAMETER_PAGES,
	   PARAMETER_THREADS);

const struct benchmark bench_interleave = {
	.name = "interleave",
	.question = "What it costs two CPUs to write next to one another",
	.unit = "line",
	.heading = "ns per line",
	.view = "blocks",
	.parameters = parameters,
	.shape = SHAPE_PAIR,
	.all_timed = true,
	.many_points = true,
	.least = 1,
	.chunk = CHUNK_PASSES * PASS,
	.sample_us = 100,
	.native_variants = arch_interleave,
	.generic_variants = generic_interleave,
	.add_points = add_points,
	.is_supported = has_loop,
	.grain_units = PASS,
	.run_loops_once = run_loops_once,
	.set_up = set_up_blocks,
	.do_units = write_blocks,
};
