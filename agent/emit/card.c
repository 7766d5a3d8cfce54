/* card.c: reduces a run to what its card shows: relations, order of the map, groups, scale. */
#include "emit/card.h"

#include "base/interval.h"
#include "bench/sizes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const level_names[] = {"socket", "node", "die", "cache", "cluster"};

/* ---- what two CPUs share --------------------------------------------------------------------- */

static int compare_places(const void *a, const void *b)
{
	const struct place *left = a, *right = b;

	for (int i = 0; i < LEVELS; i++)
		if (left->groups[i] != right->groups[i])
			return left->groups[i] < right->groups[i] ? -1 : 1;
	return left->cpu - right->cpu;
}

static void describe_places(struct card *card)
{
	const struct plan *plan = card->matrix->run->plan;

	for (size_t i = 0; i < card->count; i++) {
		struct cpu_facts facts;
		struct place *place = &card->places[i];

		if (machine_get_cpu(plan->machine, plan->cpus[i], &facts))
			facts = (struct cpu_facts){.core = UNKNOWN,
						   .cluster = UNKNOWN,
						   .die = UNKNOWN,
						   .package = UNKNOWN,
						   .node = UNKNOWN};
		if (!i)
			memcpy(card->model, facts.name, sizeof card->model);
		const struct cpu_cache *last = last_data_cache(&facts);

		*place = (struct place){plan->cpus[i],
					i,
					{facts.package, facts.node, facts.die,
					 last ? last->group : UNKNOWN, facts.cluster, facts.core},
					facts.capacity};
	}
	qsort(card->places, card->count, sizeof *card->places, compare_places);
}

/* Counts the CPUs in a CPU's group of one level. */
static size_t count_group_cpus(const struct card *card, const struct place *place, int level)
{
	size_t size = 0;

	for (size_t i = 0; i < card->count; i++)
		size += card->places[i].groups[level] == place->groups[level];
	return size;
}

static const char *name_core_kind(const struct card *card, const struct place *place)
{
	int64_t least = INT64_MAX, most = 0;

	for (size_t i = 0; i < card->count; i++) {
		int64_t capacity = card->places[i].capacity;

		least = capacity < least ? capacity : least;
		most = capacity > most ? capacity : most;
	}
	if (least <= 0 || least == most)
		return NULL;
	return place->capacity == most ? "big" : place->capacity == least ? "LITTLE" : "middle";
}

/* Writes the name of the smallest group that both share, and of their kinds of core. Of groups of
 * equal size it takes the most familiar. */
static void name_relation(const struct card *card, const struct place *a, const struct place *b,
			  char *name, size_t room)
{
	static const struct {
		int level;
		const char *name;
	} groups[] = {{0, "package"}, {1, "node"}, {2, "die"}, {4, "cluster"}, {3, "llc"}};
	const char *relation = "unknown", *kind = name_core_kind(card, a),
		   *other = name_core_kind(card, b);
	size_t least = SIZE_MAX;

	for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
		int64_t group = a->groups[groups[i].level];
		size_t size = count_group_cpus(card, a, groups[i].level);

		if (group != UNKNOWN && least == SIZE_MAX)
			relation = "system";
		if (group == UNKNOWN || group != b->groups[groups[i].level] || size >= least)
			continue;
		least = size;
		relation = groups[i].name;
	}
	if (a->groups[LEVELS - 1] != UNKNOWN && a->groups[LEVELS - 1] == b->groups[LEVELS - 1])
		snprintf(name, room, "smt");
	else if (!kind || !other)
		snprintf(name, room, "%s", relation);
	else
		snprintf(name, room, "%s %s-%s", relation,
			 a->capacity >= b->capacity ? kind : other,
			 a->capacity >= b->capacity ? other : kind);
}

double card_square_root(double square)
{
	double root = square > 1 ? square : 1;

	for (int i = 0; i < 100 && square > 0; i++)
		root = (root + square / root) / 2;
	return square > 0 ? root : 0;
}

/* Sums the series of the inverse hyperbolic tangent, after halving x. */
double card_logarithm(double x)
{
	const double ln2 = 0.69314718055994531;
	double halvings = 0, sum = 0;

	for (; x > 4.0 / 3; x /= 2)
		halvings++;
	double y = (x - 1) / (x + 1), power = y;

	for (int n = 1; n < 24; n += 2, power *= y * y)
		sum += power / n;
	return 2 * sum + halvings * ln2;
}

static int compare_rows(const void *a, const void *b)
{
	const struct row *left = a, *right = b;

	return (left->ns > right->ns) - (left->ns < right->ns);
}

/* Returns the row of this name, a new one if none has it, or the last one if there is no room. */
static struct row *find_or_add_row(struct card *card, const char *name)
{
	size_t index = 0;

	while (index < card->row_count && strcmp(card->rows[index].name, name) != 0)
		index++;
	if (index == card->row_count && index < ROWS_ROOM)
		snprintf(card->rows[card->row_count++].name, sizeof card->rows->name, "%s", name);
	return &card->rows[index < ROWS_ROOM ? index : ROWS_ROOM - 1];
}

/* Returns the median of the values of a row's pairs; -1 if none has a value. */
static double row_median(const double *values, const unsigned char *rows, size_t count,
			 unsigned char row, double *scratch)
{
	size_t count_known = 0;

	for (size_t i = 0; i < count; i++)
		if (rows[i] == row && values[i] >= 0)
			scratch[count_known++] = values[i];
	return count_known ? median(scratch, count_known) : -1;
}

/* Sets the ends of the scale; the upper one is a percentile of the map, in which each pair's number
 * stands twice. noise: half the interval of the median pair, as a share; the scale is at least
 * eight times as wide. Sorts the values. */
static void set_scale(struct card *card, double *values, size_t count, double noise)
{
	double place = 0.98 * (double)(2 * count - 1);
	size_t low = (size_t)place, high = low + 1 < 2 * count ? low + 1 : low;

	sort_values(values, count);
	card->least = card->low = values[0];
	card->middle = values[(count - 1) / 2];
	card->most = values[count - 1];
	card->high = values[low / 2] + (place - (double)low) * (values[high / 2] - values[low / 2]);
	double middle = (card->low + card->high) / 2, half = 4 * (noise > .01 ? noise : .01);

	half = half < .8 ? half : .8;
	if (card->high - card->low < 2 * half * middle) {
		card->low = middle * (1 - half);
		card->high = middle * (1 + half);
	}
}

/* Fills in the cells, the ends of the scale and the rows. */
static bool reduce_visits(struct card *card)
{
	const struct tool_matrix *matrix = card->matrix;
	const struct plan *plan = matrix->run->plan;
	size_t n = card->count, count = 0;
	double *values = calloc(3 * plan->visit_count, sizeof *values);
	double *spreads = values + plan->visit_count, *scratch = spreads + plan->visit_count;
	unsigned char *rows = calloc(plan->visit_count, 1);
	struct place **by_at = calloc(n, sizeof *by_at);
	char name[sizeof card->rows->name];

	card->cells = calloc(n * n, sizeof *card->cells);
	for (size_t i = 0; by_at && i < n; i++)
		by_at[card->places[i].index] = &card->places[i];
	for (size_t i = 0; values && rows && by_at && card->cells && i < plan->visit_count; i++) {
		const struct visit *visit = &plan->visits[i];
		uint32_t half_ppm = matrix->levels[i].half_ppm;
		double ns = matrix->numbers[i];

		if (visit->choice != matrix->choice || ns <= 0)
			continue;
		name_relation(card, by_at[visit->a], by_at[visit->b], name, sizeof name);
		struct row *row = find_or_add_row(card, name);

		row->pairs++;
		rows[count] = (unsigned char)(row - card->rows);
		values[count] = ns;
		spreads[count++] = half_ppm == UINT32_MAX ? -1 : half_ppm / 1e6;
		card->cells[visit->a * n + visit->b] = card->cells[visit->b * n + visit->a] = ns;
	}
	for (size_t i = 0; i < card->row_count; i++) {
		unsigned char index = (unsigned char)i;

		card->rows[i].ns = row_median(values, rows, count, index, scratch);
		card->rows[i].spread = row_median(spreads, rows, count, index, scratch);
	}
	qsort(card->rows, card->row_count, sizeof *card->rows, compare_rows);
	if (count && rows) {
		memset(rows, 0, count);
		set_scale(card, values, count, row_median(spreads, rows, count, 0, scratch));
	}
	free(values);
	free(rows);
	free(by_at);
	return count;
}

static const struct place *find_place_by_index(const struct card *card, size_t index)
{
	const struct place *place = card->places;

	while (place->index != index)
		place++;
	return place;
}

void card_describe_pair(const struct card *card, double ns, char *words, size_t room)
{
	const double *cell = card->cells;
	char name[sizeof card->rows->name];

	while (*cell < ns || *cell > ns)
		cell++;
	size_t index = (size_t)(cell - card->cells);
	const struct place *a = find_place_by_index(card, index / card->count),
			   *b = find_place_by_index(card, index % card->count);

	name_relation(card, a, b, name, sizeof name);
	snprintf(words, room, "%.1f ns, CPUs %d and %d (%s)", ns, a->cpu, b->cpu, name);
}

void card_list_kinds(const struct card *card, struct text *list)
{
	static const char *const kinds[] = {"big", "middle", "LITTLE"};
	int *cpus = calloc(card->count, sizeof *cpus);

	for (size_t i = 0; cpus && i < sizeof kinds / sizeof *kinds; i++) {
		size_t count = 0;

		for (size_t k = 0; k < card->count; k++) {
			const struct place *place = find_place_by_index(card, k);
			const char *kind = name_core_kind(card, place);

			if (kind && !strcmp(kind, kinds[i]))
				cpus[count++] = place->cpu;
		}
		if (count) {
			text_add(list, "%s %s ", list->length ? "," : "kinds of cores:", kinds[i]);
			text_add_cpus(list, cpus, count);
		}
	}
	free(cpus);
}

/* ---- groups ---------------------------------------------------------------------------------- */

bool card_is_border(const struct card *card, size_t index, int level)
{
	for (int i = 0; index && i <= level; i++)
		if (card->places[index].groups[i] != card->places[index - 1].groups[i])
			return true;
	return false;
}

size_t card_count_groups(const struct card *card, int level)
{
	size_t count = 1;

	for (size_t i = 1; i < card->count; i++)
		count += card_is_border(card, i, level);
	return count;
}

/* Returns the level above cores with most groups, 2 to `most`; of equals the outermost; -1:
 * none. */
static int find_finest_level(const struct card *card, size_t most)
{
	int finest = -1;

	for (int i = 0; i < LEVELS - 1; i++) {
		size_t count = card_count_groups(card, i);

		if (count >= 2 && count <= most &&
		    (finest < 0 || count > card_count_groups(card, finest)))
			finest = i;
	}
	return finest;
}

/* Chooses which groups get lines between them, and which names, as Layout.label_groups() does. */
static void choose_groups(struct card *card)
{
	size_t half = card->count / 2, cores = card_count_groups(card, LEVELS - 1);
	int outer = 0;

	card->ruling = find_finest_level(card, card->count / 4);
	if (card->ruling < 0)
		card->ruling = find_finest_level(card, half);
	if (card->ruling < 0 && cores >= 2 && cores <= half)
		card->ruling = LEVELS - 1;
	while (outer < LEVELS - 1 && card_count_groups(card, outer) < 2)
		outer++;
	card->tiers[0] = outer < LEVELS - 1 && card_count_groups(card, outer) <= half ? outer : -1;
	card->tiers[1] = card->ruling < LEVELS - 1 && card->ruling != outer ? card->ruling : -1;
	if (card->tiers[0] >= 0 && card->tiers[1] >= 0 &&
	    card_count_groups(card, outer) == card_count_groups(card, card->ruling))
		card->tiers[1] = -1;
}

void card_name_group(const struct card *card, size_t index, int level, char *name, size_t room)
{
	int64_t group = card->places[index].groups[level];
	int number = level == 1 ? (int)group : 0;

	*name = '\0';
	if (group == UNKNOWN)
		return;
	for (size_t i = 0; level != 1 && i < card->count; i++) {
		int64_t other = card->places[i].groups[level];
		bool is_new = other != UNKNOWN && other < group;

		for (size_t k = 0; is_new && k < i; k++)
			is_new = card->places[k].groups[level] != other;
		number += is_new;
	}
	snprintf(name, room, "%s %d", level_names[level], number);
}

bool card_fill(struct card *card)
{
	card->count = card->matrix->count;
	card->places = calloc(card->count, sizeof *card->places);
	if (!card->places)
		return false;
	describe_places(card);
	choose_groups(card);
	return reduce_visits(card);
}

void card_free(struct card *card)
{
	free(card->places);
	free(card->cells);
	text_free(&card->words);
	text_free(&card->body);
}
