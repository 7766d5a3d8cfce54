/* matrix.c: for people: a matrix or ladder per benchmark and variant when all is measured. */
#include "base/interval.h"
#include "base/stop.h"
#include "emit/emit.h"
#include "emit/tools.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MARKED_SHARE = 10 /* from one burst in so many on */, LISTED_MOST = 4 };

/* For each visit: its number by the estimator, in ns one way, and units in a sample; 0: none. */
static double *numbers, *scratch;
static uint64_t *units;
static uint32_t *counts; /* bursts */
static const struct level *levels;
static struct text page;

/* ---- estimators ------------------------------------------------------------------------------ */

static double mean(const double *values, size_t count)
{
	double sum = 0;

	for (size_t i = 0; i < count; i++)
		sum += values[i];
	return sum / (double)count;
}

static bool is_estimator(const struct plan *plan, const char *name)
{
	return !strcmp(plan->estimator, name);
}

static const char *describe_estimator(const struct plan *plan)
{
	if (is_estimator(plan, "mean"))
		return "mean of all samples";
	if (is_estimator(plan, "min"))
		return "minimum of all samples";
	return plan->rounds_max == 1 ? "median of the samples" : "median of the bursts' medians";
}

/* ---- while it is measured -------------------------------------------------------------------- */

static void allocate_numbers(const struct run *run)
{
	const struct plan *plan = run->plan;
	size_t longest = plan->samples > plan->visit_count ? plan->samples : plan->visit_count;

	scratch = calloc(longest, sizeof *scratch);
	numbers = calloc(plan->visit_count, sizeof *numbers);
	units = calloc(plan->visit_count, sizeof *units);
	counts = calloc(plan->visit_count, sizeof *counts);
	if (!scratch || !numbers || !units || !counts)
		stop_record_reason("out of memory");
}

/* Updates a visit's number; medians are taken from the levels at the end. */
static void update_number(const struct run *run, const struct report *report)
{
	const struct plan *plan = run->plan;
	size_t visit = (size_t)(report->visit - plan->visits);

	if (!scratch || !numbers || !units || !counts)
		return;
	uint32_t samples = report->result->samples - plan->warmup;

	for (uint32_t i = 0; i < samples; i++)
		scratch[i] = report_sample_ns(run, report, plan->warmup + i);
	units[visit] = report->units;
	counts[visit]++;
	if (is_estimator(plan, "mean")) {
		numbers[visit] += (mean(scratch, samples) - numbers[visit]) / counts[visit];
	} else if (is_estimator(plan, "min")) {
		sort_values(scratch, samples);
		if (counts[visit] == 1 || scratch[0] < numbers[visit])
			numbers[visit] = scratch[0];
	}
}

/* ---- the page -------------------------------------------------------------------------------- */

/* Reports whether many of a visit's bursts are at another level. */
static bool has_many_off_level(size_t visit)
{
	return levels[visit].others * MARKED_SHARE > levels[visit].count + levels[visit].others;
}

static void add_matrix_row(const char *head, const double *cells, size_t count)
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

/* Returns a visit's place in a matrix of n columns. */
static size_t find_cell(const struct plan *plan, const struct choice *choice,
			const struct visit *visit)
{
	size_t n = plan->cpu_count;

	if (choice->benchmark->shape != SHAPE_PAIR)
		return visit->a;
	if (plan->pairs == PAIRS_ORDERED)
		return visit->a * n + visit->b;
	return visit->b * n + visit->a;
}

/* Makes the cells of a matrix; the caller frees them. Rows are ping, columns pong; a pair visited
 * once a round stands below the diagonal. A benchmark of single CPUs has one row. Negative: marked.
 */
static double *make_cells(const struct plan *plan, const struct choice *choice,
			  const struct point *point)
{
	size_t n = plan->cpu_count, rows = choice->benchmark->shape == SHAPE_PAIR ? n : 1;
	double *cells = calloc(rows * n, sizeof *cells);

	for (size_t i = 0; cells && i < plan->visit_count; i++) {
		const struct visit *visit = &plan->visits[i];
		double number = has_many_off_level(i) ? -numbers[i] : numbers[i];

		if (plan_visit_point(visit) == point)
			cells[find_cell(plan, choice, visit)] = number;
	}
	return cells;
}

static void add_cells(const struct plan *plan, const struct choice *choice,
		      const struct point *point)
{
	size_t n = plan->cpu_count, rows = choice->benchmark->shape == SHAPE_PAIR ? n : 1;
	double *cells = make_cells(plan, choice, point);
	char head[16];

	text_add(&page, "%6s", "");
	for (size_t column = 0; column < n; column++)
		text_add(&page, " %7d", plan->cpus[column]);
	for (size_t row = 0; cells && row < rows; row++) {
		snprintf(head, sizeof head, "%d", plan->cpus[row]);
		add_matrix_row(rows == 1 ? "" : head, cells + row * n, n);
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

static void add_summary(const struct plan *plan, const struct point *point)
{
	size_t lowest = 0, highest = 0, count = 0;

	for (size_t i = 0; i < plan->visit_count; i++) {
		if (plan_visit_point(&plan->visits[i]) != point || numbers[i] <= 0)
			continue;
		if (!count || numbers[i] < numbers[lowest])
			lowest = i;
		if (!count || numbers[i] > numbers[highest])
			highest = i;
		scratch[count++] = numbers[i];
	}
	if (!count)
		return;
	add_extreme(plan, "min", &plan->visits[lowest], numbers[lowest]);
	text_add(&page, "%6s %7.1f\n", "median", median(scratch, count));
	text_add(&page, "%6s %7.1f\n", "mean", mean(scratch, count));
	add_extreme(plan, "max", &plan->visits[highest], numbers[highest]);
}

static void add_matrix_title(const struct plan *plan, const struct choice *choice,
			     const struct point *point)
{
	text_add(&page, "%s, variant %s%s%s: %s, %s", choice->benchmark->name,
		 choice->variant->name, *point->name ? ", point " : "", point->name,
		 choice->benchmark->heading, describe_estimator(plan));
	if (plan->preset)
		text_add(&page, ", sampled as %s does", plan->preset);
	if (plan->preset && !strcmp(plan->preset, "core_latency"))
		text_add(&page, " (which prints whole ns, rounded down)");
	text_add(&page, "\n\n");
}

static void add_levels(const struct plan *plan, size_t visit)
{
	const struct level *level = &levels[visit];
	const struct visit *cpus = &plan->visits[visit];

	text_add(&page, "%8s%d", "", plan_first_cpu(plan, cpus));
	if (cpus->a != cpus->b)
		text_add(&page, "-%d", plan_last_cpu(plan, cpus));
	text_add(&page, ": %.1f", level->median);
	if (level->half_ppm <= 1000000)
		text_add(&page, " +-%.1f%%", level->half_ppm / 1e4);
	else if (level->half_ppm < UINT32_MAX)
		text_add(&page, " unsettled");
	text_add(&page, ", and %.0f%% of bursts at %.1f\n",
		 100.0 * level->others / (level->count + level->others), level->other);
}

/* Lists the first few visits that are marked. */
static void add_off_level_visits(const struct plan *plan, const struct point *point)
{
	size_t marked = 0;

	for (size_t i = 0; i < plan->visit_count; i++)
		marked += plan_visit_point(&plan->visits[i]) == point && has_many_off_level(i);
	if (!marked)
		return;
	text_add(&page, "     *  %zu with bursts at another level\n", marked);
	for (size_t i = 0, listed = 0; i < plan->visit_count && listed < LISTED_MOST; i++)
		if (plan_visit_point(&plan->visits[i]) == point && has_many_off_level(i)) {
			add_levels(plan, i);
			listed++;
		}
	if (marked > LISTED_MOST)
		text_add(&page, "%8sand %zu more (--format jsonl)\n", "", marked - LISTED_MOST);
}

/* Adds a matrix for each point. */
static void add_matrices(const struct plan *plan, const struct choice *choice)
{
	for (size_t i = 0; i < choice->point_count; i++) {
		const struct point *point = &choice->points[i];

		text_add(&page, i ? "\n" : "");
		add_matrix_title(plan, choice, point);
		add_cells(plan, choice, point);
		text_add(&page, "\n");
		add_summary(plan, point);
		add_off_level_visits(plan, point);
	}
}

/* Adds a line for each point: minimum, median and maximum of its pairs. */
static void add_point_tables(const struct plan *plan, const struct choice *choice)
{
	text_add(&page, "%s, variant %s: ns a line, of all pairs, %s\n\n%-28s %8s %8s %8s\n",
		 choice->benchmark->name, choice->variant->name, describe_estimator(plan), "point",
		 "min", "median", "max");
	for (size_t i = 0; i < choice->point_count; i++) {
		size_t count = 0;

		for (size_t v = 0; v < plan->visit_count; v++)
			if (plan_visit_point(&plan->visits[v]) == &choice->points[i] &&
			    numbers[v] > 0)
				scratch[count++] = numbers[v];
		if (!count)
			continue;
		double middle = median(scratch, count);

		text_add(&page, "%-28s %8.1f %8.1f %8.1f\n", choice->points[i].name, scratch[0],
			 middle, scratch[count - 1]);
	}
}

/* Returns the most bursts that a pair has; a pair has fewer if some failed. */
static uint32_t most_bursts_of_a_pair(const struct plan *plan, const struct choice *choice)
{
	uint32_t most = 0;

	for (size_t i = 0; i < plan->visit_count; i++)
		if (plan->visits[i].choice == choice && counts[i] > most)
			most = counts[i];
	return most;
}

/* Returns the units in a sample of the median pair; 0: no pair was measured. */
static uint64_t usual_units_in_a_sample(const struct plan *plan, const struct choice *choice)
{
	size_t visits = 0;

	for (size_t i = 0; i < plan->visit_count; i++)
		if (plan->visits[i].choice == choice && units[i])
			scratch[visits++] = (double)units[i];
	return visits ? (uint64_t)median(scratch, visits) : 0;
}

/* Adds the matrix of pairs as the program that the format is named for prints it. */
static void add_as_tool(const struct run *run, const struct choice *choice)
{
	const struct plan *plan = run->plan;
	size_t cell_count = plan->cpu_count * plan->cpu_count;
	double *cells = make_cells(plan, choice, choice->points);

	if (!cells)
		return;
	for (size_t i = 0; i < cell_count; i++)
		if (cells[i] < 0) /* at several levels, which other programs do not mark */
			cells[i] = -cells[i];
	const struct tool_matrix matrix = {.choice = choice,
					   .cpus = plan->cpus,
					   .count = plan->cpu_count,
					   .ns = cells,
					   .samples = (uint64_t)plan->samples *
						      most_bursts_of_a_pair(plan, choice),
					   .iterations = usual_units_in_a_sample(plan, choice)};

	tool_find_printer(run->format->name)(&page, &matrix);
	free(cells);
}

/* Reports whether a choice has one number for each pair, which is all that other programs print. */
static bool is_one_matrix(const struct choice *choice)
{
	return choice->benchmark->shape == SHAPE_PAIR && choice->point_count == 1;
}

int emit_check_choices(const struct plan *plan, const char *format, struct notes *notes,
		       struct refusal *refusal)
{
	struct text others = {0};
	const struct benchmark *last = NULL;
	size_t printed = 0;
	int err = 0;

	for (size_t i = 0; tool_find_printer(format) && i < plan->choice_count; i++) {
		const struct benchmark *benchmark = plan->choices[i].benchmark;

		if (is_one_matrix(&plan->choices[i])) {
			printed++;
		} else if (benchmark != last) {
			text_add(&others, "%s%s", last ? ", " : "", benchmark->name);
			last = benchmark;
		}
	}
	if (last && printed)
		notes_add(notes, "--format %s prints one number a pair; left out: %s.", format,
			  others.data);
	else if (last)
		err = refuse(refusal, EXIT_OPTIONS,
			     "--format %s prints one number a pair, and no benchmark chosen has "
			     "that: %s",
			     format, others.data);
	text_free(&others);
	return err;
}

static void add_page(const struct run *run)
{
	const struct plan *plan = run->plan;
	bool as_tool = tool_find_printer(run->format->name);

	for (size_t i = 0; i < plan->choice_count; i++) {
		const struct choice *choice = &plan->choices[i];

		if (as_tool) {
			if (is_one_matrix(choice))
				add_as_tool(run, choice);
			continue;
		}
		text_add(&page, i ? "\n" : "");
		if (choice->benchmark->shape == SHAPE_GROUP)
			emit_ladder(&page, plan, choice, numbers);
		else if (choice->benchmark->many_points)
			add_point_tables(plan, choice);
		else
			add_matrices(plan, choice);
	}
}

static void print_page(const struct run *run, const struct totals *totals, const char *reason)
{
	levels = totals->levels;
	if (scratch && numbers && units && counts) {
		for (size_t i = 0; i < run->plan->visit_count; i++)
			if (is_estimator(run->plan, "median"))
				numbers[i] = levels[i].median;
		add_page(run);
	}
	emit_write(&page);
	emit_csv.write_end(run, totals, reason);
	free(numbers);
	free(scratch);
	free(units);
	free(counts);
}

#define FORMAT(name)                                                                               \
	{                                                                                          \
		name, allocate_numbers, update_number, emit_failed_burst_sentence,                 \
			emit_note_sentence, emit_no_sign_of_life, print_page                       \
	}
const struct format emit_matrix = FORMAT("matrix");
const struct format emit_c2clat = FORMAT("c2clat");
const struct format emit_core_latency = FORMAT("core_latency");
const struct format emit_core_to_core_latency = FORMAT("core-to-core-latency");
