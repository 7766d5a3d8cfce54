/* plan.h: what is measured, resolved against this machine. */
#ifndef FLEET_PLAN_H
#define FLEET_PLAN_H

#include "base/random.h"
#include "bench/bench.h"
#include "machine/facts.h"
#include "machine/lines.h"
#include "options/options.h"

/* A benchmark in one of its variants, and the points it is measured at: at least one, nameless. */
struct choice {
	const struct benchmark *benchmark;
	const struct variant *variant;
	bool automatic; /* takes only points that no better variant can do */
	struct point *points;
	size_t point_count;
};

/* CPUs that work at once. */
struct group {
	int *cpus; /* ascending */
	size_t count;
	uint32_t uses; /* bits of the benchmarks that use it: plan_benchmark_bit() */
};

/* CPUs that every round visits once at a point of a choice; there may be a million of these. */
struct visit {
	const struct choice *choice;
	uint16_t a, b;  /* indexes in plan->cpus; of a group both are its index in plan->groups */
	uint16_t point; /* index in choice->points */
};

enum pairs { PAIRS_HALF, PAIRS_ORDERED, PAIRS_LISTED };

struct plan {
	struct machine *machine; /* that it is for */
	int *cpus;               /* ascending */
	size_t cpu_count;
	int64_t *cores; /* of each CPU, or UNKNOWN; null: no benchmark needs them */
	struct choice *choices;
	size_t choice_count;
	struct group *groups;
	size_t group_count;
	uint32_t group_uses;    /* uses of the groups being added */
	struct cpu_facts facts; /* of the first CPU */
	uint64_t cache_bytes;   /* of the last-level caches of all CPUs; 0: unknown */
	struct visit *visits;
	size_t visit_count;
	size_t *blocks; /* first visit at each point whose pairs are visited in blocks */
	size_t block_count, block_visits; /* the latter in each */
	enum pairs pairs;
	size_t pair_count; /* visited in one round of a two-CPU benchmark */
	bool sequential;   /* rounds are not shuffled */
	uint32_t samples, warmup;
	bool samples_given;     /* otherwise some benchmarks take fewer */
	uint32_t rounds;        /* the minimum */
	uint32_t rounds_wanted; /* before precision counts, as far as the time budget allows */
	uint32_t rounds_usual;  /* for which the usual time budget has room in any case */
	uint32_t rounds_max;    /* as many may follow for precision; equal to rounds without one */
	uint32_t iterations;    /* grains in a sample; 0: chosen per pair */
	uint32_t precision_ppm; /* 0: none wanted */
	int64_t time_budget_ns; /* 0: the usual one */
	bool budget_ends;       /* it may end the first round too */
	int64_t spread_ns;      /* the minimum rounds last at least this long */
	uint64_t seed;
	const char *preset; /* null: none */
	const char *estimator;
	struct placement placement;
	int nodes[NODES_MOST]; /* on which the points of --nodes have their memory, ascending */
	uint64_t node_bytes[NODES_MOST]; /* that their points take there at once */
	size_t node_count;
	uint64_t bytes;       /* of the memory that its points take, mapped at once */
	enum spared left_out; /* which points the time budget has no room for */
};

/* Makes the plan, and notes what it does otherwise than one might expect. Returns 0; or -1, and a
 * refusal, for what the machine cannot do. */
int plan_make(struct plan *plan, const struct options *options, struct machine *machine,
	      struct notes *notes, struct refusal *refusal);

/* Returns the index of a CPU in plan->cpus; -1 if it is not there. */
int plan_find_cpu(const struct plan *plan, long cpu);

/* Fills `order` with the indexes of plan->visits in the order of a round, and returns the
 * generator, from which the places of the lines are drawn. The same seed gives the same order,
 * whatever was measured before. Benchmarks of pairs without many points visit a pair one right
 * after the other, since together they tell its level. */
struct random plan_order_visits(const struct plan *plan, uint32_t round, uint32_t *order);

/* Lists the visits that are made together with this one, itself first, at most one a block.
 * Returns how many these are. */
size_t plan_list_visits_made_together(const struct plan *plan, size_t visit, size_t *visits);

/* The most threads of a visit to a pair: a third may have to do with its lines. */
enum { PAIR_THREADS = 3 };

/* Returns the CPUs of a visit, ping's first; those of a pair are stored in `pair`, pong last. Ping
 * holds the clock: the lower CPU of a pair in even rounds, the other in odd ones, unless the pairs
 * are ordered. */
const int *plan_visit_cpus(const struct plan *plan, const struct visit *visit, uint32_t round,
			   int pair[PAIR_THREADS], size_t *count);

/* Return the first and the last CPU of a visit, whatever the round. */
int plan_first_cpu(const struct plan *plan, const struct visit *visit);
int plan_last_cpu(const struct plan *plan, const struct visit *visit);

const struct point *plan_visit_point(const struct visit *visit);

/* Returns the samples in a burst, warm-ups included. slow: a unit takes long. */
uint32_t plan_sample_count(const struct plan *plan, bool slow);

/* Returns the most threads that a burst has. */
size_t plan_max_threads(const struct plan *plan);

/* Returns the least time from the beginning of one round to that of the next. */
int64_t plan_round_interval_ns(const struct plan *plan);

/* Returns the time budget asked for, or the usual one of a machine whose rounds are short. */
int64_t plan_least_budget_ns(const struct plan *plan);

/* Prints what --list shows: CPUs, and each benchmark's variants. */
void plan_print_list(FILE *out, const struct machine *machine);

#endif
