/* run.c: the main path: rounds outermost, each visiting pairs in a new order. */
#include "run/run.h"

#include "base/interval.h"
#include "base/stop.h"
#include "burst/trial.h"
#include "emit/emit.h"
#include "machine/arena.h"
#include "machine/frequency.h"
#include "plan/forecast.h"
#include "run/rounds.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { ALIVE_S = 5, TRIES_MOST = 3, FORECAST_SHARE = 20, BUDGET_PARTS = 20 };

/* Trials draw their lines from a stream no round uses, so as not to disturb the rounds' order. */
#define TRIAL_STREAM (UINT64_MAX - 1)

static const struct format *format; /* the run's; send_sign_of_life() has no other way to it */

/* Gives the sign of life that docs/wire.md promises; one line does not spoil so long a burst. */
static void send_sign_of_life(void)
{
	if (now_ns() - emit_last_ns() >= ALIVE_S * NS_PER_S)
		format->write_alive(NULL);
}

static struct burst_order make_order(const struct run *run, const struct history *history,
				     const struct report *report)
{
	const struct visit *visit = history->visit;
	const struct point *point = plan_visit_point(visit);
	struct placement placement = run->plan->placement;

	placement.node = point_choose_node(point, 0, placement.node);
	return (struct burst_order){
		.benchmark = visit->choice->benchmark,
		.variant = visit->choice->variant,
		.point = point,
		.clock = &run->clock->clock,
		.clock_facts = run->clock,
		.cpus = report->cpus,
		.cpu_count = report->cpu_count,
		.samples = plan_sample_count(run->plan, history->slow),
		.samples_slow = plan_sample_count(run->plan, true),
		.warmup = run->plan->warmup,
		.iterations = history_sample_units(history),
		.priority = run->priority,
		.stuck_ns = run->stuck_ns,
		.placement = placement,
	};
}

/* Makes the report of a visit. The CPUs of a pair are valid until the next report. */
static struct report make_report(const struct run *run, const struct visit *visit, uint32_t round,
				 const struct burst_result *result)
{
	static int pair[PAIR_THREADS];
	struct report report = {.visit = visit, .round = round, .result = result};

	report.cpus = plan_visit_cpus(run->plan, visit, round, pair, &report.cpu_count);
	report.ping = report.cpus[0];
	report.pong = report.cpus[report.cpu_count - 1];
	return report;
}

/* Keeps what the trial of a visit's first burst chose for all its bursts; the person's choice wins.
 */
static void store_trial(struct history *history, const struct trial *trial)
{
	if (trial->grain_ticks <= 0)
		return;
	history->slow = trial->slow;
	if (!history->iterations)
		history->iterations = trial->grains;
}

/* Reports whether samples were too short for the clock because something else ran during the trial
 * that chose their length. Then the next trial chooses again. */
static bool discard_misled_trial(const struct run *run, struct history *history,
				 const struct burst_result *result)
{
	static double values[SAMPLES_MAX];
	size_t count = result->samples - run->plan->warmup;

	if (run->plan->iterations || history->visit->choice->benchmark->single)
		return false;
	for (size_t i = 0; i < count; i++)
		values[i] = (double)result->ticks[run->plan->warmup + i];
	if (!trial_is_sample_short(median(values, count), run->clock))
		return false;
	history->iterations = 0;
	return true;
}

/* Takes a burst; takes it again, TRIES_MOST times in all, while its trial was misled. */
static enum burst_outcome take_burst(const struct run *run, struct history *history,
				     const struct report *report, struct random *lines,
				     struct burst_result *result)
{
	enum burst_outcome outcome = BURST_TAKEN;

	for (int tries = 0; tries < TRIES_MOST && outcome == BURST_TAKEN; tries++) {
		struct burst_order order = make_order(run, history, report);

		order.counters = result->counts ? run->counters : NULL;
		outcome = burst_run(&order, lines, send_sign_of_life, result);
		if (outcome == BURST_TAKEN)
			store_trial(history, &result->trial);
		if (outcome != BURST_TAKEN || !discard_misled_trial(run, history, result))
			break;
	}
	return outcome;
}

static void print_coarse_clock_note(const struct clock_facts *clock)
{
	double rate = (double)clock->clock.ticks_per_second;
	double sample_us = trial_least_sample_ticks(SAMPLE_US_LEAST, clock) / rate * 1e6;
	char text[160];

	if (sample_us <= SAMPLE_US_MOST)
		return;
	snprintf(text, sizeof text,
		 "The clock moves in steps of %.0f us, so a sample lasts %.0f ms.",
		 (double)clock->clock.quantum_ticks / rate * 1e6, sample_us / 1e3);
	format->write_note(text);
}

/* With iterations chosen by the user a sample may be too short for the clock: noted once. */
static void print_short_samples_note(const struct run *run, const struct report *report)
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
		 report->units, TRIAL_QUANTA);
	format->write_note(text);
}

/* Measures how long a burst of this visit takes, by one with a trial and a single sample, which is
 * as long as the trial chooses or the person asked for. */
static bool try_visit(const struct run *run, struct history *history, struct random *random,
		      struct burst_result *result, double *trial_s, double *burst_s)
{
	const struct report report = make_report(run, history->visit, 0, result);
	struct burst_order order = make_order(run, history, &report);
	double ticks_per_second = (double)run->clock->clock.ticks_per_second;
	int64_t start_ns = now_ns();

	format->write_alive(&report);
	order.iterations = 0;
	order.samples = order.samples_slow = 1;
	order.warmup = 0;
	if (burst_run(&order, random, send_sign_of_life, result) != BURST_TAKEN)
		return false;
	const struct trial *trial = &result->trial;
	double sample_s = trial->grain_ticks * trial->grains / ticks_per_second;
	double rest_s =
		(double)(now_ns() - start_ns - trial->spent_ns) / (double)NS_PER_S - sample_s;

	store_trial(history, trial);
	uint32_t samples = plan_sample_count(run->plan, history->slow);
	bool prepared = history->visit->choice->benchmark->make_ready; /* each of them */

	*trial_s = run->plan->iterations ? 0 : (double)trial->spent_ns / (double)NS_PER_S;
	*burst_s = (rest_s > 0 ? rest_s : 0) * (prepared ? samples : 1) +
		   trial->grain_ticks * history->iterations / ticks_per_second * samples;
	return true;
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
		    !try_visit(run, history, trials, result, &trial_s, &each_s))
			return;
		forecast.once_s += trial_s;
		forecast.round_s += each_s * cost_quota_factor(plan, visit);
	}
	forecast_complete(&forecast, plan);
	forecast_add_sentence(&text, &forecast, plan);
	format->write_note(text.data);
	text_free(&text);
}

/* Returns the median of a burst's samples, in ns. */
static double burst_median_ns(const struct run *run, const struct report *report)
{
	static double values[SAMPLES_MAX];
	uint32_t samples = report->result->samples - run->plan->warmup;

	for (uint32_t i = 0; i < samples; i++)
		values[i] = report_sample_ns(run, report, run->plan->warmup + i);
	return median(values, samples);
}

/* Makes one visit; returns false if the run must end. */
static bool perform_visit(struct run *run, struct history *history, uint32_t round,
			  struct random *lines, struct burst_result *result, struct totals *totals)
{
	struct report report = make_report(run, history->visit, round, result);
	int64_t start_ns = now_ns();

	if (!history->took_s || plan_visit_point(history->visit)->arena_bytes)
		format->write_alive(&report); /* for who finds us killed */
	enum burst_outcome outcome = take_burst(run, history, &report, lines, result);

	if (outcome != BURST_STOPPED)
		history->took_s = (float)(now_ns() - start_ns + 1) / (float)NS_PER_S;
	switch (outcome) {
	case BURST_STOPPED:
		return false;
	case BURST_FAILED:
		format->write_failed(run, &report);
		totals->failed++;
		return true;
	case BURST_TAKEN:
		report.units = history_sample_units(history);
		format->write_burst(run, &report);
		totals->taken++;
		rounds_store_median(run, history, round, burst_median_ns(run, &report));
		print_short_samples_note(run, &report);
		return true;
	}
	return false;
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

/* The main path: makes all visits of all rounds. */
static void perform_rounds(struct rounds *rounds, uint32_t *order, struct burst_result *result)
{
	struct run *run = rounds->run;
	const struct plan *plan = run->plan;
	struct totals *totals = rounds->totals;
	struct random trials = random_start(plan->seed, TRIAL_STREAM);

	if (plan->budget_ends)
		stop_set_earlier_deadline(BUDGET_REASON, latest_end_ns(run));
	if (!run->done)
		print_forecast_note(run, &trials, result);
	for (uint32_t round = find_first_round(run); rounds_begin(rounds, round, send_sign_of_life);
	     round++) {
		struct random lines = plan_order_visits(plan, round, order);

		arena_end_round();
		for (size_t i = 0; i < plan->visit_count; i++) {
			struct history *history = &run->histories[order[i]];

			if (!rounds_is_visit_due(rounds, history, round))
				continue;
			if (stop_is_requested() ||
			    !perform_visit(run, history, round, &lines, result, totals))
				return;
		}
	}
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
		format->write_note(text.data);
	text_free(&named);
	text_free(&text);
	return count;
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
	format->write_note(text.data);
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
	if (!run->histories)
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
		format = run->format;
		format->write_hello(run);
		for (size_t i = 0; i < run->notes->count; i++)
			format->write_note(run->notes->text[i]);
		print_coarse_clock_note(run->clock);
		print_unreached_note(run, true);
		perform_rounds(&rounds, order, result);
		rounds_find_levels(run, &totals);
		const char *reason = unfinished_reason(run);

		if (!reason)
			print_precision_note(run, &totals);
		format->write_end(run, &totals, reason ? reason : "done");
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
