/* contend.c: the cost of an operation on a word that several CPUs want, and who gets the word. All
 * threads do the operation without pause until ping has its samples. Each counts its operations on
 * a line of its own, which ping reads at its stamps. The sum of the counts must be what the words
 * hold. */
#include "bench/contended.h"
#include "bench/sizes.h"

#include <inttypes.h>

enum {
	LINE = 64, /* bytes of a line, where nobody tells */
};

#ifdef CONTEND_MISCOUNTS /* a build of the tests: a thread counts one that it did not do */
enum { MISCOUNTED = 1 };
#else
enum { MISCOUNTED = 0 };
#endif

/* Reports whether threads wait for one another. */
static bool has_waiting_threads(const struct point *point)
{
	return point->operation >= OPERATION_TURN;
}

static bool is_lock(const struct point *point)
{
	return point->operation > OPERATION_TURN;
}

/* Reports whether the threads can have words as the sharing asks: one word each fits in a line only
 * where the line is large enough. */
static bool has_room_for_words(const struct point *point, const struct point_context *context)
{
	const struct cpu_cache *last = last_data_cache(context->facts);
	int64_t line = last && last->line_bytes > 0 ? last->line_bytes : LINE;

	switch (point->sharing) {
	case SHARING_ONE: /* plain additions get lost, and the sum could not be checked */
		return point->operation != OPERATION_MODIFY;
	case SHARING_WORDS:
		return !has_waiting_threads(point) &&
		       point->threads * sizeof(uint32_t) <= (uint64_t)line;
	default:
		return !has_waiting_threads(point);
	}
}

static bool has_loop(const struct variant *variant, const struct point *point)
{
	enum operation operation = point->operation;

	return operation == OPERATION_TURN ? variant->cas != NULL
					   : variant->add[operation] || variant->put[operation] ||
						     variant->lock[operation];
}

static int add_points(const struct options *options, const struct point_context *context,
		      struct points *points, struct refusal *refusal)
{
	static const enum sharing sharings[] = {SHARING_ONE, SHARING_WORDS, SHARING_OWN};
	uint32_t chosen = UINT32_MAX, shares = UINT32_MAX;
	bool any = false;
	int err = 0;

	if ((options->operations && read_operations(options->operations, &chosen, refusal)) ||
	    (options->share &&
	     read_words_as_mask("share", options->share, sharing_name, SHARINGS, &shares, refusal)))
		return -1;
	for (size_t t = 0; t < context->thread_count; t++)
		for (enum operation o = 0; o < OPERATIONS; o++)
			for (size_t s = 0; !err && s < sizeof sharings / sizeof *sharings; s++) {
				struct point point = {.operation = (uint8_t)o,
						      .sharing = (uint8_t)sharings[s],
						      .threads = context->threads[t],
						      .arena_bytes = CONTENDED_ARENA,
						      .by_turns = o == OPERATION_TURN};

				if (!(chosen >> o & 1) || !has_loop(context->variant, &point))
					continue;
				any = true;
				if (!(shares >> point.sharing & 1) || point.threads < 2 ||
				    !has_room_for_words(&point, context))
					continue;
				point.huge_pages = points_have_huge_pages(context);
				snprintf(point.name, sizeof point.name, "%s.%s.x%" PRIu32 "%s",
					 operation_name(o), sharing_name(point.sharing),
					 point.threads, point.huge_pages ? ".huge" : "");
				err = points_add(points, &point, refusal);
			}
	if (any && !err && !points->count)
		return refuse(refusal, EXIT_OPTIONS,
			      "--threads, --op and --share leave no point of contend: it is for "
			      "two threads or more, turn for share one, modify for the others");
	return err;
}

static uint64_t units_in_grain(const struct point *point)
{
	return !has_waiting_threads(point) ? BATCH : is_lock(point) ? TURNS : 1;
}

/* Returns the word that the i-th thread works on. */
static uint32_t *choose_word(struct side *side, size_t i)
{
	struct lock *lock = (void *)side->lines[0];

	if (side->point->sharing == SHARING_OWN)
		return (uint32_t *)side->arena;
	if (is_lock(side->point))
		return &lock->word;
	if (side->point->sharing == SHARING_WORDS)
		return side->lines[0] + i;
	return side->lines[0];
}

static void set_up_contest(struct side *sides, size_t count, struct random *random)
{
	for (size_t i = 0; i < count; i++) {
		struct side *side = &sides[i];

		side->contest.word = choose_word(side, i);
		side->contest.from = (uint32_t)i;
		side->contest.to = (uint32_t)((i + 1) % count);
		side->contest.value = side->contest.first = (uint32_t)random_next(random);
		side->done = MISCOUNTED && i == count - 1;
		side->first = side->point->by_turns;
	}
}

static void do_operations(struct side *side, uint32_t n)
{
	const struct variant *variant = side->variant;
	enum operation operation = side->point->operation;
	uint32_t *word = side->contest.word;

	if (operation == OPERATION_TURN) {
		variant->cas(word, side->contest.from, side->contest.to, n);
	} else if (variant->lock[operation]) {
		variant->lock[operation]((void *)side->lines[0], (void *)side->arena, n);
	} else if (variant->add[operation]) {
		side->contest.tries += variant->add[operation](word, n);
	} else {
		side->contest.sum += variant->put[operation](word, side->contest.value, n);
		side->contest.value += n;
	}
}

static void do_operations_and_count(struct side *side, uint32_t n)
{
	uint32_t batch = has_waiting_threads(side->point) ? TURNS : BATCH;

	for (uint32_t now; n; n -= now) {
		now = n < batch ? n : batch;
		do_operations(side, now);
		__atomic_store_n(&side->done, side->done + now, __ATOMIC_RELAXED);
	}
}

/* Reports whether a word holds the sum of what its threads counted. */
static bool is_word_right(const struct side *sides, size_t count)
{
	uint32_t held = *sides->contest.word, done = 0, put = 0, brought = 0;
	bool is_last = false, alike = true;

	for (size_t i = 0; i < count; i++) {
		const struct side *side = &sides[i];
		uint32_t first = side->contest.first;

		done += side->done;
		put += sum_upwards(first, side->done);
		brought += side->contest.sum;
		is_last |= held == first + side->done - 1;
		alike &= side->done == sides->done;
	}
	switch ((enum operation)sides->point->operation) {
	case OPERATION_SWAP:
		return put == brought + held;
	case OPERATION_STORE:
		return is_last;
	case OPERATION_TURN:
		return alike && held == 0;
	default:
		return held == done;
	}
}

static bool check_words(const struct side *sides, size_t count, char *words, size_t room)
{
	size_t together = sides->point->sharing == SHARING_ONE ? count : 1;

	for (size_t i = 0; i < count; i += together)
		if (!is_word_right(sides + i, together)) {
			snprintf(words, room,
				 "the threads counted other operations than the words hold");
			return false;
		}
	return true;
}

/* Gives the turn to the next of `count` threads, unless the word has changed meanwhile. */
static void advance_turn(uint32_t *word, size_t count)
{
	uint32_t held = __atomic_load_n(word, __ATOMIC_RELAXED);
	uint32_t next = (uint32_t)((held + 1) % count);

	__atomic_compare_exchange_n(word, &held, next, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

/* Lets every thread that has a ticket pass. */
static void serve_all_tickets(struct lock *lock)
{
	__atomic_store_n(&lock->serving, __atomic_load_n(&lock->taken, __ATOMIC_RELAXED),
			 __ATOMIC_RELAXED);
}

/* Gives a queued thread the lock, and lets it go on without a successor. */
static void release_lock_node(struct lock_node *node)
{
	struct lock_node *none = NULL;

	__atomic_store_n(&node->waits, 0, __ATOMIC_RELAXED);
	__atomic_compare_exchange_n(&node->next, &none, node, 0, __ATOMIC_RELAXED,
				    __ATOMIC_RELAXED);
}

/* Moves on a thread that waits for one that does not come. */
static void release_waiting(struct side *sides, size_t count)
{
	if (sides->point->operation == OPERATION_TURN)
		advance_turn(sides->contest.word, count);
	else if (sides->point->operation == OPERATION_TICKET)
		serve_all_tickets((void *)sides->lines[0]);
	else if (is_lock(sides->point))
		for (size_t i = 0; i < count; i++)
			release_lock_node((void *)sides[i].arena);
}

static void run_loops_once(const struct variant *variant)
{
	static struct lock_node node;
	static struct lock lock;
	static uint32_t word;

	for (enum operation o = OPERATION_READ; o < OPERATIONS; o++) {
		if (variant->add[o])
			variant->add[o](&word, 1);
		if (variant->put[o])
			variant->put[o](&word, 1, 1);
		if (variant->lock[o])
			variant->lock[o](&lock, &node, 1);
	}
	word = 0;
	if (variant->cas)
		variant->cas(&word, 0, 1, 1);
}

static MEANINGS(operation_words, {OPERATION_FAA, "fetch-and-add"}, {OPERATION_SWAP, "exchange"},
		{OPERATION_CAS, "compare-and-swap until it holds"},
		{OPERATION_STORE, "plain store"}, {OPERATION_MODIFY, "load, addition and store"},
		{OPERATION_TURN, "line handed round"}, {OPERATION_TICKET, "ticket lock"},
		{OPERATION_MCS, "queue lock (MCS)"});
static MEANINGS(sharings, {SHARING_ONE, "all on one word"},
		{SHARING_WORDS, "a word each in one line"}, {SHARING_OWN, "a line each"});

PARAMETERS({"operation", "op", ROLE_ROW, POINT_MEMBER(operation), operation_name,
	    .words = operation_words},
	   {"sharing", "share", ROLE_COLUMN, POINT_MEMBER(sharing), sharing_name,
	    .words = sharings},
	   {"threads", "threads", ROLE_TABLE, POINT_MEMBER(threads)}, PARAMETER_PAGES);

const struct benchmark bench_contend = {
	.name = "contend",
	.question = "What an atomic operation or a lock costs when several CPUs want it",
	.unit = "operation",
	.heading = "ns per operation of all threads together",
	.parameters = parameters,
	.native_variants = arch_contend,
	.generic_variants = generic_contend,
	.add_points = add_points,
	.is_supported = has_loop,
	.units_in_grain = units_in_grain,
	CONTENDED,
	.run_loops_once = run_loops_once,
	.set_up = set_up_contest,
	.do_units = do_operations_and_count,
	.check_results = check_words,
	.release_waiting = release_waiting,
};
