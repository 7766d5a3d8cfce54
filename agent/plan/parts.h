/* parts.h: the steps of plan_make(), one file each. They return 0, or -1 and a refusal. */
#ifndef FLEET_PLAN_PARTS_H
#define FLEET_PLAN_PARTS_H

#include "base/text.h"
#include "plan/plan.h"

/* Fills in plan->cpus by the list; refuses a CPU that cannot be used. */
int plan_choose_cpus(struct plan *plan, const char *list, struct refusal *refusal);

/* Adds the CPUs of a list of pairs to plan->cpus, where a thread can be bound to them. */
int plan_add_paired_cpus(struct plan *plan, const char *list, struct refusal *refusal);

/* Compares CPU numbers, for qsort() and bsearch(). */
int plan_compare_numbers(const void *a, const void *b);

/* Refuses a CPU that is not among those of the plan; returns -1. */
int plan_refuse_cpu(const struct plan *plan, long cpu, struct refusal *refusal);

/* Refuses an option about NUMA nodes where the system refuses memory policies, else returns 0. */
int plan_refuse_policies(const struct machine *machine, const char *option,
			 struct refusal *refusal);

/* Fills in plan->choices, without their points. */
int plan_choose_benchmarks(struct plan *plan, const struct options *options, struct notes *notes,
			   struct refusal *refusal);

/* Returns the benchmark's best variant here that has a loop for the operation; null: none. */
const struct variant *plan_best_variant(const struct machine *machine,
					const struct benchmark *benchmark, enum operation operation,
					struct notes *notes);

/* Reads the next word of a list without spaces; returns false after the last. */
enum { WORD_ROOM = 32 };
bool plan_read_word(const char **next, char word[WORD_ROOM]);

/* Returns the bit that stands for a benchmark in `uses` of struct group. */
uint32_t plan_benchmark_bit(const struct benchmark *benchmark);

/* Fills in plan->nodes. */
int plan_choose_nodes(struct plan *plan, const struct options *options, struct notes *notes,
		      struct refusal *refusal);

/* Fills in plan->node_bytes; refuses if a node has less than twice as much free. */
int plan_check_nodes(struct plan *plan, struct refusal *refusal);

/* Fills in plan->groups and plan->facts. */
int plan_make_groups(struct plan *plan, const struct options *options, struct refusal *refusal);

/* Fills in the points of all choices. */
int plan_make_points(struct plan *plan, const struct options *options, struct notes *notes,
		     struct refusal *refusal);

/* Reserves the arenas of the visits; if memory is short it drops the largest sizes, or refuses. */
int plan_reserve_memory(struct plan *plan, const struct options *options, struct notes *notes,
			struct refusal *refusal);

/* Reserves the arenas of the present visits. *total: the bytes they use at once. */
int plan_reserve_arenas(struct plan *plan, uint64_t *total, struct refusal *refusal);

/* Adds a benchmark's variants by name, saying which this CPU lacks. */
void plan_add_variants(struct text *text, const struct benchmark *benchmark, uint32_t features);

/* Copies so many CPU numbers; the plan frees them; null: out of memory. */
int *plan_copy_cpus(const int *cpus, size_t count);

/* Fills in plan->visits; a list of pairs also leaves only its CPUs in plan->cpus. */
int plan_make_visits(struct plan *plan, const struct options *options, struct refusal *refusal);

/* Reports whether the benchmark goes through sizes of memory. */
bool plan_is_ladder(const struct benchmark *benchmark);

/* Decides which points of a ladder can be spared, and drops those that the time budget has no room
 * for: first sizes between the levels of memory, then those in memory. Depends on the options and
 * the machine alone, so that an agent that continues a run has the same points. Makes the visits
 * anew. */
int plan_shorten(struct plan *plan, const struct options *options, struct notes *notes,
		 struct refusal *refusal);

#endif
