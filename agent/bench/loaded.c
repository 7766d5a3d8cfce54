/* loaded.c: what a load costs while other threads use the memory, and how much they use.
 *
 * Ping goes through a cycle as chase does, in the order window, since page walks would use memory
 * too. Each other thread goes through memory of its own, at a rate: it begins a part of so many
 * bytes when the clock says that it is due, whatever the one before took. It counts its bytes on a
 * line of its own, which ping reads at each of its stamps: a sample has its load's own rate. */
#include "bench/sizes.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
	STRIDE = 256,
	PART = 4096, /* bytes that are begun together */
	PART_MOST = 1 << 16,
	TOGETHER = 16,      /* parts that are due are done at once, and a mix turns after so many */
	STEPS = 8,          /* of the clock at least, from one part to the next */
	FRACTION = 16,      /* bits of grain_ticks behind the point */
	ARREARS_A_S = 4000, /* 250 us, longer than interrupts: what is later is not made up for */
	RATES_MAX = 32,
	SHARES_MAX = 16,
};

static const uint64_t memory_least = UINT64_C(64) << 20, memory_most = UINT64_C(4) << 30;
static const enum operation operations[] = {OPERATION_READ, OPERATION_MIX, OPERATION_WRITE,
					    OPERATION_NT};

/* Reads rates in GB/s like "0,0.5,16,full" as MB/s. Returns 0, or -1 and a refusal. */
static int read_rates(const char *list, uint32_t rates[RATES_MAX], size_t *count,
		      struct refusal *refusal)
{
	for (*count = 0; *count < RATES_MAX; list++) {
		size_t span = strcspn(list, ",");
		char *end = (char *)list + span;
		bool full = span == 4 && !strncmp(list, "full", 4);
		double mbps = full ? LOAD_FULL : 1000 * strtod(list, &end);
		bool is_valid = full || !mbps || (mbps >= MBPS_LEAST && mbps <= MBPS_MOST);

		if (!span || end != list + span || !is_valid)
			break;
		rates[(*count)++] = (uint32_t)mbps;
		list += span;
		if (!*list)
			return 0;
	}
	if (*count < RATES_MAX)
		return options_refuse_value("load", list, refusal);
	return refuse(refusal, EXIT_OPTIONS, "--load wants at most %d rates, not '%s' as well",
		      RATES_MAX, list);
}

/* Reads shares of reads in per cent, like "100,75,50", whose numbers the options have checked;
 * without a list there is the usual one, 0. */
static int read_shares(const char *list, uint32_t shares[SHARES_MAX], size_t *count,
		       struct refusal *refusal)
{
	const char *next = list;

	shares[0] = 0;
	*count = list ? 0 : 1;
	while (next && *count < SHARES_MAX) {
		uint64_t share = 0;
		const char *end = text_read_number(next, 100, &share);

		shares[(*count)++] = (uint32_t)share;
		next = *end ? end + 1 : NULL;
	}
	if (next)
		return refuse(refusal, EXIT_OPTIONS, "--reads wants at most %d per cents, not '%s'",
			      SHARES_MAX, list);
	return 0;
}

/* Returns the load's operation, and behind a dash its share of reads, in a static buffer. */
static const char *name_load(const struct point *point)
{
	static char name[16];

	snprintf(name, sizeof name, point->read_percent ? "%s-%" PRIu32 : "%s",
		 operation_name(point->operation), point->read_percent);
	return name;
}

/* Writes a rate with a dot after it; writes nothing for no load. */
static void name_rate(uint32_t mbps, char name[SIZE_ROOM])
{
	if (mbps == LOAD_FULL)
		snprintf(name, SIZE_ROOM, "full.");
	else if (mbps)
		snprintf(name, SIZE_ROOM, "at%" PRIu32 "%s.", mbps % 1000 ? mbps : mbps / 1000,
			 mbps % 1000 ? "M" : "G");
}

static int add_point(const struct point_context *context, struct point point, struct points *points,
		     struct refusal *refusal)
{
	char size[SIZE_ROOM], rate[SIZE_ROOM] = "";

	point.arena_bytes = point.bytes;
	point.load_bytes = size_outside_caches(context, point.threads - 1, memory_most);
	point.stride_bytes = STRIDE;
	point.order = ORDER_WINDOW;
	point.huge_pages = points_have_huge_pages(context);
	point.cycle = chase_cycle_key(&point);
	format_size(point.bytes, size);
	name_rate(point.load_mbps, rate);
	int length = snprintf(point.name, sizeof point.name, "%s.%sx%" PRIu32 ".%s.%s",
			      name_load(&point), rate, point.threads, size,
			      point.huge_pages ? "huge" : "base");

	if ((size_t)length >= sizeof point.name)
		return refuse(refusal, EXIT_OPTIONS, "the point of %s has too long a name", size);
	return points_has_name(points, point.name) ? 0 : points_add(points, &point, refusal);
}

/* Adds a point for each operation and rate, by so many threads on so many bytes; the point without
 * a load once. share: of reads among writes; 0: as usual. */
static int add_rates(const struct point_context *context, const uint32_t *rates, size_t count,
		     uint32_t chosen, uint32_t share, struct point point, struct points *points,
		     struct refusal *refusal)
{
	int err = 0;

	for (size_t o = 0; o < sizeof operations / sizeof *operations; o++) {
		const struct variant *helper = context->helpers[operations[o]];
		bool shared = operations[o] == OPERATION_MIX || operations[o] == OPERATION_NT;

		if (share && shared && helper && !helper->stream[OPERATION_READ])
			helper = NULL;
		for (size_t r = 0; !err && r < count; r++) {
			point.read_percent = rates[r] && shared ? share : 0;
			point.operation = (uint8_t)(rates[r] ? operations[o] : OPERATION_IDLE);
			point.load_mbps = rates[r];
			point.load_variant = rates[r] ? helper : NULL;
			if (helper && (chosen >> operations[o] | chosen >> point.operation) & 1)
				err = add_point(context, point, points, refusal);
		}
	}
	return err;
}

static int add_points(const struct options *options, const struct point_context *context,
		      struct points *points, struct refusal *refusal)
{
	const char *usual = context->by_node ? "0,full" : "0,1,2,4,8,16,full";
	uint32_t chosen, rates[RATES_MAX], shares[SHARES_MAX];
	struct sizes sizes;
	size_t rate_count, share_count;
	int err = read_sizes(options->sizes, context->facts, memory_most, &sizes, refusal);

	if (err ||
	    read_operations(options->operations ? options->operations
			    : options->reads    ? "mix"
						: "read,mix",
			    &chosen, refusal) ||
	    read_shares(options->reads, shares, &share_count, refusal) ||
	    read_rates(options->load ? options->load : usual, rates, &rate_count, refusal))
		return -1;
	if (!strcmp(options->sizes, "auto")) {
		uint64_t outside = size_outside_caches(context, 1, memory_most / 2);

		sizes.count = 1;
		sizes.bytes[0] = outside > memory_least ? 2 * outside : memory_least;
	}
	for (size_t t = 0; t < context->thread_count; t++)
		for (size_t s = 0; context->threads[t] > 1 && s < sizes.count; s++)
			for (size_t r = 0; !err && r < share_count; r++)
				err = add_rates(context, rates, rate_count, chosen, shares[r],
						(struct point){.bytes = sizes.bytes[s],
							       .threads = context->threads[t]},
						points, refusal);
	return err;
}

static bool has_loop(const struct variant *variant, const struct point *point)
{
	(void)point;
	return variant->chase != NULL;
}

/* Chooses parts so large that the clock can tell when one is due. */
static void set_up_load(struct side *side)
{
	double ticks = (double)side->clock->ticks_per_second / 1e6 / side->point->load_mbps;
	size_t part = PART;

	side->load.due = side->point->load_mbps == LOAD_FULL ? UINT64_MAX : 0;
	while (!side->load.due && part < PART_MOST &&
	       ticks * (double)part < STEPS * (double)side->clock->quantum_ticks)
		part *= 4;
	side->load.grain = part;
	side->load.grain_ticks = (uint64_t)(ticks * (double)part * (1 << FRACTION));
}

static void set_up_threads(struct side *sides, size_t count, struct random *random)
{
	chase_set_up(sides, 1, random);
	for (size_t i = 1; i < count; i++)
		if (sides[i].point->load_mbps)
			set_up_load(&sides[i]);
}

static int link_ping_lines(struct side *side)
{
	return side->index ? 0 : chase_link_lines(side);
}

/* Waits until the next part is due. All that is due by then follows without a look at the clock,
 * which would wait for the end of each part. Computes with whole numbers: floating-point operations
 * that follow wide vectors are slow on some CPUs. */
static void wait_until_due(struct side *side)
{
	int64_t most = (int64_t)(side->clock->ticks_per_second / ARREARS_A_S << FRACTION);
	int64_t part = (int64_t)side->load.grain_ticks, late;

	if (side->load.grains < side->load.due)
		return;
	do {
		uint64_t now = side->clock->ticks();

		if (!side->load.grains)
			side->load.begun = now;
		late = (int64_t)((now - side->load.begun) << FRACTION) -
		       (int64_t)side->load.grains * part;
	} while (late < 0);
	if (late > most) {
		side->load.begun += (uint64_t)(late - most) >> FRACTION;
		late = most;
	}
	side->load.due = side->load.grains + 1 + (uint64_t)(late / part);
}

/* Reports whether a load that reads and writes by turns of TOGETHER parts writes in this one. */
static bool is_write_turn(uint64_t turn, uint32_t read_percent)
{
	uint64_t writes = 100 - read_percent;

	return read_percent ? (turn + 1) * writes / 100 > turn * writes / 100 : turn % 3 == 2;
}

/* Does the parts that are due. A mix reads one half of the memory and writes the other. */
static void transfer_due_parts(struct side *side)
{
	const struct variant *variant = side->point->load_variant;
	enum operation operation = side->point->operation;
	uint64_t parts = side->load.due - side->load.grains,
		 left = TOGETHER - side->load.grains % TOGETHER;
	uint32_t reads = side->point->read_percent;
	bool mixed = operation == OPERATION_MIX || reads,
	     second = mixed && is_write_turn(side->load.grains / TOGETHER, reads);
	size_t room = side->point->load_bytes / (mixed ? 2 : 1),
	       position = side->load.position[second];
	size_t bytes = (parts < left ? parts : left) * side->load.grain;
	char *to = side->arena + (second ? room : 0) + position;

	bytes = bytes < room - position ? bytes : room - position;
	if (mixed)
		operation = !second                     ? OPERATION_READ
			    : operation == OPERATION_NT ? OPERATION_NT
							: OPERATION_WRITE;
	side->odd += variant->stream[operation](to, to, bytes) != to + bytes;
	side->load.position[second] = (position + bytes) % room;
	side->load.grains += bytes / side->load.grain;
	__atomic_store_n(&side->done, side->done + (uint32_t)bytes, __ATOMIC_RELAXED);
}

/* Ping chases. Each other thread does the parts that are due, or nothing, whatever n is: it goes on
 * until ping has its samples. */
static void chase_or_load(struct side *side, uint32_t n)
{
	if (!side->index) {
		chase_do_loads(side, n);
	} else if (side->point->load_mbps) {
		wait_until_due(side);
		transfer_due_parts(side);
	}
}

static bool check_chaser_position(const struct side *sides, size_t count, char *words, size_t room)
{
	(void)count;
	return chase_check_position(sides, 1, words, room);
}

static MEANINGS(operation_words, {OPERATION_IDLE, "the other threads wait"},
		{OPERATION_READ, "they read"}, {OPERATION_MIX, "they read two parts and write one"},
		{OPERATION_WRITE, "they write"}, {OPERATION_NT, "they write past the caches"});

static const char *name_load_variant(const struct point *point)
{
	return point->load_variant ? point->load_variant->name : NULL;
}

PARAMETERS({"operation", "op", ROLE_ROW, POINT_MEMBER(operation), operation_name, name_load,
	    operation_words},
	   {"load_mbps", "load", ROLE_COLUMN, POINT_MEMBER(load_mbps), .none = "full"},
	   {"bytes", "sizes", ROLE_TABLE, POINT_MEMBER(bytes), .bytes = true},
	   {"threads", "threads", ROLE_TABLE, POINT_MEMBER(threads)},
	   {"load_bytes", NULL, ROLE_NONE, POINT_MEMBER(load_bytes), .bytes = true},
	   {.name = "load_variant", POINT_MEMBER(load_variant), .record = name_load_variant},
	   {"stride_bytes", NULL, ROLE_NONE, POINT_MEMBER(stride_bytes), .bytes = true},
	   PARAMETER_PAGES, PARAMETER_NODE,
	   {"load_node", "nodes", ROLE_NONE, POINT_MEMBER(load_node), .none = "any", .node = true});

const struct benchmark bench_loaded = {
	.name = "loaded",
	.question = "What a load costs while other CPUs use the memory, and how much they get",
	.unit = "load",
	.other_unit = "byte",
	.heading = "ns per load",
	.parameters = parameters,
	.shape = SHAPE_GROUP,
	.threads = "cores",
	.helper = &bench_bandwidth,
	.all_counted = true,
	.huge_pages = true,
	.least = 64,
	.chunk = 1 << 14,
	.sample_us = 1000,
	.native_variants = arch_chase,
	.generic_variants = generic_chase,
	.add_points = add_points,
	.is_supported = has_loop,
	.grain_units = LOADS,
	.run_loops_once = chase_try_loop,
	.set_up = set_up_threads,
	.prepare = link_ping_lines,
	.do_units = chase_or_load,
	.check_results = check_chaser_position,
};
