/* fetch.c: what a line costs ping, by where it is and how it came there.
 *
 * Ping is the reader, the last thread the owner, and a third may stand between. Before each pass
 * all bring the lines into a state, step by step; then the reader goes through them once. Line 0 of
 * each page is never measured: the reader loads it last, so that translations are at hand. */
#include "bench/sizes.h"

#include <inttypes.h>
#include <string.h>

enum {
	BYTES = 128 << 10,
	STRIDE = 256, /* neighbours are fetched in pairs */
	STRIDE_LEAST = 64,
	PASSES = 32, /* where one pass leaves the state as it is, for a sample to last */
	STEPS = 3,
	STEP_BYTES = 64,
	OWNER_CACHES = 4, /* an eviction goes through so many times the second cache */
	LAST_CACHES = 2,  /* and for a flush to memory through so many times the last */
};

static const uint64_t second_usual = UINT64_C(1) << 20, last_usual = UINT64_C(32) << 20,
		      walk_most = UINT64_C(512) << 20;

#ifdef FETCH_WITHOUT_STATES /* a build of the tests, which shows what the states do */
enum { PREPARES = 0 };
#else
enum { PREPARES = 1 };
#endif

enum who { NOBODY, READER, OWNER, THIRD };
enum action { WRITES, READS, FLUSHES, EVICTS };

/* How a state is made. Where nothing can be flushed, all go through other memory instead. */
static const struct state_facts {
	const char *name;
	struct step {
		enum who who;
		enum action action;
	} steps[STEPS];
} states[STATES] = {
	[STATE_OWN] = {"own", {{READER, WRITES}}},
	[STATE_WRITTEN] = {"written", {{OWNER, WRITES}}},
	[STATE_CLEAN] = {"clean", {{READER, FLUSHES}, {OWNER, READS}}},
	[STATE_BOTH] = {"both", {{READER, FLUSHES}, {READER, READS}, {OWNER, READS}}},
	[STATE_THIRD] = {"third", {{READER, FLUSHES}, {OWNER, READS}, {THIRD, READS}}},
	[STATE_TAKEN] = {"taken", {{OWNER, WRITES}, {THIRD, READS}}},
	[STATE_EVICTED] = {"evicted", {{OWNER, WRITES}, {OWNER, EVICTS}}},
	[STATE_MEMORY] = {"memory", {{READER, FLUSHES}}},
};

/* Reports whether making the state takes this action of this thread; NOBODY: of any thread. */
static bool has_step(enum state state, enum who who, enum action action)
{
	for (size_t i = 0; i < STEPS; i++) {
		const struct step *step = &states[state].steps[i];

		if (step->who && (who == NOBODY || step->who == who) && step->action == action)
			return true;
	}
	return false;
}

static bool needs_third_cpu(enum state state)
{
	return has_step(state, THIRD, READS);
}

static const char *state_name(unsigned state)
{
	return states[state].name;
}

/* Returns the state, "-walked" added if other memory replaces flushing, in a static buffer. */
static const char *name_point_state(const struct point *point)
{
	static char name[16]; /* "evicted-walked" */

	snprintf(name, sizeof name, "%s%s", states[point->state].name,
		 point->walked && has_step(point->state, NOBODY, FLUSHES) ? "-walked" : "");
	return name;
}

/* ---- points ---------------------------------------------------------------------------------- */

static uint64_t cache_multiple_bytes(const struct cpu_cache *cache, uint64_t usual, uint64_t times)
{
	uint64_t bytes = times * (cache && cache->bytes > 0 ? (uint64_t)cache->bytes : usual);

	return bytes < walk_most ? bytes : walk_most;
}

/* Returns the bytes of memory that drive the lines out of a CPU's caches; 0 where they need not be.
 */
static uint64_t eviction_bytes(const struct cpu_facts *facts, enum state state, bool flushes)
{
	bool walked = has_step(state, NOBODY, FLUSHES) && !flushes;
	const struct cpu_cache *second = NULL;

	if (walked && state == STATE_MEMORY)
		return cache_multiple_bytes(last_data_cache(facts), last_usual, LAST_CACHES);
	for (size_t i = 0; i < facts->cache_count; i++)
		if (facts->caches[i].level == 2 && strcmp(facts->caches[i].kind, "Instruction"))
			second = &facts->caches[i];
	return walked || has_step(state, NOBODY, EVICTS)
		       ? cache_multiple_bytes(second, second_usual, OWNER_CACHES)
		       : 0;
}

/* Adds a point: `state.order.size` for reading, `state.operation.size` for what has only one
 * order. */
static int add_point(const struct options *options, const struct point_context *context,
		     struct point point, struct points *points, struct refusal *refusal)
{
	bool reads = point.operation == OPERATION_READ;
	char size[SIZE_ROOM], stride[16] = "";

	point.bytes = point.arena_bytes = BYTES;
	point.one_arena = true;
	point.stride_bytes = options->stride ? (uint32_t)options->stride : STRIDE;
	point.huge_pages = points_have_huge_pages(context);
	point.threads = needs_third_cpu(point.state) ? 3 : 2;
	point.walked = !context->flushes;
	point.walk_bytes = eviction_bytes(context->facts, point.state, context->flushes);
	point.walk_huge = context->huge_pages;
	format_size(BYTES, size);
	if (point.stride_bytes != STRIDE)
		snprintf(stride, sizeof stride, ".s%" PRIu32, point.stride_bytes);
	snprintf(point.name, sizeof point.name, "%s.%s.%s%s%s", name_point_state(&point),
		 reads ? order_name(point.order) : operation_name(point.operation), size, stride,
		 point.huge_pages ? ".huge" : "");
	return points_add(points, &point, refusal);
}

/* Adds the points of a state and an operation; a read both as a chase and as a stream. */
static int add_operation(const struct options *options, const struct point_context *context,
			 enum state state, enum operation operation, struct points *points,
			 struct refusal *refusal)
{
	int err = 0;

	for (enum order order = ORDER_CHASE; !err && order <= ORDER_STREAM; order++) {
		const struct point point = {.state = (uint8_t)state,
					    .order = (uint8_t)order,
					    .operation = (uint8_t)operation};

		if (operation == OPERATION_READ ||
		    (order == ORDER_CHASE) == (operation == OPERATION_SWAP))
			err = add_point(options, context, point, points, refusal);
	}
	return err;
}

static int check_options(const struct options *options, const struct point_context *context,
			 uint32_t chosen, struct refusal *refusal)
{
	uint64_t stride = options->stride ? options->stride : STRIDE;

	if (stride < STRIDE_LEAST || LINE_PAGE % stride || stride == LINE_PAGE)
		return refuse(refusal, EXIT_OPTIONS,
			      "--stride: of fetch it is a power of two from %d to %d, not %" PRIu64,
			      STRIDE_LEAST, LINE_PAGE / 2, stride);
	for (enum state state = STATE_OWN; state < STATES; state++)
		if (chosen >> state & 1 && needs_third_cpu(state) && context->cpu_count < 3)
			return refuse(refusal, EXIT_OPTIONS,
				      "--state %s needs a third CPU, and there are only %zu",
				      states[state].name, context->cpu_count);
	return 0;
}

static int add_points(const struct options *options, const struct point_context *context,
		      struct points *points, struct refusal *refusal)
{
	static const char usual[] = "own,written,clean,both,evicted,memory";
	uint32_t chosen, operations = 1u << OPERATION_READ;
	int err = 0;

	if (read_words_as_mask("state", options->states ? options->states : usual, state_name,
			       STATES, &chosen, refusal) ||
	    (options->operations && read_operations(options->operations, &operations, refusal)) ||
	    check_options(options, context, chosen, refusal))
		return -1;
	for (enum state state = STATE_OWN; state < STATES; state++)
		for (enum operation o = OPERATION_READ; !err && o < OPERATIONS; o++) {
			bool swap = !options->operations && !options->states &&
				    state == STATE_BOTH && o == OPERATION_SWAP;

			if (chosen >> state & 1 && (operations >> o & 1 || swap))
				err = add_operation(options, context, state, o, points, refusal);
		}
	return err;
}

/* Returns the loop of benchmark chase that has the variant's name; null if there is none. */
static chase_fn *find_chase(const struct variant *variant)
{
	const struct variant *other;

	for (size_t i = 0; (other = bench_variant(&bench_chase, i)); i++)
		if (!strcmp(other->name, variant->name))
			return other->chase;
	return NULL;
}

static bool has_loop(const struct variant *variant, const struct point *point)
{
	switch (point->operation) {
	case OPERATION_READ:
		return point->order == ORDER_CHASE ? find_chase(variant) != NULL
						   : variant->load != NULL;
	case OPERATION_SWAP:
		return variant->swap;
	case OPERATION_WRITE:
		return variant->store;
	default:
		return false;
	}
}

static size_t count_lines(const struct point *point)
{
	return BYTES / LINE_PAGE * (LINE_PAGE / point->stride_bytes - 1);
}

/* Returns the lines of one pass, which may end the state; of PASSES passes where the reader has the
 * lines already and may keep them. */
static uint64_t units_in_grain(const struct point *point)
{
	bool lasts = point->state == STATE_OWN ||
		     (point->state == STATE_BOTH && point->operation == OPERATION_READ);

	return count_lines(point) * (lasts ? PASSES : 1);
}

/* ---- making a state -------------------------------------------------------------------------- */

/* Returns the i-th of the measured lines, in rising order. */
static char *locate_line(const struct side *side, size_t i)
{
	size_t in_page = LINE_PAGE / side->point->stride_bytes - 1;

	return side->arena + i / in_page * LINE_PAGE +
	       (i % in_page + 1) * side->point->stride_bytes;
}

/* Links the lines into a cycle in random order; the reader does it for all. */
static int link_lines(struct side *side)
{
	uint16_t order[BYTES / STRIDE_LEAST] = {0};
	size_t count = count_lines(side->point);

	if (side->index > 0)
		return 0;
	for (size_t i = 0; i < count; i++) {
		size_t j = random_below(&side->chain.random, i + 1);

		order[i] = order[j];
		order[j] = (uint16_t)i;
	}
	for (size_t i = 0; i < count; i++)
		*(void **)locate_line(side, order[i]) =
			locate_line(side, order[i + 1 < count ? i + 1 : 0]);
	side->chain.next = side->chain.start = locate_line(side, order[0]);
	return 0;
}

/* Loads or stores each line; each keeps what it holds. */
static void touch_lines(struct side *side, bool write)
{
	for (size_t i = 0; i < count_lines(side->point); i++) {
		volatile uintptr_t *word = (volatile uintptr_t *)locate_line(side, i);
		uintptr_t value = *word;

		if (write)
			*word = value;
	}
}

/* Loads from each line of the second arena twice, to drive the measured lines out of caches. */
static void walk_memory(struct side *side)
{
	for (int pass = 0; pass < 2; pass++)
		for (uint64_t offset = 0; offset < side->point->walk_bytes; offset += STEP_BYTES)
			(void)*(volatile char *)(side->walk + offset);
}

static void perform_action(struct side *side, enum action action)
{
	if (action == FLUSHES)
		arch_flush(side->arena, BYTES, side->point->stride_bytes);
	else if (action == EVICTS)
		walk_memory(side);
	else
		touch_lines(side, action == WRITES);
}

static bool is_actor(const struct side *side, enum who who)
{
	return who == READER  ? side->index == 0
	       : who == OWNER ? side->index == side->count - 1
			      : who == THIRD && side->index > 0 && side->index < side->count - 1;
}

/* Does this thread's part of one step of making the state; its end is a full barrier. */
static void perform_state_step(struct side *side, unsigned phase)
{
	const struct step *step = &states[side->point->state].steps[phase];

	if (PREPARES && step->who && step->action == FLUSHES && side->point->walked)
		walk_memory(side);
	else if (PREPARES && is_actor(side, step->who))
		perform_action(side, step->action);
	for (size_t offset = 0; phase == STEPS - 1 && side->index == 0 && offset < BYTES;
	     offset += LINE_PAGE)
		(void)*(volatile char *)(side->arena + offset);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

/* ---- measuring ------------------------------------------------------------------------------- */

static void set_up_chases(struct side *sides, size_t count, struct random *random)
{
	for (size_t i = 0; i < count; i++) {
		sides[i].chain.random = random_start(random_next(random), i);
		sides[i].chain.chase = find_chase(sides[i].variant);
	}
}

static void go_through_lines(struct side *side, lines_fn *lines)
{
	char *end = side->arena + BYTES;

	side->odd += lines(side->arena, side->point->stride_bytes, end) != end;
}

static void fetch_lines(struct side *side, uint32_t n)
{
	const struct variant *variant = side->variant;
	bool chases = side->point->order == ORDER_CHASE;

	if (side->point->operation == OPERATION_SWAP)
		side->chain.next = variant->swap(side->chain.next, n);
	else if (chases)
		side->chain.next = side->chain.chase(side->chain.next, n / LOADS);
	for (size_t i = 0; !chases && i < n / count_lines(side->point); i++)
		go_through_lines(side, side->point->operation == OPERATION_WRITE ? variant->store
										 : variant->load);
}

/* Counts a chase as odd unless it is where it began, as it must be after whole passes. */
static void check_chase_returned_to_start(struct side *side)
{
	side->odd += side->chain.next != side->chain.start;
}

static void run_loops_once(const struct variant *variant)
{
	static _Alignas(LINE_PAGE) char page[LINE_PAGE];
	void *line = page;

	memcpy(page, &line, sizeof line);
	if (variant->swap)
		variant->swap(line, 1);
	if (variant->load)
		variant->load(page, STRIDE, page + LINE_PAGE);
	if (variant->store)
		variant->store(page, STRIDE, page + LINE_PAGE);
	if (arch_flush && os_features() & FEATURE_FLUSH)
		arch_flush(page, LINE_PAGE, STRIDE);
}

static MEANINGS(state_words, {STATE_OWN, "written by the reader"},
		{STATE_WRITTEN, "written by the owner"}, {STATE_CLEAN, "read by the owner"},
		{STATE_BOTH, "read by the reader and the owner"},
		{STATE_THIRD, "read by the owner and a third"},
		{STATE_TAKEN, "written by the owner, read by a third"},
		{STATE_EVICTED, "written by the owner, evicted"}, {STATE_MEMORY, "in no cache"});
static MEANINGS(operations, {OPERATION_READ, "read"}, {OPERATION_SWAP, "taken for writing"},
		{OPERATION_WRITE, "written"});
static MEANINGS(orders, {ORDER_CHASE, "each line naming the next"},
		{ORDER_STREAM, "in rising order"});

PARAMETERS({"state", "state", ROLE_ROW, POINT_MEMBER(state), state_name, name_point_state,
	    state_words},
	   {"operation", "op", ROLE_TABLE, POINT_MEMBER(operation), operation_name,
	    .words = operations},
	   {"order", NULL, ROLE_TABLE, POINT_MEMBER(order), order_name, .words = orders},
	   {"stride_bytes", "stride", ROLE_TABLE, POINT_MEMBER(stride_bytes), .bytes = true},
	   {"bytes", NULL, ROLE_NONE, POINT_MEMBER(bytes), .bytes = true}, PARAMETER_PAGES,
	   PARAMETER_THREADS,
	   {"memory_node", "nodes", ROLE_TABLE, POINT_MEMBER(memory_node), .none = "any",
	    .node = true});

const struct benchmark bench_fetch = {
	.name = "fetch",
	.question = "What a line costs by where it is and how it came there",
	.unit = "line",
	.heading = "ns per line",
	.parameters = parameters,
	.shape = SHAPE_PAIR,
	.single = true,
	.many_points = true,
	.least = 1,
	.chunk = 1 << 16,
	.sample_us = 100,
	.native_variants = arch_fetch,
	.generic_variants = generic_fetch,
	.add_points = add_points,
	.is_supported = has_loop,
	.units_in_grain = units_in_grain,
	.run_loops_once = run_loops_once,
	.set_up = set_up_chases,
	.prepare = link_lines,
	.make_ready = perform_state_step,
	.phases = STEPS,
	.do_units = fetch_lines,
	.finish = check_chase_returned_to_start,
};
