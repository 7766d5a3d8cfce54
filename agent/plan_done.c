/* plan_done.c: what an earlier agent has measured of this plan; docs/wire.md has the format. */
#include "plan_parts.h"

#include "pace.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char blanks[] = " \n";

/* Reads a whole number; false if the word is none. */
static bool read_count(const char *word, uint64_t most, uint64_t *count)
{
	char *end;

	if (!word || *word < '0' || *word > '9')
		return false;
	errno = 0;
	*count = strtoull(word, &end, 10);
	return !*end && !errno && *count <= most;
}

static int by_cpus(const void *left, const void *right)
{
	const struct visit *p = left, *q = right;

	if (p->a != q->a)
		return p->a < q->a ? -1 : 1;
	return (p->b > q->b) - (p->b < q->b);
}

/* Visits lie choice by choice, and in each by their CPUs. */
static struct visit *find_visit(const struct plan *plan, const char *benchmark, const char *variant,
				int a, int b)
{
	struct visit *from = plan->visits, wanted = {.a = a, .b = b};

	for (size_t i = 0; i < plan->choice_count; i++) {
		const struct choice *choice = &plan->choices[i];
		size_t count = choice->benchmark->lines ? plan->pair_count : plan->cpu_count;

		if (!strcmp(choice->benchmark->name, benchmark) &&
		    !strcmp(choice->variant->name, variant))
			return bsearch(&wanted, from, count, sizeof wanted, by_cpus);
		from += count;
	}
	return NULL;
}

/* Takes a pair's outcomes, in the order of rounds: twice a median in ticks, or - for none. */
static bool take_outcomes(struct plan *plan, struct visit *visit, bool measured, char **rest)
{
	const char *word;
	uint64_t twice;

	while ((word = strtok_r(NULL, blanks, rest))) {
		bool failed = !strcmp(word, "-");

		if (visit->done == plan->rounds_max)
			return false;
		if (!failed && (!measured || !read_count(word, UINT64_MAX, &twice)))
			return false;
		pace_recall(plan, visit, failed ? NULL : &twice);
		plan->done++;
		plan->done_least += visit->done <= plan->rounds;
	}
	return visit->done > 0;
}

/* One line: benchmark, variant, the two CPUs, round trips in a sample, outcomes. */
static bool take_line(struct plan *plan, char *line)
{
	char *rest;
	const char *benchmark = strtok_r(line, blanks, &rest);
	const char *variant = strtok_r(NULL, blanks, &rest);
	uint64_t a, b, iterations;

	if (!variant || !read_count(strtok_r(NULL, blanks, &rest), INT32_MAX, &a) ||
	    !read_count(strtok_r(NULL, blanks, &rest), INT32_MAX, &b) ||
	    !read_count(strtok_r(NULL, blanks, &rest), UINT32_MAX, &iterations))
		return false;
	struct visit *visit = find_visit(plan, benchmark, variant, (int)a, (int)b);

	if (!visit || visit->done)
		return false;
	if (iterations)
		visit->iterations = (uint32_t)iterations;
	return take_outcomes(plan, visit, iterations > 0, &rest);
}

static int refuse_line(const char *path, size_t number, struct refusal *refusal)
{
	return refuse(refusal, EXIT_OPTIONS, "--done: line %zu of %s is not of this plan", number,
		      path);
}

/* The last line is `end`: without it the file is not whole. */
int plan_take_done(struct plan *plan, const char *path, struct refusal *refusal)
{
	FILE *file = fopen(path, "r");
	char *line = NULL;
	size_t room = 0, number = 0;
	bool ended = false, good = true;

	if (!file)
		return refuse(refusal, EXIT_OPTIONS, "--done: cannot read %s: %s", path,
			      strerror(errno));
	while (good && !ended && getline(&line, &room, file) >= 0) {
		number++;
		ended = !strcmp(line, "end\n");
		good = ended || take_line(plan, line);
	}
	free(line);
	fclose(file);
	if (!good)
		return refuse_line(path, number, refusal);
	if (!ended)
		return refuse(refusal, EXIT_OPTIONS, "--done: %s has no end", path);
	return 0;
}
