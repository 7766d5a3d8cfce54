/* visit.c: see visit.h. */
#include "run/visit.h"

#include "base/interval.h"
#include "base/stop.h"
#include "burst/trial.h"
#include "emit/emit.h"

#include <inttypes.h>
#include <stdio.h>

enum { ALIVE_S = 5, TRIES_MOST = 3 };

/* The run's; visit_send_sign_of_life() has no other way to it. */
static const struct format *format;

void visit_begin_run(const struct run *run)
{
	format = run->format;
}

void visit_send_sign_of_life(void)
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
		outcome = burst_run(&order, lines, visit_send_sign_of_life, result);
		if (outcome == BURST_TAKEN)
			store_trial(history, &result->trial);
		if (outcome != BURST_TAKEN || !discard_misled_trial(run, history, result))
			break;
	}
	return outcome;
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

bool visit_try(const struct run *run, struct history *history, struct random *random,
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
	if (burst_run(&order, random, visit_send_sign_of_life, result) != BURST_TAKEN)
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

/* Returns the median of a burst's samples, in ns. */
static double burst_median_ns(const struct run *run, const struct report *report)
{
	static double values[SAMPLES_MAX];
	uint32_t samples = report->result->samples - run->plan->warmup;

	for (uint32_t i = 0; i < samples; i++)
		values[i] = report_sample_ns(run, report, run->plan->warmup + i);
	return median(values, samples);
}

/* Reports a burst without a number, and has it taken again if other work disturbed it. */
static void report_failed(const struct run *run, struct attempt attempt, struct report *report)
{
	report->units = report->result->iterations;
	format->write_failed(run, report);
	if (report->result->disturbed && again_add_next(run->again, attempt))
		stop_record_reason("out of memory");
}

bool visit_perform(struct run *run, struct attempt attempt, struct random *lines,
		   struct burst_result *result, struct totals *totals)
{
	struct history *history = &run->histories[attempt.visit];
	struct report report = make_report(run, history->visit, attempt.round, result);
	int64_t start_ns = now_ns();

	report.attempt = attempt.number;
	if (!history->took_s || plan_visit_point(history->visit)->arena_bytes)
		format->write_alive(&report); /* for who finds us killed */
	enum burst_outcome outcome = take_burst(run, history, &report, lines, result);

	if (outcome != BURST_STOPPED) {
		history->took_s = (float)(now_ns() - start_ns + 1) / (float)NS_PER_S;
		totals->again += attempt.number > 0;
	}
	switch (outcome) {
	case BURST_STOPPED:
		return false;
	case BURST_FAILED:
		report_failed(run, attempt, &report);
		totals->failed++;
		return true;
	case BURST_TAKEN:
		report.units = history_sample_units(history);
		format->write_burst(run, &report);
		totals->taken++;
		rounds_store_median(run, history, attempt.round, burst_median_ns(run, &report));
		print_short_samples_note(run, &report);
		return true;
	}
	return false;
}
