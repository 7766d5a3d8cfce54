/* plan_parts.h: the steps of plan_make(), one file each. They return 0, or -1 and a refusal. */
#ifndef FLEET_PLAN_PARTS_H
#define FLEET_PLAN_PARTS_H

#include "plan.h"
#include "text.h"

/* Keeps of plan->cpus only those in the list; each one named must be there. */
int plan_choose_cpus(struct plan *plan, const char *list, struct refusal *refusal);

/* Refuses a CPU that is not among those of the plan. */
int plan_refuse_cpu(const struct plan *plan, long cpu, struct refusal *refusal);

/* Fills in plan->choices. */
int plan_choose_benchmarks(struct plan *plan, const struct options *options,
			   struct refusal *refusal);

/* Adds a benchmark's variants by name, saying which this CPU lacks. */
void plan_add_variants(struct text *text, const struct benchmark *benchmark);

/* Takes over from a file what an earlier agent has measured of this plan. */
int plan_take_done(struct plan *plan, const char *path, struct refusal *refusal);

/* Fills in plan->visits; a list of pairs also leaves only its CPUs in plan->cpus. */
int plan_make_visits(struct plan *plan, const char *pairs, struct refusal *refusal);

#endif
