/* memcpy.c: the cost of a call of the C library's memcpy() that copies few bytes. The calls copy
 * from one place to another, and both stay in the first cache. The compiler knows neither whom it
 * calls nor the size; shuffled sizes stand in a table, which is read beside the calls. */
#include "bench/sizes.h"

#include <stdio.h>
#include <string.h>

enum { LEAST = 16, MOST = 4096, LINE = 64, CALLS = 1024 };
enum { TO = 2 * MOST + 17 * LINE, TABLE = 4 * MOST }; /* in the arena; what is copied begins it */

/* Kinds of calls; a point has one as its operation. */
enum { ALIGNED, UNALIGNED, SHUFFLED, KINDS };

typedef void *copy_fn(void *to, const void *from, size_t bytes);

static copy_fn *volatile const library_memcpy = memcpy;

static VARIANTS(variants, {.name = "libc"});

static const char *kind_name(unsigned kind)
{
	static const char *const names[] = {"aligned", "unaligned", "shuffled"};

	return names[kind];
}

static int add_points(const struct options *options, const struct point_context *context,
		      struct points *points, struct refusal *refusal)
{
	struct point point = {.threads = 1, .arena_bytes = TABLE + CALLS * sizeof(uint16_t)};
	char size[SIZE_ROOM];
	int err = 0;

	(void)options;
	(void)context;
	for (point.bytes = LEAST; point.bytes <= MOST; point.bytes *= 2)
		for (point.operation = 0; !err && point.operation < KINDS; point.operation++) {
			format_size(point.bytes, size);
			snprintf(point.name, sizeof point.name, "%s.%s", kind_name(point.operation),
				 size);
			point.spared = point.bytes == LEAST ? SPARED_NEVER : SPARED_FIRST;
			err = points_add(points, &point, refusal);
		}
	return err;
}

static void set_up_copies(struct side *sides, size_t count, struct random *random)
{
	size_t aside = sides->point->operation == UNALIGNED;

	(void)count;
	(void)random;
	sides->sweep.from = sides->arena + aside;
	sides->sweep.to = sides->arena + TO + 3 * aside;
	sides->first = CALLS;
}

static uint16_t *size_table(const struct side *side)
{
	return (void *)(side->arena + TABLE);
}

/* Fills the memory and the table of sizes: from 1 byte on, the largest first, in one order on every
 * machine. */
static int fill_memory(struct side *side)
{
	struct random random = random_start(0, 0);
	uint64_t most = side->point->bytes;

	for (size_t i = 0; i < TABLE; i++)
		side->arena[i] = i < TO ? (char)(i * 7 + 1) : 0;
	size_table(side)[0] = (uint16_t)most;
	for (size_t i = 1; i < CALLS; i++)
		size_table(side)[i] = (uint16_t)(1 + random_below(&random, most));
	return 0;
}

/* The function and the size are in registers: a direct call costs as much. */
static void copy_one_size(const struct side *side, uint32_t n)
{
	copy_fn *copy = library_memcpy;
	const char *from = side->sweep.from;
	char *to = side->sweep.to;
	size_t bytes = side->point->bytes;

	while (n--)
		copy(to, from, bytes);
}

/* The place in the table is in a register: a store of its own delays the copy's. */
static void copy_shuffled_sizes(struct side *side, uint32_t n)
{
	copy_fn *copy = library_memcpy;
	const uint16_t *table = size_table(side);
	const char *from = side->sweep.from;
	char *to = side->sweep.to;
	size_t position = side->sweep.position;

	while (n--)
		copy(to, from, table[position++ % CALLS]);
	side->sweep.position = position;
}

static void call_memcpy(struct side *side, uint32_t n)
{
	if (side->point->operation == SHUFFLED)
		copy_shuffled_sizes(side, n);
	else
		copy_one_size(side, n);
}

static bool check_copy(const struct side *sides, size_t count, char *words, size_t room)
{
	snprintf(words, room, "a call did not copy what it should");
	return count && !memcmp(sides->sweep.to, sides->sweep.from, sides->point->bytes);
}

static MEANINGS(kinds, {ALIGNED, "from and to the start of a page"},
		{UNALIGNED, "from 1 byte behind it to 3 bytes behind it"},
		{SHUFFLED, "aligned, sizes from 1 byte to this in random order"});

PARAMETERS({"bytes", NULL, ROLE_ROW, POINT_MEMBER(bytes), .bytes = true},
	   {"operation", NULL, ROLE_COLUMN, POINT_MEMBER(operation), kind_name, .words = kinds},
	   PARAMETER_THREADS);

const struct benchmark bench_memcpy = {
	.name = "memcpy",
	.question = "What a call of the C library costs that copies few bytes",
	.unit = "call",
	.heading = "ns per call",
	.parameters = parameters,
	.shape = SHAPE_GROUP,
	.threads = "1",
	.all_timed = true,
	.least = 64,
	.chunk = 1 << 12,
	.sample_us = 100,
	.native_variants = variants,
	.add_points = add_points,
	.set_up = set_up_copies,
	.prepare = fill_memory,
	.do_units = call_memcpy,
	.check_results = check_copy,
};
