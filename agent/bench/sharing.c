/* sharing.c: what it costs to write a line that others look at.
 *
 * Ping writes, all others look without pause and count the changes they saw on a line of their own,
 * as ping's samples need it. Or ping waits, after each write, until each of them has said on a line
 * of its own that it saw that value. */
#include "bench/contended.h"
#include "bench/sizes.h"

#include <inttypes.h>

static int add_points(const struct options *options, const struct point_context *context,
		      struct points *points, struct refusal *refusal)
{
	uint32_t chosen = UINT32_MAX;
	int err = 0;

	if (options->operations && read_operations(options->operations, &chosen, refusal))
		return -1;
	for (size_t t = 0; t < context->thread_count; t++)
		for (int all = 0; !err && all < 2 && context->threads[t] > 1; all++) {
			struct point point = {.operation =
						      all ? OPERATION_WATCH_ALL : OPERATION_WATCH,
					      .threads = context->threads[t],
					      .arena_bytes = CONTENDED_ARENA,
					      .huge_pages = points_have_huge_pages(context),
					      .by_turns = all};

			if (!(chosen >> point.operation & 1))
				continue;
			snprintf(point.name, sizeof point.name, "watch.k%" PRIu32 "%s%s",
				 point.threads - 1, point.by_turns ? ".all" : "",
				 point.huge_pages ? ".huge" : "");
			err = points_add(points, &point, refusal);
		}
	return err;
}

static bool has_swap(const struct variant *variant, const struct point *point)
{
	(void)point;
	return variant->put[OPERATION_SWAP] != NULL;
}

static uint64_t units_in_grain(const struct point *point)
{
	return point->by_turns ? 1 : BATCH;
}

static void set_up_watchers(struct side *sides, size_t count, struct random *random)
{
	uint32_t first = (uint32_t)random_next(random);

	for (size_t i = 0; i < count; i++) {
		bool waits = sides[i].point->by_turns;

		sides[i].contest.word = sides[i].lines[0];
		sides[i].contest.first = waits ? 0 : first;
		sides[i].contest.value = i || waits ? 0 : first;
		sides[i].first = waits;
	}
}

static uint32_t *answer_word(const struct side *side)
{
	return (uint32_t *)side->arena;
}

/* Writes n values, and waits after each until every thread has answered it or a later one. */
static void write_and_await_answers(struct side *side, uint32_t n)
{
	uint32_t *word = side->contest.word, value = side->contest.value, last = value + n;

	while (value != last) {
		__atomic_store_n(word, ++value, __ATOMIC_RELEASE);
		for (size_t i = 1; i < side->count; i++)
			while ((int32_t)(__atomic_load_n(answer_word(side + i), __ATOMIC_ACQUIRE) -
					 value) < 0)
				;
	}
	side->contest.value = value;
}

static uint32_t answer_writes(struct side *side, uint32_t n)
{
	uint32_t *word = side->contest.word, last = side->contest.value, seen;

	for (uint32_t i = 0; i < n; i++, last = seen) {
		do {
			seen = __atomic_load_n(word, __ATOMIC_ACQUIRE);
		} while (seen == last);
		__atomic_store_n(answer_word(side), seen, __ATOMIC_RELEASE);
	}
	side->contest.value = last;
	return n;
}

static uint32_t count_changes(struct side *side, uint32_t n)
{
	uint32_t changes = 0, last = side->contest.value;

	while (n--) {
		uint32_t seen = __atomic_load_n(side->contest.word, __ATOMIC_RELAXED);

		changes += seen != last;
		last = seen;
	}
	side->contest.value = last;
	return changes;
}

static void write_or_watch(struct side *side, uint32_t n)
{
	uint32_t (*others)(struct side *, uint32_t) =
		side->point->by_turns ? answer_writes : count_changes;
	uint32_t most = side->point->by_turns ? TURNS : BATCH;

	for (uint32_t now, done; n; n -= now) {
		done = now = n < most ? n : most;
		if (side->index) {
			done = others(side, now);
		} else if (side->point->by_turns) {
			write_and_await_answers(side, now);
		} else {
			side->contest.sum += side->variant->put[OPERATION_SWAP](
				side->contest.word, side->contest.value, now);
			side->contest.value += now;
		}
		__atomic_store_n(&side->done, side->done + done, __ATOMIC_RELAXED);
	}
}

/* No thread may have seen more values than were written; one that answers saw all of them. */
static bool check_counts(const struct side *sides, size_t count, char *words, size_t room)
{
	uint32_t held = *sides->contest.word, done = sides->done, first = sides->contest.first;
	uint32_t put_in = sum_upwards(first, done);
	bool waits = sides->point->by_turns;
	bool right = waits ? held == done : put_in == sides->contest.sum + held;

	for (size_t i = 1; i < count; i++)
		right &= waits ? sides[i].done == done : sides[i].done <= done;
	if (!right)
		snprintf(words, room, "the threads counted other writes than the line holds");
	return right;
}

/* Stores the answers of all other threads and ping's next value, so that a waiting one goes on. */
static void release_waiting(struct side *sides, size_t count)
{
	uint32_t *word = sides->contest.word, held = __atomic_load_n(word, __ATOMIC_RELAXED);

	if (!sides->point->by_turns)
		return;
	for (size_t i = 1; i < count; i++)
		__atomic_store_n(answer_word(&sides[i]), held + 1, __ATOMIC_RELAXED);
	__atomic_compare_exchange_n(word, &held, held + 1, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

static MEANINGS(operation_words, {OPERATION_WATCH, "written while all others look"},
		{OPERATION_WATCH_ALL, "written anew when all others have answered"});

PARAMETERS({"operation", "op", ROLE_ROW, POINT_MEMBER(operation), operation_name,
	    .words = operation_words},
	   {"threads", "threads", ROLE_COLUMN, POINT_MEMBER(threads)}, PARAMETER_PAGES);

const struct benchmark bench_sharing = {
	.name = "sharing",
	.question = "What a write costs to a line that other CPUs look at",
	.unit = "write",
	.other_unit = "change",
	.heading = "ns per write",
	.parameters = parameters,
	.native_variants = arch_contend,
	.generic_variants = generic_contend,
	.add_points = add_points,
	.is_supported = has_swap,
	.units_in_grain = units_in_grain,
	CONTENDED,
	.set_up = set_up_watchers,
	.do_units = write_or_watch,
	.check_results = check_counts,
	.release_waiting = release_waiting,
};
