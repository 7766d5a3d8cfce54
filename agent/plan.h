/* plan.h: what is measured, resolved against this machine. */
#ifndef FLEET_PLAN_H
#define FLEET_PLAN_H

#include "bench.h"
#include "lines.h"
#include "options.h"
#include "precision.h"
#include "random.h"

/* A benchmark in one of its variants. */
struct choice {
	const struct benchmark *benchmark;
	const struct variant *variant;
};

/*
 * A pair of CPUs that every round of a choice visits once; a == b where one CPU is all it takes.
 * There may be a million of these, so what a visit remembers must stay small.
 */
struct visit {
	const struct choice *choice;
	int a, b;
	uint32_t iterations;   /* 0: still to be chosen */
	uint8_t failed_in_row; /* bursts without a number since the last with one; does not wrap */
	uint32_t done;         /* so many rounds an earlier agent has made, from the first on */
	struct tally medians;  /* of its bursts, in ticks a round trip; kept for a precision only */
};

enum pairs { PAIRS_HALF, PAIRS_ORDERED, PAIRS_LISTED };

struct plan {
	int *cpus; /* ascending */
	size_t cpu_count;
	struct choice *choices;
	size_t choice_count;
	struct visit *visits;
	size_t visit_count;
	uint32_t *order; /* of the visits in the present round */
	enum pairs pairs;
	size_t pair_count;   /* visited in one round of a two-CPU benchmark */
	uint64_t done;       /* visits that an earlier agent has made, in all rounds */
	uint64_t done_least; /* of them in the least rounds */
	bool sequential;     /* rounds are not shuffled */
	uint32_t samples, warmup;
	uint32_t rounds;        /* the least */
	uint32_t rounds_max;    /* as many may follow for precision; equal to rounds without one */
	uint32_t iterations;    /* 0: chosen per pair */
	uint32_t precision_ppm; /* 0: none wanted */
	int64_t time_budget_ns; /* 0: the usual one */
	int64_t spread_ns;      /* the least rounds last at least this long */
	uint64_t seed;
	const char *preset; /* null: none */
	const char *estimator;
	struct placement placement;
};

/* `cpus`: those this process may use; the plan takes them over. Refuses what this machine cannot
 * do. */
int plan_make(struct plan *plan, const struct options *options, int *cpus, size_t cpu_count,
	      struct refusal *refusal);

/* Where a CPU stands in plan->cpus; -1 if it does not. */
int plan_find_cpu(const struct plan *plan, long cpu);

/*
 * Shuffles plan->order for a round and hands out the generator that did, for the places of the
 * lines. The same seed gives the same order, whatever was measured before.
 */
struct random plan_shuffle(struct plan *plan, uint32_t round);

/* Which CPU holds the clock: `a` in even rounds, `b` in odd ones, unless both ways are visited
 * anyway. */
int plan_ping(const struct plan *plan, const struct visit *visit, uint32_t round);
int plan_pong(const struct plan *plan, const struct visit *visit, uint32_t round);

/* Prints what --list shows: CPUs, and each benchmark's variants. */
void plan_list(FILE *out, const int *cpus, size_t cpu_count);

void plan_free(struct plan *plan);

#endif
