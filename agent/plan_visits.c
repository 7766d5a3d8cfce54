/* plan_visits.c: which pairs a round visits. */
#include "plan_parts.h"

#include <stdlib.h>
#include <string.h>

struct pair {
	int a, b; /* a < b */
};

/* ---- a list of pairs ------------------------------------------------------------------------- */

static int by_cpus(const void *left, const void *right)
{
	const struct pair *p = left, *q = right;

	if (p->a != q->a)
		return p->a < q->a ? -1 : 1;
	return (p->b > q->b) - (p->b < q->b);
}

static bool read_number(const char **at, long *number)
{
	char *end;

	if (**at < '0' || **at > '9')
		return false;
	*number = strtol(*at, &end, 10);
	*at = end;
	return true;
}

/* Reads 0-1 or 0:1 at *at and moves past it. */
static int read_pair(const struct plan *plan, const char **at, struct pair *pair,
		     struct refusal *refusal)
{
	const char *from = *at;
	long sides[2];
	bool read = read_number(at, &sides[0]) && (**at == '-' || **at == ':') && (*at)++ &&
		    read_number(at, &sides[1]);

	if (!read || (**at && **at != ','))
		return refuse(
			refusal, EXIT_OPTIONS,
			"--pairs is half, ordered or a list like 0-1,0-4, and cannot have '%.*s'",
			(int)strcspn(from, ","), from);
	if (sides[0] == sides[1])
		return refuse(refusal, EXIT_OPTIONS, "--pairs has CPU %ld with itself", sides[0]);
	for (int i = 0; i < 2; i++)
		if (plan_find_cpu(plan, sides[i]) < 0)
			return plan_refuse_cpu(plan, sides[i], refusal);
	pair->a = (int)(sides[0] < sides[1] ? sides[0] : sides[1]);
	pair->b = (int)(sides[0] < sides[1] ? sides[1] : sides[0]);
	return 0;
}

static int check_repeats(const struct pair *pairs, size_t count, struct refusal *refusal)
{
	for (size_t i = 1; i < count; i++)
		if (!by_cpus(&pairs[i - 1], &pairs[i]))
			return refuse(refusal, EXIT_OPTIONS, "--pairs has %d-%d twice", pairs[i].a,
				      pairs[i].b);
	return 0;
}

/* Reads the list into a fresh array, ascending; the caller frees it. */
static int read_pairs(const struct plan *plan, const char *list, struct pair **pairs, size_t *count,
		      struct refusal *refusal)
{
	size_t room = 1;
	int err = 0;

	for (const char *at = list; *at; at++)
		room += *at == ',';
	*pairs = calloc(room, sizeof **pairs);
	if (!*pairs)
		return refuse(refusal, EXIT_OTHER, "out of memory for %zu pairs", room);
	for (*count = 0; !err; list++) {
		err = read_pair(plan, &list, &(*pairs)[*count], refusal);
		(*count)++;
		if (!*list)
			break;
	}
	if (err)
		return err;
	qsort(*pairs, *count, sizeof **pairs, by_cpus);
	return check_repeats(*pairs, *count, refusal);
}

/* Leaves in plan->cpus only those that are in a pair. */
static int keep_cpus_of(struct plan *plan, const struct pair *pairs, size_t count,
			struct refusal *refusal)
{
	bool *wanted = calloc(plan->cpu_count, sizeof *wanted);
	size_t kept = 0;

	if (!wanted)
		return refuse(refusal, EXIT_OTHER, "out of memory");
	for (size_t i = 0; i < count; i++)
		wanted[plan_find_cpu(plan, pairs[i].a)] = wanted[plan_find_cpu(plan, pairs[i].b)] =
			true;
	for (size_t i = 0; i < plan->cpu_count; i++)
		if (wanted[i])
			plan->cpus[kept++] = plan->cpus[i];
	plan->cpu_count = kept;
	free(wanted);
	return 0;
}

/* ---- visits ---------------------------------------------------------------------------------- */

static void add_visit(struct plan *plan, const struct choice *choice, int a, int b)
{
	plan->visits[plan->visit_count++] =
		(struct visit){.choice = choice, .a = a, .b = b, .iterations = plan->iterations};
}

static void add_all_pairs(struct plan *plan, const struct choice *choice)
{
	for (size_t a = 0; a < plan->cpu_count; a++)
		for (size_t b = plan->pairs == PAIRS_ORDERED ? 0 : a + 1; b < plan->cpu_count; b++)
			if (a != b)
				add_visit(plan, choice, plan->cpus[a], plan->cpus[b]);
}

static void add_visits(struct plan *plan, const struct choice *choice, const struct pair *listed)
{
	if (!choice->benchmark->lines)
		for (size_t i = 0; i < plan->cpu_count; i++)
			add_visit(plan, choice, plan->cpus[i], plan->cpus[i]);
	else if (listed)
		for (size_t i = 0; i < plan->pair_count; i++)
			add_visit(plan, choice, listed[i].a, listed[i].b);
	else
		add_all_pairs(plan, choice);
}

static int make_all(struct plan *plan, const struct pair *listed, struct refusal *refusal)
{
	size_t room = 0;

	for (size_t i = 0; i < plan->choice_count; i++)
		room += plan->choices[i].benchmark->lines ? plan->pair_count : plan->cpu_count;
	plan->visits = calloc(room, sizeof *plan->visits);
	plan->order = calloc(room, sizeof *plan->order);
	if (!plan->visits || !plan->order || room > UINT32_MAX)
		return refuse(refusal, EXIT_OTHER, "out of memory for %zu pairs", room);
	for (size_t i = 0; i < plan->choice_count; i++)
		add_visits(plan, &plan->choices[i], listed);
	return 0;
}

int plan_make_visits(struct plan *plan, const char *pairs, struct refusal *refusal)
{
	size_t n = plan->cpu_count;
	struct pair *listed = NULL;
	int err = 0;

	plan->pairs = !strcmp(pairs, "half")      ? PAIRS_HALF
		      : !strcmp(pairs, "ordered") ? PAIRS_ORDERED
						  : PAIRS_LISTED;
	plan->pair_count = plan->pairs == PAIRS_ORDERED ? n * (n - 1) : n * (n - 1) / 2;
	if (plan->pairs == PAIRS_LISTED) {
		err = read_pairs(plan, pairs, &listed, &plan->pair_count, refusal);
		if (!err)
			err = keep_cpus_of(plan, listed, plan->pair_count, refusal);
	}
	if (!err)
		err = make_all(plan, listed, refusal);
	free(listed);
	return err;
}
