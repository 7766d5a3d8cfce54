/* run.c: the main path: rounds outermost, each visiting pairs in a new order. */
#include "run/run.h"

#include "base/stop.h"
#include "burst/trial.h"
#include "emit/emit.h"
#include "machine/arena.h"
#include "machine/frequency.h"
#include "plan/forecast.h"
#include "run/again.h"
#include "run/rounds.h"
#include "run/visit.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FORECAST_SHARE = 20, BUDGET_PARTS = 10 };

/* Trials draw their lines from a stream no round uses, so as not to disturb the rounds' order. */
#define TRIAL_STREAM (UINT64_MAX - 1)

/* The stream of the bursts taken again at the end of the run. */
#define AGAIN_STREAM (UINT64_MAX - 2)

static void print_coarse_clock_note(const struct run *run)
{
	const struct clock_facts *clock = run->clock;
	double rate = (double)clock->clock.ticks_per_second;
	double sample_us = trial_least_sample_ticks(SAMPLE_US_LEAST, clock) / rate * 1e6;
	char text[160];

	if (sample_us <= SAMPLE_US_MOST)
		return;
	snprintf(text, sizeof text,
		 "The clock moves in steps of %.0f us, so a sample lasts %.0f ms.",
		 (double)clock->clock.quantum_ticks / rate * 1e6, sample_us / 1e3);
	run->format->write_note(text);
}

/* Notes how long the run will take, from one visit to each benchmark, variant and point. Notes
 * nothing if one of them fails, which is reported in its place, or if the trials would take much of
 * the time budget: they are made before the first bursts. */
static void print_forecast_note(const struct run *run, struct random *trials,
				struct burst_result *result)
{
	const struct plan *plan = run->plan;
	double budget_s = (double)plan->time_budget_ns / (double)NS_PER_S;
	struct forecast forecast = {0};
	struct text text = {0};
	double trial_s = 0, each_s = 0;

	if (plan->budget_ends && cost_first_bursts_s(plan) * FORECAST_SHARE > budget_s)
		return;
	for (size_t i = 0; i < plan->visit_count; i++) {
		struct history *history = &run->histories[i];
		const struct visit *visit = history->visit;

		if (i && plan->time_budget_ns &&
		    now_ns() - run->start_ns > plan->time_budget_ns / 2)
			return;
		if ((!i || plan_visit_point(visit) != plan_visit_point(visit - 1)) &&
		    !visit_try(run, history, trials, result, &trial_s, &each_s))
			return;
		forecast.once_s += trial_s;
		forecast.round_s += each_s * cost_quota_factor(plan, visit);
	}
	forecast_complete(&forecast, plan);
	forecast_add_sentence(&text, &forecast, plan);
	run->format->write_note(text.data);
	text_free(&text);
}

/* Returns when a burst that began within the time budget must end. */
static int64_t latest_end_ns(const struct run *run)
{
	int64_t budget_ns = run->plan->time_budget_ns, more_ns = budget_ns / BUDGET_PARTS;

	return run->start_ns + budget_ns + (more_ns > NS_PER_S ? more_ns : NS_PER_S);
}

/* Returns the first round that an earlier agent has not made of all visits. */
static uint32_t find_first_round(const struct run *run)
{
	uint32_t first = run->plan->rounds_max;

	for (size_t i = 0; i < run->plan->visit_count; i++)
		if (!run->histories[i].given_up && run->histories[i].done < first)
			first = run->histories[i].done;
	return first;
}

/* Takes bursts again that were disturbed, if not more than `most` times, as far as there is time.
 * Returns false if the run must end. */
static bool take_again(struct rounds *rounds, uint32_t most, struct random *lines,
		       struct burst_result *result)
{
	struct run *run = rounds->run;
	struct again due = *run->again;
	bool goes_on = true;

	*run->again = (struct again){0}; /* for those that are disturbed once more */
	for (size_t i = 0; i < due.count && goes_on; i++) {
		struct attempt attempt = due.list[i];

		if (attempt.number <= most &&
		    rounds_may_take_again(rounds, &run->histories[attempt.visit]))
			goes_on = !stop_is_requested() &&
				  visit_perform(run, attempt, lines, result, rounds->totals);
		else if (again_add(run->again, attempt))
			stop_record_reason("out of memory");
	}
	again_clear(&due);
	return goes_on;
}

/* At the end of the run: takes the bursts that are still disturbed again, by turns, until none is
 * or time is up. */
static void take_rest_again(struct rounds *rounds, struct burst_result *result)
{
	const struct totals *totals = rounds->totals;
	struct random lines = random_start(rounds->run->plan->seed, AGAIN_STREAM);
	uint64_t before;

	rounds_end(rounds);
	do {
		before = totals->again;
		if (!take_again(rounds, UINT32_MAX, &lines, result))
			return;
	} while (totals->again > before);
}

/* The main path: makes all visits of all rounds. */
static void perform_rounds(struct rounds *rounds, uint32_t *order, struct burst_result *result)
{
	struct run *run = rounds->run;
	const struct plan *plan = run->plan;
	struct random trials = random_start(plan->seed, TRIAL_STREAM);

	if (plan->budget_ends)
		stop_set_earlier_deadline(BUDGET_REASON, latest_end_ns(run));
	if (!run->done)
		print_forecast_note(run, &trials, result);
	for (uint32_t round = find_first_round(run);
	     rounds_begin(rounds, round, visit_send_sign_of_life); round++) {
		struct random lines = plan_order_visits(plan, round, order);

		arena_end_round();
		for (size_t i = 0; i < plan->visit_count; i++) {
			const struct attempt first = {.visit = order[i], .round = round};

			if (!rounds_is_visit_due(rounds, &run->histories[order[i]], round))
				continue;
			if (stop_is_requested() ||
			    !visit_perform(run, first, &lines, result, rounds->totals))
				return;
		}
		if (!take_again(rounds, 1, &lines, result))
			return;
	}
	take_rest_again(rounds, result);
}

/* Names the visits that were not made, and returns how many there are. */
static size_t print_unreached_note(const struct run *run, bool given_up)
{
	struct text named = {0}, text = {0};
	size_t count = rounds_add_unreached(run, given_up, &named);

	text_add(&text,
		 given_up ? "Given up after an agent was killed: %zu of %zu visits: %s."
			  : "The time budget ended in the first round: %zu of %zu visits were not "
			    "made: %s.",
		 count, run->plan->visit_count, named.data);
	if (count)
		run->format->write_note(text.data);
	text_free(&named);
	text_free(&text);
	return count;
}

/* Notes how many bursts were taken again, and how many of them would still have to be. */
static void print_again_note(const struct run *run, const struct totals *totals)
{
	struct text text = {0};

	if (!totals->again)
		return;
	text_add(&text, "Bursts that other work disturbed and that were taken again: %" PRIu64,
		 totals->again);
	if (run->again->count)
		text_add(&text, "; still without a number: %zu", run->again->count);
	text_add(&text, ".");
	run->format->write_note(text.data);
	text_free(&text);
}

/* Notes how well the numbers are known. */
static void print_precision_note(const struct run *run, const struct totals *totals)
{
	struct text text = {0};

	if (!run->plan->precision_ppm)
		return;
	text_add(&text, "%" PRIu64 " of %zu numbers are known to %g %%", totals->converged,
		 run->plan->visit_count, run->plan->precision_ppm / 1e4);
	if (totals->unconverged && totals->reached_ppm < UINT32_MAX)
		text_add(&text, ", all of them to %.2g %%", totals->reached_ppm / 1e4);
	text_add(&text, ".");
	run->format->write_note(text.data);
	text_free(&text);
}

/* Returns why the run ended early; null if it is complete. A time budget that ends after the first
 * round cuts nothing off. */
static const char *unfinished_reason(const struct run *run)
{
	const char *reason = stop_reason();

	if (reason && strcmp(reason, BUDGET_REASON))
		return reason;
	return run->plan->budget_ends && print_unreached_note(run, false) ? BUDGET_REASON : NULL;
}

int run_prepare(struct run *run, const char *done, struct refusal *refusal)
{
	const struct plan *plan = run->plan;

	run->histories = calloc(plan->visit_count, sizeof *run->histories);
	run->again = calloc(1, sizeof *run->again);
	if (!run->histories || !run->again)
		return refuse(refusal, EXIT_OTHER, "out of memory for %zu visits",
			      plan->visit_count);
	for (size_t i = 0; i < plan->visit_count; i++) {
		const struct benchmark *benchmark = plan->visits[i].choice->benchmark;

		run->histories[i].visit = &plan->visits[i];
		run->histories[i].iterations =
			!benchmark->single ? plan->iterations : !benchmark->make_ready;
	}
	return done ? done_read_file(run, done, refusal) : 0;
}

void run_free(struct run *run)
{
	free(run->ns);
	free(run->histories);
	if (run->again)
		again_clear(run->again);
	free(run->again);
}

static enum exit_code run_and_report(struct run *run, struct burst_result *result)
{
	size_t visits = run->plan->visit_count;
	struct totals totals = {.levels = calloc(visits, sizeof *totals.levels)};
	struct rounds rounds = {.run = run, .totals = &totals};
	uint32_t *order = calloc(visits, sizeof *order);
	enum exit_code code = EXIT_OTHER;

	if (order && totals.levels) {
		frequency_measure_cpus(&run->clock->clock, run->plan->cpus, run->plan->cpu_count,
				       run->core_mhz);
		visit_begin_run(run);
		run->format->write_hello(run);
		for (size_t i = 0; i < run->notes->count; i++)
			run->format->write_note(run->notes->text[i]);
		print_coarse_clock_note(run);
		print_unreached_note(run, true);
		perform_rounds(&rounds, order, result);
		rounds_find_levels(run, &totals);
		print_again_note(run, &totals);
		const char *reason = unfinished_reason(run);

		if (!reason)
			print_precision_note(run, &totals);
		run->format->write_end(run, &totals, reason ? reason : "done");
		if (reason)
			stop_record_reason(reason); /* for who asks later */
		code = reason ? EXIT_UNFINISHED : EXIT_DONE;
	}
	free(totals.levels);
	free(order);
	return code;
}

enum exit_code run_plan(struct run *run)
{
	enum exit_code code = EXIT_OTHER;
	size_t samples = run->plan->warmup + run->plan->samples;
	size_t room = samples > TRIAL_SAMPLES ? samples : TRIAL_SAMPLES;
	struct burst_result result = {
		.ticks = calloc(room * plan_max_threads(run->plan), sizeof *result.ticks),
		.other_units =
			calloc(room * plan_max_threads(run->plan), sizeof *result.other_units)};
	bool counts = run->counters && counters_has_any(run->counters);

	result.begin_ns = calloc(plan_max_threads(run->plan), sizeof *result.begin_ns);
	if (counts)
		result.counts = calloc(plan_max_threads(run->plan) * run->counters->count,
				       sizeof *result.counts);
	run->core_mhz = calloc(run->plan->cpu_count, sizeof *run->core_mhz);
	if (result.ticks && result.other_units && result.begin_ns && run->core_mhz &&
	    (!counts || result.counts))
		code = run_and_report(run, &result);
	free(result.ticks);
	free(result.other_units);
	free(result.begin_ns);
	free(result.counts);
	free(run->core_mhz);
	return code;
}
