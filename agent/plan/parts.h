/* parts.h: the steps of plan_make(), one file each. They return 0, or -1 and a refusal. */
#ifndef FLEET_PLAN_PARTS_H
#define FLEET_PLAN_PARTS_H

#include "base/text.h"
#include "plan/plan.h"

/* Keeps of plan->cpus only those in the list; each one named must be there. */
int plan_choose_cpus(struct plan *plan, const char *list, struct refusal *refusal);

/* Compares CPU numbers, for qsort() and bsearch(). */
int plan_compare_numbers(const void *a, const void *b);

/* Refuses a CPU that is not among those of the plan. */
int plan_refuse_cpu(const struct plan *plan, long cpu, struct refusal *refusal);

/* Fills in plan->choices, without their points. */
int plan_choose_benchmarks(struct plan *plan, const struct options *options, struct notes *notes,
			   struct refusal *refusal);

/* Its best variant that has a loop for the operation and runs here; null: none. */
const struct variant *plan_best_variant(const struct machine *machine,
					const struct benchmark *benchmark, enum operation operation,
					struct notes *notes);

/* Takes the next word of a list without spaces; false after the last. */
enum { WORD_ROOM = 32 };
bool plan_read_word(const char **next, char word[WORD_ROOM]);

/* The bit of a benchmark in the uses of groups. */
uint32_t plan_benchmark_bit(const struct benchmark *benchmark);

/* Fills in plan->nodes. */
int plan_choose_nodes(struct plan *plan, const struct options *options, struct notes *notes,
		      struct refusal *refusal);

/* Fills in what the reserved arenas take on each of them, of which twice as much must be free. */
int plan_check_nodes(struct plan *plan, struct refusal *refusal);

/* Fills in plan->groups and plan->facts. */
int plan_make_groups(struct plan *plan, const struct options *options, struct refusal *refusal);

/* Fills in the points of all choices. */
int plan_make_points(struct plan *plan, const struct options *options, struct notes *notes,
		     struct refusal *refusal);

/* Reserves the arenas of the visits; short of memory it drops the largest sizes, or refuses. */
int plan_reserve_memory(struct plan *plan, const struct options *options, struct notes *notes,
			struct refusal *refusal);

/* Reserves the arenas of the visits there are; the bytes they take at once. */
int plan_reserve_arenas(struct plan *plan, uint64_t *total, struct refusal *refusal);

/* Adds a benchmark's variants by name, saying which this CPU lacks. */
void plan_add_variants(struct text *text, const struct benchmark *benchmark, uint32_t features);

/* A copy of so many CPU numbers, which the plan frees; null: out of memory. */
int *plan_copy_cpus(const int *cpus, size_t count);

/* Fills in plan->visits; a list of pairs also leaves only its CPUs in plan->cpus. */
int plan_make_visits(struct plan *plan, const struct options *options, struct refusal *refusal);

/* Is it of a benchmark that goes through sizes of memory? */
bool plan_is_ladder(const struct benchmark *benchmark);

/* Finds out which points of a ladder can be spared, and drops those that the time budget has no
 * room for: sizes between the levels of memory first, then those in memory. By the options and the
 * machine alone, so that an agent that continues a run comes to the same points. The visits must
 * have been made, and are made anew. */
int plan_shorten(struct plan *plan, const struct options *options, struct notes *notes,
		 struct refusal *refusal);

#endif
