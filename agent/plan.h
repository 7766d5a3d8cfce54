/* plan.h: what is measured, resolved against this machine. */
#ifndef FLEET_PLAN_H
#define FLEET_PLAN_H

#include "bench.h"
#include "lines.h"
#include "options.h"
#include "random.h"

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
};

/*
 * CPUs that every round visits once at a point of a choice. There may be a million of these, so
 * what a visit remembers must stay small.
 */
struct visit {
	const struct choice *choice;
	uint32_t iterations;   /* grains in a sample; 0: still to be chosen */
	uint32_t done;         /* so many rounds an earlier agent has made, from the first on */
	uint16_t a, b;         /* where its CPUs stand in plan->cpus; both: which of plan->groups */
	uint16_t point;        /* of the choice's */
	uint8_t failed_in_row; /* bursts without a number since the last with one; does not wrap */
	bool slow;             /* a single grain takes long: few samples do */
	bool precise;          /* its level is known to the precision wanted */
	bool fair;             /* and to 2.5 times it */
	bool left_out;         /* the time budget had no room for it: not visited any more */
	uint8_t levels;        /* it is at so many; 0: not known yet */
	float took_s;          /* its last burst, with trials; 0: not made by this agent */
	uint16_t needed;       /* bursts that the precision takes, judged by those so far */
	uint16_t needed_fair;  /* and 2.5 times it */
	uint16_t least_fair;   /* and this, at the least: if bursts were independent */
	uint32_t kept, room;   /* of medians */
	float *medians;        /* of its bursts, in ticks a grain; kept for a precision only */
};

enum pairs { PAIRS_HALF, PAIRS_ORDERED, PAIRS_LISTED };

struct plan {
	int *cpus; /* ascending */
	size_t cpu_count;
	int64_t *cores; /* of each CPU; NOT_TOLD, or null, if unknown */
	struct choice *choices;
	size_t choice_count;
	struct group *groups;
	size_t group_count;
	size_t named_groups;    /* the first of them: those that --threads names */
	struct cpu_facts facts; /* of the first CPU */
	uint64_t cache_bytes;   /* of the last-level caches of all CPUs; 0: unknown */
	struct visit *visits;
	size_t visit_count;
	uint32_t *order; /* of the visits in the present round */
	size_t *blocks;  /* where the visits to all pairs at one point begin, of each such point */
	size_t block_count, block_visits; /* the latter in each */
	enum pairs pairs;
	size_t pair_count;   /* visited in one round of a two-CPU benchmark */
	uint64_t done;       /* visits that an earlier agent has made, in all rounds */
	uint64_t done_least; /* of them in the least rounds */
	bool sequential;     /* rounds are not shuffled */
	uint32_t samples, warmup;
	bool samples_given;     /* otherwise some benchmarks take fewer */
	uint32_t rounds;        /* the least */
	uint32_t rounds_wanted; /* before precision counts, as far as the time budget allows */
	uint32_t rounds_max;    /* as many may follow for precision; equal to rounds without one */
	uint32_t iterations;    /* grains in a sample; 0: chosen per pair */
	uint32_t precision_ppm; /* 0: none wanted */
	int64_t time_budget_ns; /* 0: the usual one */
	bool budget_ends;       /* it may end the first round too */
	int64_t spread_ns;      /* the least rounds last at least this long */
	uint64_t seed;
	const char *preset; /* null: none */
	const char *estimator;
	struct placement placement;
};

/*
 * `cpus`: those this process may use; the plan takes them over. Refuses what this machine cannot
 * do, and notes what it does otherwise than one might expect.
 */
int plan_make(struct plan *plan, const struct options *options, int *cpus, size_t cpu_count,
	      struct notes *notes, struct refusal *refusal);

/* Where a CPU stands in plan->cpus; -1 if it does not. */
int plan_find_cpu(const struct plan *plan, long cpu);

/*
 * Shuffles plan->order for a round and hands out the generator that did, for the places of the
 * lines. The same seed gives the same order, whatever was measured before. Benchmarks of pairs
 * without many points visit a pair one right after the other, since together they tell its level.
 */
struct random plan_shuffle(struct plan *plan, uint32_t round);

/* The most threads of a visit to a pair: a third may have to do with its lines. */
enum { PAIR_THREADS = 3 };

/*
 * The CPUs of a visit, ping's first; a pair is put together in `pair`, pong last. Ping holds the
 * clock: of a pair the lower CPU in even rounds, the other in odd ones, unless both ways are
 * visited anyway.
 */
const int *plan_cpus(const struct plan *plan, const struct visit *visit, uint32_t round,
		     int pair[PAIR_THREADS], size_t *count);

/* Its first CPU and its last, whatever the round. */
int plan_first_cpu(const struct plan *plan, const struct visit *visit);
int plan_last_cpu(const struct plan *plan, const struct visit *visit);

const struct point *plan_point(const struct visit *visit);

/* Units in a sample; 0: still to be chosen. */
uint64_t plan_units(const struct visit *visit);

/* Samples in a burst of this benchmark, warm-ups left out, where no unit takes long. */
uint32_t plan_samples_of(const struct plan *plan, const struct benchmark *benchmark);

/* Samples in a burst, warm-ups included. */
uint32_t plan_samples(const struct plan *plan, const struct visit *visit);

/* The most threads a burst has. */
size_t plan_threads_most(const struct plan *plan);

/* Prints what --list shows: CPUs, and each benchmark's variants. */
void plan_list(FILE *out, const int *cpus, size_t cpu_count);

void plan_free(struct plan *plan);

#endif
