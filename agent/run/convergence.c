/* convergence.c: see convergence.h. */
#include "run/convergence.h"

#include "base/stop.h"
#include "emit/emit.h"

#include <inttypes.h>
#include <stdlib.h>

enum { NAMED_MOST = 4, NAMED_BYTES = 1200 }; /* visits, names */

/* Is there an interval, and is it wider than fair? */
static bool is_poor(const struct history *history)
{
	return history->kept > 1 && !history->precise && !history->fair;
}

/* Half its level's interval, of the mean; UINT32_MAX if it has none. */
static uint32_t reached_ppm(const struct run *run, const struct history *history)
{
	if (history->kept < 2)
		return UINT32_MAX;
	const struct level level = history_level(run->plan, run->histories, history);

	return root_ppm(level.main.interval.half_squared, level.main.interval.mean);
}

void convergence_count(const struct run *run, struct totals *totals)
{
	const struct plan *plan = run->plan;

	for (size_t i = 0; i < plan->visit_count; i++) {
		const struct history *history = &run->histories[i];
		uint32_t ppm = plan->precision_ppm ? reached_ppm(run, history) : 0;

		totals->converged += history->precise;
		totals->several_levels += history->levels > 1;
		totals->reached_ppm = ppm > totals->reached_ppm ? ppm : totals->reached_ppm;
	}
	totals->unconverged = plan->visit_count - totals->converged;
}

/* Visits known fairly well that were not measured on, since they scatter too much. */
static void note_given_up(const struct run *run)
{
	const struct plan *plan = run->plan;
	double percent = plan->precision_ppm / 1e4;
	uint32_t most = 0;
	size_t count = 0;
	char text[NOTE_ROOM];

	for (size_t i = 0; i < plan->visit_count; i++) {
		const struct history *history = &run->histories[i];

		if (history->precise || !history->fair || history->needed <= history->kept)
			continue;
		count++;
		most = history->needed > most ? history->needed : most;
	}
	if (!count)
		return;
	snprintf(text, sizeof text,
		 "%zu of %zu visited pairs are known to %g %%: they scatter too much for %g %%, "
		 "which takes about %" PRIu32 " rounds, more than the time budget has.",
		 count, plan->visit_count, percent * HISTORY_FAIR, percent, most);
	run->format->note(text);
}

/* ---- visits known less well ------------------------------------------------------------------ */

/* Of a round trip one way. */
static double ns_of(const struct run *run, const struct history *history, double ticks_a_grain)
{
	double ways = history->visit->choice->benchmark->two_ways ? 2 : 1;

	return ticks_a_grain * history->iterations / (double)history_units(history) / ways * 1e9 /
	       (double)run->clock->clock.ticks_per_second;
}

/* Two digits, or all of a whole number. */
static void add_percent(struct text *text, uint32_t ppm)
{
	double percent = ppm / 1e4;

	text_add(text, percent < 10 ? "%.2g %%" : "%.0f %%", percent);
}

static void add_cause(const struct run *run, const struct history *history, struct text *text)
{
	const struct level level = history_level(run->plan, run->histories, history);

	if (level.levels > 1) {
		text_add(text, "it switches between levels at %.3g and %.3g ns",
			 ns_of(run, history, level.main.median), ns_of(run, history, level.other));
		return;
	}
	text_add(text, "its bursts scatter by ");
	add_percent(text, root_ppm(level.main.interval.variance, level.main.interval.mean));
}

static void add_name(const struct plan *plan, const struct visit *visit, struct text *text)
{
	int first = plan_first_cpu(plan, visit), last = plan_last_cpu(plan, visit);
	const char *point = plan_point(visit)->name;

	text_add(text, "%s%s%s, CPU", visit->choice->benchmark->name, *point ? " " : "", point);
	if (first == last)
		text_add(text, " %d is", first);
	else
		text_add(text, "s %d and %d are", first, last);
}

/* May it have levels that its bursts are too few to tell apart? */
static bool is_untold(const struct history *history)
{
	return history->mixed && history->kept < HISTORY_TELLING;
}

/* So many more rounds take a visit to the fair precision, or tell its levels; 0: none do. */
static uint32_t rounds_to_fair(const struct history *history)
{
	if (is_untold(history))
		return HISTORY_TELLING - history->kept;
	uint32_t more =
		history->needed_fair > history->kept ? history->needed_fair - history->kept : 1u;

	return history->kept + more <= HISTORY_MOST ? more : 0;
}

static void add_help(const struct schedule *schedule, uint32_t rounds, const char *what,
		     struct text *text)
{
	int64_t spent_ns = now_ns() - schedule->run->start_ns;
	int64_t all_ns = spent_ns + rounds * schedule_round_ns(schedule);

	if (rounds)
		text_add(text,
			 "about %" PRIu32 " more rounds would %s (--time-budget %" PRId64 ").",
			 rounds, what, (all_ns + NS_PER_S - 1) / NS_PER_S);
	else
		text_add(text, "more rounds will not help, but a quieter machine may.");
}

/* Passes a sentence on and empties it. */
static void note_text(const struct run *run, struct text *text)
{
	if (!text->failed)
		run->format->note(text->data);
	text_clear(text);
}

/* Those known less well than fair; the first few by their names, each with its cause. */
static void note_poor(const struct schedule *schedule)
{
	const struct run *run = schedule->run;
	const struct plan *plan = run->plan;
	double fair = plan->precision_ppm / 1e4 * HISTORY_FAIR;
	uint32_t worst_ppm = 0, rounds = 0;
	size_t count = 0, helped = 0;
	struct text text = {0};

	for (size_t i = 0; i < plan->visit_count; i++) {
		const struct history *history = &run->histories[i];

		if (!is_poor(history))
			continue;
		uint32_t ppm = reached_ppm(run, history), more = rounds_to_fair(history);

		if (count++ < NAMED_MOST) {
			add_name(plan, history->visit, &text);
			text_add(&text, " known to ");
			add_percent(&text, ppm);
			text_add(&text, ", not to %g %%: ", fair);
			add_cause(run, history, &text);
			text_add(&text, "; ");
			add_help(schedule, more,
				 is_untold(history) ? "tell whether it has levels" : "do", &text);
			note_text(run, &text);
			continue;
		}
		worst_ppm = ppm > worst_ppm ? ppm : worst_ppm;
		rounds = more > rounds ? more : rounds;
		helped += more > 0;
	}
	if (count > NAMED_MOST) {
		text_add(&text, "%zu other visited pairs are known to ", count - NAMED_MOST);
		add_percent(&text, worst_ppm);
		text_add(&text, " or better, not to %g %%; for %zu of them ", fair,
			 rounds ? helped : count - NAMED_MOST);
		add_help(schedule, rounds, "do", &text);
		note_text(run, &text);
	}
	text_free(&text);
}

void convergence_note(const struct schedule *schedule)
{
	note_given_up(schedule->run);
	note_poor(schedule);
}

/* ---- visits that were not made -------------------------------------------------------------- */

/* Is it one of those that no agent has reached, or of those given up? */
static bool is_of(const struct history *history, bool given_up)
{
	return given_up ? history->given_up
			: !history->given_up && history->took_s <= 0 && !history->done;
}

size_t unreached_count(const struct run *run, bool given_up)
{
	size_t count = 0;

	for (size_t i = 0; i < run->plan->visit_count; i++)
		count += is_of(&run->histories[i], given_up);
	return count;
}

void unreached_name(const struct run *run, bool given_up, struct text *text)
{
	const struct plan *plan = run->plan;
	size_t unnamed = 0;

	for (size_t i = 0, next; i < plan->visit_count; i = next) {
		const struct visit *visit = &plan->visits[i];
		const char *name = plan_point(visit)->name;
		size_t count = 0;

		for (next = i; next < plan->visit_count &&
			       plan_point(&plan->visits[next]) == plan_point(visit);
		     next++)
			count += is_of(&run->histories[next], given_up);
		if (count && text->length > NAMED_BYTES) {
			unnamed++;
			continue;
		}
		if (count)
			text_add(text, "%s%s/%s%s%s", text->length ? ", " : "",
				 visit->choice->benchmark->name, visit->choice->variant->name,
				 *name ? " " : "", name);
		if (count > 1)
			text_add(text, " (%zu)", count);
	}
	if (unnamed)
		text_add(text, " and %zu more points", unnamed);
}
