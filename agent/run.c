/* run.c: the main path: rounds outermost, each visiting pairs in a new order. */
#include "run.h"

#include "arena.h"
#include "budget.h"
#include "calibrate.h"
#include "emit.h"
#include "forecast.h"
#include "frequency.h"
#include "pace.h"
#include "precision.h"
#include "reached.h"
#include "stop.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { ALIVE_S = 5, TRIES_MOST = 3, FORECAST_SHARE = 20, BUDGET_PARTS = 20 };

/* Trials draw their lines from a stream no round uses, so as not to disturb the rounds' order. */
#define TRIAL_STREAM (UINT64_MAX - 1)

static const struct format *format; /* of the run; idle() has no other way to it */

/* The wire promises a sign of life; a burst that lasts this long is not spoilt by one line. */
static void idle(void)
{
	if (now_ns() - emit_last_ns() >= ALIVE_S * NS_PER_S)
		format->alive();
}

static struct burst_order order_of(const struct run *run, const struct visit *visit,
				   const struct report *report)
{
	return (struct burst_order){
		.benchmark = visit->choice->benchmark,
		.variant = visit->choice->variant,
		.point = plan_point(visit),
		.clock = &run->clock->clock,
		.cpus = report->cpus,
		.cpu_count = report->cpu_count,
		.samples = plan_samples(run->plan, visit),
		.iterations = plan_units(visit),
		.priority = run->priority,
		.stuck_ns = run->stuck_ns,
		.placement = run->plan->placement,
	};
}

/* The CPUs of a pair are kept until the next report. */
static struct report report_of(const struct run *run, const struct visit *visit, uint32_t round,
			       const struct burst_result *result)
{
	static int pair[PAIR_THREADS];
	struct report report = {.visit = visit, .round = round, .result = result};

	report.cpus = plan_cpus(run->plan, visit, round, pair, &report.cpu_count);
	report.ping = report.cpus[0];
	report.pong = report.cpus[report.cpu_count - 1];
	return report;
}

/*
 * Finds out how long a unit of this visit takes, and chooses how many make a sample unless the
 * person did. They stay the same for all of its bursts.
 */
static enum burst_outcome try_visit(const struct run *run, struct visit *visit,
				    const struct report *report, struct random *random,
				    struct burst_result *result, struct trial *trial)
{
	struct burst_order order = order_of(run, visit, report);
	enum burst_outcome outcome = calibrate(&order, run->clock, random, idle, result, trial);

	if (outcome != BURST_TAKEN)
		return outcome;
	visit->slow = calibrate_is_slow(trial, run->clock);
	if (!visit->iterations)
		visit->iterations = calibrate_iterations(trial, order.benchmark, run->clock);
	return outcome;
}

/*
 * Were the samples of this burst too short for the clock, since something else ran during the trial
 * that chose their length? Then the next trial chooses again.
 */
static bool chosen_wrongly(const struct run *run, struct visit *visit,
			   const struct burst_result *result)
{
	static double values[SAMPLES_MAX];
	size_t count = result->samples - run->plan->warmup;

	if (run->plan->iterations || visit->choice->benchmark->single)
		return false;
	for (size_t i = 0; i < count; i++)
		values[i] = (double)result->ticks[run->plan->warmup + i];
	if (!calibrate_is_short(median(values, count), run->clock))
		return false;
	visit->iterations = 0;
	return true;
}

static enum burst_outcome take(const struct run *run, struct visit *visit,
			       const struct report *report, struct random *lines,
			       struct random *trials, struct burst_result *result)
{
	enum burst_outcome outcome = BURST_TAKEN;
	struct trial trial;

	for (int tries = 0; tries < TRIES_MOST && outcome == BURST_TAKEN; tries++) {
		if (!visit->iterations)
			outcome = try_visit(run, visit, report, trials, result, &trial);
		if (outcome != BURST_TAKEN)
			break;
		struct burst_order order = order_of(run, visit, report);

		order.counters = result->counts ? run->counters : NULL;
		outcome = burst_take(&order, lines, idle, result);
		if (outcome != BURST_TAKEN || !chosen_wrongly(run, visit, result))
			break;
	}
	return outcome;
}

static void note_coarse_clock(const struct clock_facts *clock)
{
	double rate = (double)clock->clock.ticks_per_second;
	double sample_us = calibrate_wanted_ticks(SAMPLE_US_LEAST, clock) / rate * 1e6;
	char text[160];

	if (sample_us <= SAMPLE_US_MOST)
		return;
	snprintf(text, sizeof text,
		 "The clock moves in steps of %.0f us, so a sample lasts %.0f ms.",
		 (double)clock->quantum_ticks / rate * 1e6, sample_us / 1e3);
	format->note(text);
}

/* With iterations chosen by the user a sample may be too short for the clock: noted once. */
static void note_short_samples(const struct run *run, const struct report *report)
{
	static bool noted;
	uint64_t least = run->clock->least_ticks * TRIAL_QUANTA;
	char text[160];

	if (noted || report->visit->choice->benchmark->single ||
	    report->result->ticks[run->plan->warmup] >= least)
		return;
	noted = true;
	snprintf(text, sizeof text,
		 "A sample of %" PRIu64 " iterations is shorter than %d steps of the clock.",
		 plan_units(report->visit), TRIAL_QUANTA);
	format->note(text);
}

/*
 * Says how long it will take, judged by one visit of each benchmark, variant and point. Says
 * nothing where one of them gives no number: its failures are reported in their place; nor where
 * the trials take much of the time budget: they are made before the first bursts.
 */
static void note_forecast(const struct run *run, struct random *trials, struct burst_result *result)
{
	const struct plan *plan = run->plan;
	double budget_s = (double)plan->time_budget_ns / (double)NS_PER_S;
	struct forecast forecast = {0};
	char text[200];

	if (plan->budget_ends && budget_points_s(plan) * FORECAST_SHARE > budget_s)
		return;
	for (size_t i = 0; i < plan->visit_count; i++) {
		struct visit *visit = &plan->visits[i];
		struct trial trial;

		if (i && plan->time_budget_ns &&
		    now_ns() - run->start_ns > plan->time_budget_ns / 2)
			return;
		if (!i || plan_point(visit) != plan_point(visit - 1)) {
			const struct report report = report_of(run, visit, 0, result);

			if (try_visit(run, visit, &report, trials, result, &trial) != BURST_TAKEN)
				return;
			forecast_use(&forecast, plan, run->clock, &trial, visit);
		}
		forecast_add(&forecast);
	}
	forecast_tell(&forecast, plan, text, sizeof text);
	format->note(text);
}

/* One visit; false if the run must end. */
static bool visit_pair(const struct run *run, struct visit *visit, uint32_t round,
		       struct random *lines, struct random *trials, struct burst_result *result,
		       struct totals *totals)
{
	struct report report = report_of(run, visit, round, result);
	int64_t start_ns = now_ns();
	enum burst_outcome outcome = take(run, visit, &report, lines, trials, result);

	if (outcome != BURST_STOPPED)
		visit->took_s = (float)(now_ns() - start_ns + 1) / (float)NS_PER_S;
	switch (outcome) {
	case BURST_STOPPED:
		return false;
	case BURST_FAILED:
		format->failed(run, &report);
		totals->failed++;
		pace_note(run->plan, visit, NULL);
		return true;
	case BURST_TAKEN:
		format->burst(run, &report);
		totals->taken++;
		pace_note(run->plan, visit, result);
		note_short_samples(run, &report);
		return true;
	}
	return false;
}

/* When a burst that has begun within the time budget must end. */
static int64_t latest_ns(const struct run *run)
{
	int64_t budget_ns = run->plan->time_budget_ns, more_ns = budget_ns / BUDGET_PARTS;

	return run->start_ns + budget_ns + (more_ns > NS_PER_S ? more_ns : NS_PER_S);
}

/* The main path: all rounds, all visits. */
static void measure(const struct run *run, struct pace *pace, struct burst_result *result,
		    struct totals *totals)
{
	struct plan *plan = run->plan;
	struct random trials = random_start(plan->seed, TRIAL_STREAM);

	if (plan->budget_ends)
		stop_earlier(BUDGET_REASON, latest_ns(run));
	if (!plan->done)
		note_forecast(run, &trials, result);
	for (uint32_t round = pace_first(pace, run); pace_begin(pace, run, round, idle); round++) {
		struct random lines = plan_shuffle(plan, round);

		arena_end_round();
		for (size_t i = 0; i < plan->visit_count; i++) {
			struct visit *visit = &plan->visits[plan->order[i]];

			if (!pace_visits(pace, plan, visit, round))
				continue;
			visit->left_out = (totals->taken || totals->failed) &&
					  !pace_has_room(pace, plan, visit, round);
			if (visit->left_out)
				continue;
			if (stop_asked() ||
			    !visit_pair(run, visit, round, &lines, &trials, result, totals))
				return;
		}
	}
}

static void note_unreached(const struct plan *plan)
{
	struct text named = {0}, text = {0};

	budget_name_unreached(plan, &named);
	text_add(&text,
		 "The time budget ended in the first round: %zu of %zu visits were not made: %s.",
		 budget_unreached(plan), plan->visit_count, named.data);
	format->note(text.data);
	text_free(&named);
	text_free(&text);
}

/* Null: all was measured. A time budget that ends after the first round cuts nothing off. */
static const char *why_ended(const struct plan *plan)
{
	const char *reason = stop_reason();

	if (reason && strcmp(reason, BUDGET_REASON))
		return reason;
	return plan->budget_ends && budget_unreached(plan) ? BUDGET_REASON : NULL;
}

static enum exit_code run_into(struct run *run, struct burst_result *result)
{
	struct totals totals = {0};
	struct pace pace = {0};

	frequency_of_cpus(&run->clock->clock, run->plan->cpus, run->plan->cpu_count, run->core_mhz);
	format = run->format;
	run->start_ns = now_ns();
	format->hello(run);
	for (size_t i = 0; i < run->notes->count; i++)
		format->note(run->notes->text[i]);
	note_coarse_clock(run->clock);
	measure(run, &pace, result, &totals);
	reached_count(run->plan, &totals);
	const char *reason = why_ended(run->plan);

	if (!reason)
		reached_note(run, &pace, &totals);
	else if (!strcmp(reason, BUDGET_REASON))
		note_unreached(run->plan);
	format->end(run, &totals, reason ? reason : "done");
	return reason ? EXIT_UNFINISHED : EXIT_DONE;
}

enum exit_code run_all(struct run *run)
{
	enum exit_code code = EXIT_OTHER;
	size_t samples = run->plan->warmup + run->plan->samples;
	size_t room = samples > TRIAL_SAMPLES ? samples : TRIAL_SAMPLES;
	struct burst_result result = {
		.ticks = calloc(room * plan_threads_most(run->plan), sizeof *result.ticks)};

	bool counts = run->counters && counters_any(run->counters);

	result.begin_ns = calloc(plan_threads_most(run->plan), sizeof *result.begin_ns);
	if (counts)
		result.counts = calloc(plan_threads_most(run->plan) * run->counters->count,
				       sizeof *result.counts);
	run->core_mhz = calloc(run->plan->cpu_count, sizeof *run->core_mhz);
	if (result.ticks && result.begin_ns && run->core_mhz && (!counts || result.counts))
		code = run_into(run, &result);
	free(result.ticks);
	free(result.begin_ns);
	free(result.counts);
	free(run->core_mhz);
	return code;
}
