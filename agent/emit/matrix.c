/* matrix.c: for people: a matrix or ladder per benchmark and variant when all is measured. */
#include "base/levels.h"
#include "base/stop.h"
#include "emit/emit.h"
#include "emit/tools.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* One burst, reduced to one number by the plan's estimator; in ns one way. */
struct reduced {
	uint32_t visit, order; /* of time */
	double ns;
};

static struct reduced *bursts;
static size_t burst_count, burst_room;
static double *scratch, *work;
static uint8_t *rounds;        /* states of them */
static struct level *found_at; /* of each visit */
static uint64_t *units;        /* in its samples; 0: it has none */
static struct text page;

/* Of a hand-off one way. */
static double sample_ns(const struct run *run, const struct report *report, uint32_t i)
{
	const struct benchmark *benchmark = report->visit->choice->benchmark;
	const struct burst_result *result = report->result;
	double ways = benchmark->two_ways ? 2 : 1;
	double ticks = bench_sample(benchmark, result->ticks + i, result->timed, result->samples);
	uint64_t done = report->units;

	for (size_t t = 0; !benchmark->other_unit && t < result->counted_others; t++)
		done += result->other_units[t * result->samples + i];
	return ticks * (1e9 / (double)run->clock->clock.ticks_per_second) / (double)done / ways;
}

/* ---- estimators ------------------------------------------------------------------------------ */

static double mean(const double *values, size_t count)
{
	double sum = 0;

	for (size_t i = 0; i < count; i++)
		sum += values[i];
	return sum / (double)count;
}

/* The samples of a burst, or the bursts of a visit, to one number. */
static double reduce(const struct plan *plan, double *values, size_t count)
{
	if (!strcmp(plan->estimator, "mean"))
		return mean(values, count);
	double middle = median(values, count); /* which sorts them */

	return strcmp(plan->estimator, "min") ? middle : values[0];
}

static const char *estimator_in_words(const struct plan *plan)
{
	if (!strcmp(plan->estimator, "mean"))
		return "mean of all samples";
	if (!strcmp(plan->estimator, "min"))
		return "minimum of all samples";
	return plan->rounds_max == 1 ? "median of the samples" : "middle of the bursts' medians";
}

/* ---- while it is measured -------------------------------------------------------------------- */

static void hello(const struct run *run)
{
	const struct plan *plan = run->plan;
	size_t longest = plan->samples > plan->rounds_max ? plan->samples : plan->rounds_max;

	scratch =
		calloc(longest > plan->visit_count ? longest : plan->visit_count, sizeof *scratch);
	work = calloc(longest, 4 * sizeof *work);
	rounds = calloc(longest, sizeof *rounds);
	found_at = calloc(plan->visit_count, sizeof *found_at);
	units = calloc(plan->visit_count, sizeof *units);
	if (!scratch || !work || !rounds || !found_at || !units)
		stop_because("out of memory");
}

static void keep(uint32_t visit, double ns)
{
	if (burst_count == burst_room) {
		size_t room = burst_room ? 2 * burst_room : 1024;
		struct reduced *more = realloc(bursts, room * sizeof *bursts);

		if (!more) {
			stop_because("out of memory");
			return;
		}
		bursts = more;
		burst_room = room;
	}
	bursts[burst_count] = (struct reduced){visit, (uint32_t)burst_count, ns};
	burst_count++;
}

static void burst(const struct run *run, const struct report *report)
{
	const struct plan *plan = run->plan;

	if (!scratch || !work || !rounds || !found_at || !units)
		return;
	uint32_t samples = report->result->samples - plan->warmup;

	for (uint32_t i = 0; i < samples; i++)
		scratch[i] = sample_ns(run, report, plan->warmup + i);
	uint32_t visit = (uint32_t)(report->visit - plan->visits);

	units[visit] = report->units;
	keep(visit, reduce(plan, scratch, samples));
}

/* ---- the page -------------------------------------------------------------------------------- */

static int by_visit(const void *a, const void *b)
{
	const struct reduced *left = a, *right = b;

	if (left->visit != right->visit)
		return left->visit > right->visit ? 1 : -1;
	return (left->order > right->order) - (left->order < right->order);
}

/* The bursts of a visit, or of those of several levels the ones at the level of most. */
static double reduce_bursts(const struct plan *plan, uint32_t visit, double *values, size_t count)
{
	if (strcmp(plan->estimator, "median") != 0)
		return reduce(plan, values, count);
	struct series series = {values, count, false};
	struct states states = {.of = rounds};

	states_find(&series, 1, work, &states);
	found_at[visit] = level_of_most(&series, &states, work);
	return found_at[visit].main.median;
}

/* What all bursts of each visit come to; 0 where there were none. The caller frees it. */
static double *reduce_visits(const struct plan *plan)
{
	double *found = calloc(plan->visit_count, sizeof *found);

	if (burst_count)
		qsort(bursts, burst_count, sizeof *bursts, by_visit);
	for (size_t first = 0, last; found && first < burst_count; first = last) {
		for (last = first; last < burst_count && bursts[last].visit == bursts[first].visit;
		     last++)
			scratch[last - first] = bursts[last].ns;
		found[bursts[first].visit] =
			reduce_bursts(plan, bursts[first].visit, scratch, last - first);
	}
	return found;
}

static void add_row(const char *head, const double *cells, size_t count)
{
	text_add(&page, "\n%6s", head);
	for (size_t i = 0; i < count; i++)
		if (cells[i] > 0)
			text_add(&page, " %7.1f", cells[i]);
		else if (cells[i] < 0)
			text_add(&page, " %6.1f*", -cells[i]);
		else
			text_add(&page, " %7s", "");
}

/* Rows are ping, columns pong; where each pair was visited once a round, it stands below the
 * diagonal. Of one CPU: one row. Below zero: one of several levels. The caller frees them. */
static double *cells_of(const struct plan *plan, const struct choice *choice,
			const struct point *point, const double *found)
{
	size_t n = plan->cpu_count, rows = choice->benchmark->shape == SHAPE_PAIR ? n : 1;
	double *cells = calloc(rows * n, sizeof *cells);

	for (size_t i = 0; cells && i < plan->visit_count; i++) {
		const struct visit *visit = &plan->visits[i];

		if (plan_point(visit) == point)
			cells[rows == 1                      ? visit->a
			      : plan->pairs == PAIRS_ORDERED ? visit->a * n + visit->b
							     : visit->b * n + visit->a] =
				found_at[i].levels > 1 ? -found[i] : found[i];
	}
	return cells;
}

static void add_cells(const struct plan *plan, const struct choice *choice,
		      const struct point *point, const double *found)
{
	size_t n = plan->cpu_count, rows = choice->benchmark->shape == SHAPE_PAIR ? n : 1;
	double *cells = cells_of(plan, choice, point, found);
	char head[16];

	text_add(&page, "%6s", "");
	for (size_t column = 0; column < n; column++)
		text_add(&page, " %7d", plan->cpus[column]);
	for (size_t row = 0; cells && row < rows; row++) {
		snprintf(head, sizeof head, "%d", plan->cpus[row]);
		add_row(rows == 1 ? "" : head, cells + row * n, n);
	}
	text_add(&page, "\n");
	free(cells);
}

static void add_extreme(const struct plan *plan, const char *name, const struct visit *visit,
			double ns)
{
	text_add(&page, "%6s %7.1f   CPU %d", name, ns, plan_first_cpu(plan, visit));
	text_add(&page, visit->a == visit->b ? "\n" : " and %d\n", plan_last_cpu(plan, visit));
}

static void add_summary(const struct plan *plan, const struct point *point, const double *found)
{
	size_t lowest = 0, highest = 0, count = 0;

	for (size_t i = 0; i < plan->visit_count; i++) {
		if (plan_point(&plan->visits[i]) != point || found[i] <= 0)
			continue;
		if (!count || found[i] < found[lowest])
			lowest = i;
		if (!count || found[i] > found[highest])
			highest = i;
		scratch[count++] = found[i];
	}
	if (!count)
		return;
	add_extreme(plan, "min", &plan->visits[lowest], found[lowest]);
	text_add(&page, "%6s %7.1f\n", "median", median(scratch, count));
	text_add(&page, "%6s %7.1f\n", "mean", mean(scratch, count));
	add_extreme(plan, "max", &plan->visits[highest], found[highest]);
}

static void add_title(const struct plan *plan, const struct choice *choice,
		      const struct point *point)
{
	text_add(&page, "%s, variant %s%s%s: %s, %s", choice->benchmark->name,
		 choice->variant->name, *point->name ? ", point " : "", point->name,
		 choice->benchmark->heading, estimator_in_words(plan));
	if (plan->preset)
		text_add(&page, ", sampled as %s does", plan->preset);
	if (plan->preset && !strcmp(plan->preset, "core_latency"))
		text_add(&page, " (which prints whole ns, rounded down)");
	text_add(&page, "\n\n");
}

static void add_levels(const struct plan *plan, uint32_t visit)
{
	const struct visit *of = &plan->visits[visit];
	struct level_part parts[LEVELS_MOST];
	size_t count = 0;

	for (size_t i = 0; i < burst_count; i++)
		if (bursts[i].visit == visit)
			scratch[count++] = bursts[i].ns;
	struct series series = {scratch, count, false};
	struct states states = {.of = rounds};

	states_find(&series, 1, work, &states);
	uint32_t levels = levels_of(&series, &states, work, parts);

	text_add(&page, "%8s%d", "", plan_first_cpu(plan, of));
	if (of->a != of->b)
		text_add(&page, "-%d", plan_last_cpu(plan, of));
	text_add(&page, ": ");
	for (uint32_t i = 0; i < levels; i++) {
		const struct interval *interval = &parts[i].interval;

		text_add(&page, "%s%.1f", i ? ", " : "", parts[i].median);
		if (interval->half_squared >= 0)
			text_add(&page, " +-%.1f%%",
				 root_ppm(interval->half_squared, interval->mean) / 1e4);
		text_add(&page, " (%.0f%% of bursts, %.1f in a row)",
			 100.0 * (double)parts[i].count / (double)count, parts[i].dwell);
	}
	text_add(&page, "\n");
}

/* What the marks mean, and all levels of the first few visits that have several. */
static void add_marked(const struct plan *plan, const struct point *point)
{
	enum { LISTED_MOST = 4 };
	size_t marked = 0, listed = 0;

	for (size_t i = 0; i < plan->visit_count; i++)
		marked += plan_point(&plan->visits[i]) == point && found_at[i].levels > 1;
	if (!marked)
		return;
	text_add(&page, "     *  %zu with several levels: that of most bursts\n", marked);
	for (uint32_t i = 0; i < plan->visit_count && listed < LISTED_MOST; i++)
		if (plan_point(&plan->visits[i]) == point && found_at[i].levels > 1) {
			add_levels(plan, i);
			listed++;
		}
	if (marked > listed)
		text_add(&page, "%8sand %zu more (--format jsonl)\n", "", marked - listed);
}

/* A matrix for each point. */
static void add_matrices(const struct plan *plan, const struct choice *choice, const double *found)
{
	for (size_t i = 0; i < choice->point_count; i++) {
		const struct point *point = &choice->points[i];

		text_add(&page, i ? "\n" : "");
		add_title(plan, choice, point);
		add_cells(plan, choice, point, found);
		text_add(&page, "\n");
		add_summary(plan, point, found);
		add_marked(plan, point);
	}
}

/* A line for each point, of many: its pairs' numbers in short. */
static void add_points(const struct plan *plan, const struct choice *choice, const double *found)
{
	text_add(&page, "%s, variant %s: ns a line, of all pairs, %s\n\n%-28s %8s %8s %8s\n",
		 choice->benchmark->name, choice->variant->name, estimator_in_words(plan), "point",
		 "min", "median", "max");
	for (size_t i = 0; i < choice->point_count; i++) {
		size_t count = 0;

		for (size_t v = 0; v < plan->visit_count; v++)
			if (plan_point(&plan->visits[v]) == &choice->points[i] && found[v] > 0)
				scratch[count++] = found[v];
		if (!count)
			continue;
		double middle = median(scratch, count);

		text_add(&page, "%-28s %8.1f %8.1f %8.1f\n", choice->points[i].name, scratch[0],
			 middle, scratch[count - 1]);
	}
}

/* Of a pair, as most have; those of failed bursts are missing. */
static size_t bursts_of(const struct plan *plan, const struct choice *choice)
{
	size_t most = 0, count = 0;

	for (size_t i = 0; i < burst_count; i++) {
		count = i && bursts[i].visit == bursts[i - 1].visit ? count + 1 : 1;
		if (plan->visits[bursts[i].visit].choice == choice && count > most)
			most = count;
	}
	return most;
}

/* The matrices of pairs as the program prints them that the format is named for. */
static void add_as_tool(const struct run *run, const struct choice *choice, const double *found)
{
	const struct plan *plan = run->plan;
	size_t n = plan->cpu_count, visits = 0;
	double *cells = cells_of(plan, choice, choice->points, found);
	struct tool_matrix matrix = {choice, plan->cpus, n, cells, 0, 0, run, found, found_at};

	for (size_t i = 0; cells && i < n * n; i++)
		cells[i] = cells[i] < 0 ? -cells[i] : cells[i];
	for (size_t i = 0; i < plan->visit_count; i++)
		if (plan->visits[i].choice == choice && units[i])
			scratch[visits++] = (double)units[i];
	matrix.iterations = visits ? (uint64_t)median(scratch, visits) : 0;
	matrix.samples = plan->samples * bursts_of(plan, choice);
	if (cells)
		tool_named(run->format->name)(&page, &matrix);
	free(cells);
}

static void end(const struct run *run, const struct totals *totals, const char *reason)
{
	const struct plan *plan = run->plan;
	double *found = scratch && work && rounds && found_at && units ? reduce_visits(plan) : NULL;
	bool as_tool = tool_named(run->format->name);

	for (size_t i = 0; as_tool && found && i < plan->choice_count; i++)
		if (plan->choices[i].benchmark->shape == SHAPE_PAIR &&
		    plan->choices[i].point_count == 1 &&
		    (run->format != &emit_svg || !page.length)) /* a card is of one */
			add_as_tool(run, &plan->choices[i], found);
	for (size_t i = 0; !as_tool && found && i < plan->choice_count; i++) {
		text_add(&page, i ? "\n" : "");
		if (plan->choices[i].benchmark->shape == SHAPE_GROUP)
			emit_ladder(&page, plan, &plan->choices[i], found);
		else if (plan->choices[i].benchmark->many_points)
			add_points(plan, &plan->choices[i], found);
		else
			add_matrices(plan, &plan->choices[i], found);
	}
	emit_write(&page);
	emit_csv.end(run, totals, reason);
	free(found);
	free(bursts);
	free(scratch);
	free(work);
	free(rounds);
	free(found_at);
	free(units);
}

#define FORMAT(name)                                                                               \
	{                                                                                          \
		name, hello, burst, emit_failed, emit_note, emit_alive, end                        \
	}
const struct format emit_matrix = FORMAT("matrix");
const struct format emit_c2clat = FORMAT("c2clat");
const struct format emit_svg = FORMAT("svg");
const struct format emit_core_latency = FORMAT("core_latency");
const struct format emit_core_to_core_latency = FORMAT("core-to-core-latency");
