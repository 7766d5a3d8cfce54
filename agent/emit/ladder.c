/* ladder.c: for people: what a benchmark reads by the size of memory it works on. */
#include "emit/emit.h"

#include "base/interval.h"
#include "bench/sizes.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMN_ROOM = 24 };

/* A table being made: its columns by the first point of each, its rows by size. */
struct ladder {
	const struct plan *plan;
	const struct choice *choice;
	const double *numbers;
	const struct point **columns;
	uint64_t *sizes;
	double *values; /* room for the numbers of one cell */
	size_t column_count, size_count;
};

static bool is_in_column(const struct point *point, const struct point *column)
{
	return point->stride_bytes == column->stride_bytes && point->threads == column->threads &&
	       point->operation == column->operation && point->order == column->order &&
	       point->sharing == column->sharing;
}

static void add_column(struct ladder *ladder, const struct point *point)
{
	for (size_t i = 0; i < ladder->column_count; i++)
		if (is_in_column(point, ladder->columns[i]))
			return;
	ladder->columns[ladder->column_count++] = point;
}

static void add_size(struct ladder *ladder, uint64_t bytes)
{
	size_t place = ladder->size_count;

	while (place && ladder->sizes[place - 1] > bytes)
		place--;
	if (place && ladder->sizes[place - 1] == bytes)
		return;
	memmove(ladder->sizes + place + 1, ladder->sizes + place,
		(ladder->size_count - place) * sizeof *ladder->sizes);
	ladder->sizes[place] = bytes;
	ladder->size_count++;
}

static bool make_ladder(struct ladder *ladder)
{
	size_t room = ladder->choice->point_count;

	ladder->columns = calloc(room, sizeof *ladder->columns);
	ladder->sizes = calloc(room + 1, sizeof *ladder->sizes);
	ladder->values = calloc(ladder->plan->visit_count, sizeof *ladder->values);
	if (!ladder->columns || !ladder->sizes || !ladder->values)
		return false;
	for (size_t i = 0; i < room; i++) {
		add_column(ladder, &ladder->choice->points[i]);
		add_size(ladder, ladder->choice->points[i].bytes);
	}
	return true;
}

/* Returns the ns of a unit at the sizes from first to last; 0 if there is none. */
static double cell_ns(const struct ladder *ladder, const struct point *column, uint64_t first,
		      uint64_t last)
{
	size_t count = 0;

	for (size_t i = 0; i < ladder->plan->visit_count; i++) {
		const struct visit *visit = &ladder->plan->visits[i];
		const struct point *point = plan_visit_point(visit);

		if (visit->choice == ladder->choice && ladder->numbers[i] > 0 &&
		    is_in_column(point, column) && point->bytes >= first && point->bytes <= last)
			ladder->values[count++] = ladder->numbers[i];
	}
	return count ? median(ladder->values, count) : 0;
}

/* Adds a row: latencies in ns, or rates in GB/s. */
static void add_size_row(struct text *page, const struct ladder *ladder, const char *head,
			 uint64_t first, uint64_t last)
{
	bool rate = ladder->choice->benchmark->rate, any = false;

	for (size_t i = 0; i < ladder->column_count; i++)
		any |= cell_ns(ladder, ladder->columns[i], first, last) > 0;
	if (!any)
		return;
	text_add(page, "\n%8s", head);
	for (size_t i = 0; i < ladder->column_count; i++) {
		double ns = cell_ns(ladder, ladder->columns[i], first, last);

		if (ns > 0)
			text_add(page, " %11.*f", rate ? 1 : 2, rate ? 1 / ns : ns);
		else
			text_add(page, " %11s", "");
	}
}

/* Adds a row for each cache, of the sizes well within it and well outside the one before. */
static void add_plateaus(struct text *page, const struct ladder *ladder)
{
	const struct cpu_facts *facts = &ladder->plan->facts;
	uint64_t outside = 0;
	char head[16];

	for (int level = 1; level <= CPU_CACHES; level++)
		for (size_t i = 0; i < facts->cache_count; i++) {
			const struct cpu_cache *cache = &facts->caches[i];

			if (cache->level != level || cache->bytes <= 0 ||
			    !strcmp(cache->kind, "Instruction"))
				continue;
			snprintf(head, sizeof head, "L%d", level);
			add_size_row(page, ladder, head, outside, (uint64_t)cache->bytes / 4 * 3);
			outside = 2 * (uint64_t)cache->bytes;
		}
	if (outside)
		add_size_row(page, ladder, "memory", outside, UINT64_MAX);
	text_add(page, "\n");
}

static void name_column(const struct point *point, char name[COLUMN_ROOM])
{
	if (point->order != ORDER_NONE)
		snprintf(name, COLUMN_ROOM, "%s", order_name(point->order));
	else
		snprintf(name, COLUMN_ROOM, "%s%s x%" PRIu32, operation_name(point->operation),
			 point->sharing == SHARING_ONE ? " one" : "", point->threads);
}

static void add_ladder_title(struct text *page, const struct ladder *ladder)
{
	const struct choice *choice = ladder->choice;

	text_add(page, "%s, variant %s: %s, %s pages; plateaus, then the ladder\n\n%8s",
		 choice->benchmark->name, choice->variant->name, choice->benchmark->heading,
		 choice->points[0].huge_pages ? "huge" : "base", "");
	for (size_t i = 0; i < ladder->column_count; i++) {
		char name[COLUMN_ROOM];

		name_column(ladder->columns[i], name);
		text_add(page, " %11s", name);
	}
}

/* Adds a line for each point and first CPU. */
static void add_visits(struct text *page, const struct ladder *ladder)
{
	const struct choice *choice = ladder->choice;

	text_add(page, "%s, variant %s: %s\n\n", choice->benchmark->name, choice->variant->name,
		 choice->benchmark->heading);
	for (size_t i = 0; i < ladder->plan->visit_count; i++) {
		const struct visit *visit = &ladder->plan->visits[i];
		double ns = ladder->numbers[i];

		if (visit->choice == choice && ns > 0)
			text_add(page, "%36s from CPU %-4d %9.2f\n", plan_visit_point(visit)->name,
				 plan_first_cpu(ladder->plan, visit),
				 choice->benchmark->rate ? 1 / ns : ns);
	}
}

void emit_ladder(struct text *page, const struct plan *plan, const struct choice *choice,
		 const double *numbers)
{
	struct ladder ladder = {.plan = plan, .choice = choice, .numbers = numbers};
	char size[SIZE_ROOM];
	bool is_made = make_ladder(&ladder);

	bool sizes = choice->benchmark->view && !strcmp(choice->benchmark->view, "ladder");

	if (is_made && (!sizes || choice->points[0].memory_node != NO_NODE)) {
		add_visits(page, &ladder);
	} else if (is_made) {
		add_ladder_title(page, &ladder);
		add_plateaus(page, &ladder);
		for (size_t i = 0; i < ladder.size_count; i++) {
			format_size(ladder.sizes[i], size);
			add_size_row(page, &ladder, size, ladder.sizes[i], ladder.sizes[i]);
		}
		text_add(page, "\n");
	}
	free(ladder.columns);
	free(ladder.sizes);
	free(ladder.values);
}
