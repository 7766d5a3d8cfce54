/* card.c: reduces a run to what its card shows: relations, order of the map, groups, scale. */
#include "emit/card.h"

#include "base/interval.h"
#include "bench/sizes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const level_names[] = {"socket", "node", "die", "cache", "cluster"};

/* ---- what two CPUs share --------------------------------------------------------------------- */

static int by_place(const void *a, const void *b)
{
	const struct place *left = a, *right = b;

	for (int i = 0; i < LEVELS; i++)
		if (left->groups[i] != right->groups[i])
			return left->groups[i] < right->groups[i] ? -1 : 1;
	return left->cpu - right->cpu;
}

static void describe(struct card *card)
{
	const struct plan *plan = card->matrix->run->plan;

	for (size_t i = 0; i < card->count; i++) {
		struct cpu_facts facts;
		struct place *place = &card->places[i];

		if (machine_cpu(plan->machine, plan->cpus[i], &facts))
			facts = (struct cpu_facts){.core = UNKNOWN,
						   .cluster = UNKNOWN,
						   .die = UNKNOWN,
						   .package = UNKNOWN,
						   .node = UNKNOWN};
		if (!i)
			memcpy(card->model, facts.name, sizeof card->model);
		const struct cpu_cache *last = last_cache(&facts);

		*place = (struct place){plan->cpus[i],
					i,
					{facts.package, facts.node, facts.die,
					 last ? last->group : UNKNOWN, facts.cluster, facts.core},
					facts.capacity};
	}
	qsort(card->places, card->count, sizeof *card->places, by_place);
}

/* CPUs in the same group as this one, of one level. */
static size_t size_of(const struct card *card, const struct place *place, int level)
{
	size_t size = 0;

	for (size_t i = 0; i < card->count; i++)
		size += card->places[i].groups[level] == place->groups[level];
	return size;
}

static const char *kind_of(const struct card *card, const struct place *place)
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

/* The smallest group that both share, of equals the most familiar one. */
static void name_relation(const struct card *card, const struct place *a, const struct place *b,
			  char *name, size_t room)
{
	static const struct {
		int level;
		const char *name;
	} known[] = {{0, "package"}, {1, "node"}, {2, "die"}, {4, "cluster"}, {3, "llc"}};
	const char *found = "unknown", *one = kind_of(card, a), *other = kind_of(card, b);
	size_t least = SIZE_MAX;

	for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
		int64_t group = a->groups[known[i].level];
		size_t size = size_of(card, a, known[i].level);

		if (group != UNKNOWN && least == SIZE_MAX)
			found = "system";
		if (group == UNKNOWN || group != b->groups[known[i].level] || size >= least)
			continue;
		least = size;
		found = known[i].name;
	}
	if (a->groups[LEVELS - 1] != UNKNOWN && a->groups[LEVELS - 1] == b->groups[LEVELS - 1])
		snprintf(name, room, "smt");
	else if (!one || !other)
		snprintf(name, room, "%s", found);
	else
		snprintf(name, room, "%s %s-%s", found, a->capacity >= b->capacity ? one : other,
			 a->capacity >= b->capacity ? other : one);
}

double card_root(double square)
{
	double found = square > 1 ? square : 1;

	for (int i = 0; i < 100 && square > 0; i++)
		found = (found + square / found) / 2;
	return square > 0 ? found : 0;
}

/* The series of the inverse hyperbolic tangent, after halving. */
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

static int by_ns(const void *a, const void *b)
{
	const struct row *left = a, *right = b;

	return (left->ns > right->ns) - (left->ns < right->ns);
}

/* The row of this name; a new one where there is none yet, the last one where there is no room. */
static struct row *row_named(struct card *card, const char *name)
{
	size_t at = 0;

	while (at < card->row_count && strcmp(card->rows[at].name, name) != 0)
		at++;
	if (at == card->row_count && at < ROWS_ROOM)
		snprintf(card->rows[card->row_count++].name, sizeof card->rows->name, "%s", name);
	return &card->rows[at < ROWS_ROOM ? at : ROWS_ROOM - 1];
}

/* The median of the values of the pairs that are in this row; -1: none has one. */
static double median_of(const double *values, const unsigned char *rows, size_t count,
			unsigned char row, double *scratch)
{
	size_t known = 0;

	for (size_t i = 0; i < count; i++)
		if (rows[i] == row && values[i] >= 0)
			scratch[known++] = values[i];
	return known ? median(scratch, known) : -1;
}

/* Each pair's number stands twice in the map: the percentile is that of the map. */
static void scale(struct card *card, double *values, size_t count)
{
	double place = 0.98 * (double)(2 * count - 1);
	size_t low = (size_t)place, high = low + 1 < 2 * count ? low + 1 : low;

	sort_values(values, count);
	card->low = values[0];
	card->high = values[low / 2] + (place - (double)low) * (values[high / 2] - values[low / 2]);
	if (card->high < card->low * 1.01)
		card->high = card->low * 1.01;
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
		by_at[card->places[i].at] = &card->places[i];
	for (size_t i = 0; values && rows && by_at && card->cells && i < plan->visit_count; i++) {
		const struct visit *visit = &plan->visits[i];
		uint32_t half_ppm = matrix->levels[i].half_ppm;
		double ns = matrix->found[i];

		if (visit->choice != matrix->choice || ns <= 0)
			continue;
		name_relation(card, by_at[visit->a], by_at[visit->b], name, sizeof name);
		struct row *row = row_named(card, name);

		row->pairs++;
		rows[count] = (unsigned char)(row - card->rows);
		values[count] = ns;
		spreads[count++] = half_ppm == UINT32_MAX ? -1 : half_ppm / 1e6;
		card->cells[visit->a * n + visit->b] = card->cells[visit->b * n + visit->a] = ns;
	}
	for (size_t i = 0; i < card->row_count; i++) {
		unsigned char at = (unsigned char)i;

		card->rows[i].ns = median_of(values, rows, count, at, scratch);
		card->rows[i].spread = median_of(spreads, rows, count, at, scratch);
	}
	qsort(card->rows, card->row_count, sizeof *card->rows, by_ns);
	if (count)
		scale(card, values, count);
	free(values);
	free(rows);
	free(by_at);
	return count;
}

/* ---- groups ---------------------------------------------------------------------------------- */

bool card_border(const struct card *card, size_t at, int level)
{
	for (int i = 0; at && i <= level; i++)
		if (card->places[at].groups[i] != card->places[at - 1].groups[i])
			return true;
	return false;
}

size_t card_blocks(const struct card *card, int level)
{
	size_t count = 1;

	for (size_t i = 1; i < card->count; i++)
		count += card_border(card, i, level);
	return count;
}

/* The level with most groups above cores, of 2 to `most`; of equal ones the outermost; -1: none. */
static int finest(const struct card *card, size_t most)
{
	int found = -1;

	for (int i = 0; i < LEVELS - 1; i++) {
		size_t count = card_blocks(card, i);

		if (count >= 2 && count <= most && (found < 0 || count > card_blocks(card, found)))
			found = i;
	}
	return found;
}

/* Which groups have lines between them and which have names, as Layout.tiers() chooses. */
static void choose_groups(struct card *card)
{
	size_t half = card->count / 2, cores = card_blocks(card, LEVELS - 1);
	int outer = 0;

	card->ruling = finest(card, card->count / 4);
	if (card->ruling < 0)
		card->ruling = finest(card, half);
	if (card->ruling < 0 && cores >= 2 && cores <= half)
		card->ruling = LEVELS - 1;
	while (outer < LEVELS - 1 && card_blocks(card, outer) < 2)
		outer++;
	card->tiers[0] = outer < LEVELS - 1 && card_blocks(card, outer) <= half ? outer : -1;
	card->tiers[1] = card->ruling < LEVELS - 1 && card->ruling != outer ? card->ruling : -1;
	if (card->tiers[0] >= 0 && card->tiers[1] >= 0 &&
	    card_blocks(card, outer) == card_blocks(card, card->ruling))
		card->tiers[1] = -1;
}

void card_group_name(const struct card *card, size_t at, int level, char *name, size_t room)
{
	int64_t group = card->places[at].groups[level];
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

bool card_reduce(struct card *card)
{
	card->count = card->matrix->count;
	card->places = calloc(card->count, sizeof *card->places);
	if (!card->places)
		return false;
	describe(card);
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
