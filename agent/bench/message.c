/* message.c: one-way messages, each the sender's clock, timed by the receiver's.
 *
 * A sample is MESSAGES of them from ping to pong, then as many back; each side adds up how much
 * later by its own clock it saw them than the other had sent them by its clock. What the clocks
 * differ by is in both sums, once added and once subtracted. Each message has lines of its own, on
 * which the receiver waits before the sender stores, after a delay that is random: a clock that
 * moves in steps would otherwise be read at the same place of a step each time. */
#include "bench/sizes.h"

#include <inttypes.h>
#include <string.h>

enum {
	MESSAGES = 100,     /* one way in a sample */
	LINES_MOST = 64,    /* of a message */
	DELAY_LEAST = 600,  /* turns of an empty loop, some 0.15 us */
	DELAY_RANGE = 1000, /* up to so many more */
	FIRST_DELAY = 10,   /* times as long before the first of a sample: see send_all() */
	PRIVATE_BYTES = 4096,
};

/* Of one direction. */
static size_t way_bytes(const struct point *point)
{
	return (size_t)MESSAGES * point->lines * LINE_BYTES;
}

static int add_point(const struct point_context *context, uint32_t lines, struct points *points,
		     struct refusal *refusal)
{
	struct point point = {.lines = lines,
			      .threads = 2,
			      .huge_pages = points_huge(context),
			      .one_arena = true};

	point.arena_bytes = 2 * (way_bytes(&point) + PRIVATE_BYTES);
	snprintf(point.name, sizeof point.name, "x%" PRIu32 "%s", lines,
		 point.huge_pages ? ".huge" : "");
	return points_add(points, &point, refusal);
}

static int add_points(const struct options *options, const struct point_context *context,
		      struct points *points, struct refusal *refusal)
{
	bool seen[LINES_MOST + 1] = {false};
	int err = 0;

	for (const char *at = options->message_lines; !err; at++) {
		uint64_t lines;
		const char *end = text_read_number(at, LINES_MOST, &lines);

		if (!end || (*end && *end != ',') || !lines)
			return refuse(refusal, EXIT_OPTIONS,
				      "--lines-per-message wants a list of numbers from 1 to %d, "
				      "not '%s'",
				      LINES_MOST, options->message_lines);
		if (!seen[lines])
			err = add_point(context, (uint32_t)lines, points, refusal);
		seen[lines] = true;
		at = end;
		if (!*at)
			break;
	}
	return err;
}

/* Ping sends over the first lines of the memory, pong over the rest. */
static void lay(struct side *sides, size_t count, struct random *random)
{
	for (size_t i = 0; i < count; i++) {
		struct side *side = &sides[i];
		char *first = side->arena, *second = first + way_bytes(side->point);
		char *own = second + way_bytes(side->point);

		side->mail.sent = i == 0 ? first : second;
		side->mail.received = i == 0 ? second : first;
		side->mail.last = (uintptr_t *)(own + i * PRIVATE_BYTES);
		side->mail.random = random_start(random_next(random), i);
		side->first = MESSAGES;
	}
}

/* The last of a message's lines, which tells that it is there. */
static uintptr_t *flag_of(const struct side *side, char *way, size_t message)
{
	size_t line = (message + 1) * side->point->lines - 1;

	return (uintptr_t *)(way + line * LINE_BYTES);
}

/* No message is 0. */
static int prepare(struct side *side)
{
	memset(side->mail.received, 0, way_bytes(side->point));
	memset(side->mail.last, 0, MESSAGES * sizeof *side->mail.last);
	return 0;
}

/* The more lines a message has, the longer: its receiver must be waiting again. */
static void delay(struct side *side, uint64_t times)
{
	uint64_t turns = DELAY_LEAST + random_below(&side->mail.random, DELAY_RANGE);

	for (turns *= times; turns; turns--)
		__asm__ volatile("" : : : "memory");
}

static void send(struct side *side, size_t message)
{
	uintptr_t *flag = flag_of(side, side->mail.sent, message);
	size_t more = side->point->lines - 1;

	delay(side, side->point->lines);
	uintptr_t now = (uintptr_t)(side->clock->sent ? side->clock->sent : side->clock->ticks)();

	now += now == 0;
	for (size_t i = more; i; i--)
		*(volatile uintptr_t *)((char *)flag - i * LINE_BYTES) = now;
	if (more)
		__atomic_thread_fence(__ATOMIC_RELEASE);
	__atomic_store_n(flag, now, __ATOMIC_RELAXED);
}

/* How much later than sent: of a word's width, so modulo 2^32 on machines of 32 bits. */
static intptr_t receive(struct side *side, size_t message)
{
	uintptr_t *flag = flag_of(side, side->mail.received, message);
	size_t more = side->point->lines - 1;
	uintptr_t sent = side->variant->receive(flag, side->mail.last[message]);

	if (more)
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
	for (size_t i = more; i; i--)
		(void)*(volatile uintptr_t *)((char *)flag - i * LINE_BYTES);
	uintptr_t now = (uintptr_t)side->clock->ticks();

	if ((intptr_t)(sent - side->mail.seen) < 0)
		side->mail.late += (intptr_t)(now - sent);
	side->mail.seen = now;
	side->mail.last[message] = sent;
	return (intptr_t)(now - sent);
}

/* Between samples the other thread reads its CPU time, and must be waiting again when it is to. */
static void send_all(struct side *side)
{
	delay(side, FIRST_DELAY);
	for (size_t i = 0; i < MESSAGES; i++)
		send(side, i);
}

static void receive_all(struct side *side)
{
	side->mail.sum = side->mail.late = 0;
	for (size_t i = 0; i < MESSAGES; i++)
		side->mail.sum += receive(side, i);
}

static void work(struct side *side, uint32_t n)
{
	for (; n; n -= MESSAGES) {
		if (side->index == 0)
			send_all(side);
		receive_all(side);
		if (side->index != 0)
			send_all(side);
	}
}

static int64_t value(const struct side *side)
{
	return side->mail.sum;
}

static int64_t late(const struct side *side)
{
	return side->mail.late;
}

/* A value that no line held before goes to all of them. */
static void release(struct side *sides, size_t count)
{
	static uintptr_t fresh;

	fresh += 2;
	for (size_t i = 0; i < count; i++)
		for (size_t k = 0; k < MESSAGES; k++)
			__atomic_store_n(flag_of(&sides[i], sides[i].mail.sent, k), fresh | 1,
					 __ATOMIC_RELAXED);
}

static void attempt(const struct variant *variant)
{
	uintptr_t word = 1;

	variant->receive(&word, 0);
}

PARAMETERS(PARAMETER_PAGES, PARAMETER_THREADS);

const struct benchmark bench_message = {
	.name = "message",
	.question = "How long a message takes to another CPU, by the clock of who receives it",
	.unit = "message",
	.heading = "latency of a message in ns, mean of both directions",
	.view = "matrix",
	.point = "x1",
	.parameters = parameters,
	.shape = SHAPE_PAIR,
	.all_timed = true,
	.single = true,
	.least = 1,
	.chunk = MESSAGES,
	.sample_us = 100,
	.native_variants = arch_message,
	.generic_variants = generic_message,
	.points = add_points,
	.grain_units = MESSAGES,
	.attempt = attempt,
	.lay = lay,
	.prepare = prepare,
	.work = work,
	.value = value,
	.late = late,
	.release = release,
};
