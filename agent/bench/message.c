/* message.c: one-way messages, each the sender's clock, timed by the receiver's.
 *
 * A sample is MESSAGES of them from ping to pong, then as many back; each side adds up how much
 * later by its own clock it saw them than the other had sent them by its clock. What the clocks
 * differ by is in both sums, once added and once subtracted. Each message has lines of its own. The
 * receiver says on one more line which message it waits for, and the sender sends none before. It
 * then waits a random time: a clock that moves in steps would otherwise be read at the same place
 * of a step each time. */
#include "bench/sizes.h"
#include "machine/account.h"

#include <inttypes.h>
#include <string.h>

enum {
	MESSAGES = 100,     /* one way in a sample */
	DELAY_LEAST = 600,  /* turns of an empty loop, some 0.15 us */
	DELAY_RANGE = 1000, /* up to so many more */
	PRIVATE_BYTES = 4096,
	AWAITED_AT = 2048, /* in them, behind the values of the lines before */
};

/* Returns the bytes of the lines of one direction. */
static size_t direction_bytes(const struct point *point)
{
	return (size_t)MESSAGES * point->lines * LINE_BYTES;
}

static int add_point(const struct point_context *context, uint32_t lines, struct points *points,
		     struct refusal *refusal)
{
	struct point point = {.lines = lines,
			      .threads = 2,
			      .huge_pages = points_have_huge_pages(context),
			      .one_arena = true};

	point.arena_bytes = 2 * (direction_bytes(&point) + PRIVATE_BYTES);
	snprintf(point.name, sizeof point.name, "x%" PRIu32 "%s", lines,
		 point.huge_pages ? ".huge" : "");
	return points_add(points, &point, refusal);
}

static int add_points(const struct options *options, const struct point_context *context,
		      struct points *points, struct refusal *refusal)
{
	bool seen[MESSAGE_LINES_MOST + 1] = {false};
	int err = 0;

	for (const char *next = options->message_lines; next && !err;) {
		uint64_t lines = 0;
		const char *end = text_read_number(next, MESSAGE_LINES_MOST, &lines);

		if (!seen[lines])
			err = add_point(context, (uint32_t)lines, points, refusal);
		seen[lines] = true;
		next = *end ? end + 1 : NULL;
	}
	return err;
}

/* Ping sends over the first lines of the memory, pong over the rest. */
static void set_up_mail(struct side *sides, size_t count, struct random *random)
{
	for (size_t i = 0; i < count; i++) {
		struct side *side = &sides[i];
		char *first = side->arena, *second = first + direction_bytes(side->point);
		char *own = second + direction_bytes(side->point);

		side->mail.sent = i == 0 ? first : second;
		side->mail.received = i == 0 ? second : first;
		side->mail.last = (uintptr_t *)(own + i * PRIVATE_BYTES);
		side->mail.awaited = (uint32_t *)(own + i * PRIVATE_BYTES + AWAITED_AT);
		side->mail.partner = (uint32_t *)(own + (1 - i) * PRIVATE_BYTES + AWAITED_AT);
		side->mail.random = random_start(random_next(random), i);
		side->first = MESSAGES;
	}
}

/* Returns the last of a message's lines, which tells the receiver that the message is there. */
static uintptr_t *message_flag(const struct side *side, char *way, size_t message)
{
	size_t line = (message + 1) * side->point->lines - 1;

	return (uintptr_t *)(way + line * LINE_BYTES);
}

/* Clears the received lines: no message is 0. */
static int clear_received_lines(struct side *side)
{
	memset(side->mail.received, 0, direction_bytes(side->point));
	memset(side->mail.last, 0, MESSAGES * sizeof *side->mail.last);
	*side->mail.awaited = 0;
	return 0;
}

/* Waits until the receiver awaits the side's next message, the first being 1. */
static void wait_for_receiver(struct side *side)
{
	uint32_t next = ++side->mail.sent_count;

	while ((int32_t)(__atomic_load_n(side->mail.partner, __ATOMIC_ACQUIRE) - next) < 0)
		;
}

static void spin_random_time(struct side *side)
{
	uint64_t turns = DELAY_LEAST + random_below(&side->mail.random, DELAY_RANGE);

	for (; turns; turns--)
		__asm__ volatile("" : : : "memory");
}

static void send_message(struct side *side, size_t message)
{
	uintptr_t *flag = message_flag(side, side->mail.sent, message);
	size_t more = side->point->lines - 1;

	wait_for_receiver(side);
	spin_random_time(side);
	uintptr_t now = (uintptr_t)(side->clock->sent ? side->clock->sent : side->clock->ticks)();

	now += now == 0;
	for (size_t i = more; i; i--)
		*(volatile uintptr_t *)((char *)flag - i * LINE_BYTES) = now;
	if (more)
		__atomic_thread_fence(__ATOMIC_RELEASE);
	__atomic_store_n(flag, now, __ATOMIC_RELAXED);
}

/* Receives a message and returns how many ticks after its sending; a word wide, so modulo 2^32 on
 * 32-bit machines. */
static intptr_t receive_message_ticks(struct side *side, size_t message)
{
	uintptr_t *flag = message_flag(side, side->mail.received, message);
	size_t more = side->point->lines - 1;

	__atomic_store_n(side->mail.awaited, ++side->mail.received_count, __ATOMIC_RELEASE);
	uintptr_t sent = side->variant->receive(flag, side->mail.last[message]);

	if (more)
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
	for (size_t i = more; i; i--)
		(void)*(volatile uintptr_t *)((char *)flag - i * LINE_BYTES);
	uintptr_t now = (uintptr_t)side->clock->ticks();

	side->mail.last[message] = sent;
	return (intptr_t)(now - sent);
}

static void send_messages(struct side *side)
{
	for (size_t i = 0; i < MESSAGES; i++)
		send_message(side, i);
}

static void receive_messages(struct side *side)
{
	struct account account = {0};

	account_measure_lost_ns(&account);
	int64_t begin_ns = account.at_ns;

	side->mail.sum = 0;
	for (size_t i = 0; i < MESSAGES; i++)
		side->mail.sum += receive_message_ticks(side, i);
	double lost_ns = (double)account_measure_lost_ns(&account);

	side->mail.lost_share = lost_ns / (double)(account.at_ns - begin_ns);
}

/* Exchanges n messages, a multiple of MESSAGES: so many each way by turns. */
static void exchange_messages(struct side *side, uint32_t n)
{
	for (; n; n -= MESSAGES) {
		if (side->index == 0)
			send_messages(side);
		receive_messages(side);
		if (side->index != 0)
			send_messages(side);
	}
}

static int64_t latency_sum_ticks(const struct side *side)
{
	return side->mail.sum;
}

static double receiver_lost_share(const struct side *side)
{
	return side->mail.lost_share;
}

/* Lets senders send, and stores a value that no line held before in all flags. */
static void release_mail(struct side *sides, size_t count)
{
	static uintptr_t fresh;

	fresh += 2;
	for (size_t i = 0; i < count; i++) {
		__atomic_store_n(sides[i].mail.awaited, sides[1 - i].mail.sent_count + MESSAGES,
				 __ATOMIC_RELAXED);
		for (size_t k = 0; k < MESSAGES; k++)
			__atomic_store_n(message_flag(&sides[i], sides[i].mail.sent, k), fresh | 1,
					 __ATOMIC_RELAXED);
	}
}

static void try_receive(const struct variant *variant)
{
	uintptr_t word = 1;

	variant->receive(&word, 0);
}

PARAMETERS(PARAMETER_PAGES, PARAMETER_THREADS, PARAMETER_NODE);

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
	.add_points = add_points,
	.grain_units = MESSAGES,
	.run_loops_once = try_receive,
	.set_up = set_up_mail,
	.prepare = clear_received_lines,
	.do_units = exchange_messages,
	.sample_ticks = latency_sum_ticks,
	.sample_lost_share = receiver_lost_share,
	.release_waiting = release_mail,
};
