/* worker.h: what the threads of a burst and their supervisor share. */
#ifndef FLEET_BURST_WORKER_H
#define FLEET_BURST_WORKER_H

#include "burst/burst.h"
#include "machine/arena.h"
#include "machine/counters.h"
#include "machine/frequency.h"
#include "machine/lines.h"

#include <pthread.h>
#include <time.h>

/* The counters of a worker and their counts. */
struct counting {
	int opened[COUNTERS_MAX];
	struct event_count counts[COUNTERS_MAX];
};

/* A thread's CPU time, and the time of its reading. */
struct cpu_time {
	int64_t ran_ns, at_ns; /* ran_ns below 0: not known */
};

/* Everything a worker writes lies on lines of its own. */
struct worker {
	_Alignas(LINE_BYTES) pthread_t thread;
	struct burst *burst;
	struct side *side;
	const char *name;
	int cpu;
	bool started;
	struct arena *arena; /* its CPU's arena; null: it needs none */
	struct arena
		*walk;     /* its second arena, to drive lines out of caches; null: it needs none */
	uint64_t *stamps;  /* samples_most + 1 of them; null: it takes no times */
	const char *doing; /* the step that failed, if one did */
	int error;
	char place[PLACE_ROOM]; /* the CPU it was found on instead of its own */
	int cpus[2];
	bool switches_known;
	int64_t switches[3][2]; /* just before the samples, just after, and after yielding */
	bool ran_known;
	int64_t ran_ns[3], at_ns[3]; /* CPU time, and the time of its reading */
	int waits;                   /* its account of waiting; below 0: there is none */
	int64_t waited_ns[2];        /* before the samples, and after yielding */
	uint32_t core_mhz[2];        /* before and after; 0: not known */
	bool clocked;                /* the next two are known */
	struct additions behind;     /* for frequency_measure_brief() */
	double *sample_mhz;          /* behind each sample; null: not measured */
	int64_t *lost_ns; /* of each sample: time without the CPU; null: only known of all samples
			     together */
	int64_t grain_lost_ns; /* time without the CPU in the last grain that was prepared */
	clockid_t cpu_clock;   /* of its CPU time, once it is bound */
	bool has_cpu_clock;
	int64_t thread_name; /* os_thread_id(), once it is bound */
	uint32_t bound;      /* 1: thread_name and cpu_clock hold */
	uint32_t arrived;    /* how many gates it has come to */
	int64_t begin_ns;    /* of now_ns(), when its first sample began */
	uint32_t progress;   /* counts chunks of work */
	uint32_t *done;      /* units of each other thread before and after each sample; null: not
				counted */
	struct cpu_time *beside; /* of each other thread as the samples begin, then of each as they
				    end; null as done */
	uint32_t takes;          /* how often it has worked beside ping */
	struct counting *counting; /* null: nothing is counted in it */
	uint32_t out;              /* 1: touches nothing of the burst any more */
};

struct burst {
	_Alignas(LINE_BYTES) struct burst_order order; /* during a trial that of its samples */
	uint32_t samples, samples_most;                /* to take after a trial; room for so many */
	bool trying; /* a trial has begun that is not judged yet */
	struct trial trial;
	struct lines lines;
	char astray[96]; /* where lines lay before the samples, if not where they were wanted */
	struct burst *next_abandoned;
	int done_fd;    /* a worker that is out writes a byte here */
	bool accounts;  /* accounts of waiting are opened */
	bool disturbed; /* a thread of an abandoned burst ran meanwhile */
	size_t count;
	struct side *sides; /* of each worker, ping's first */
	struct worker *workers;
	struct counting *counting;              /* of each worker; null: nothing is counted */
	_Alignas(LINE_BYTES) uint32_t open;     /* how many gates all have come to */
	_Alignas(LINE_BYTES) uint32_t finished; /* workers with all times, or ping's turns */
	_Alignas(LINE_BYTES) uint32_t give_up;
};

/* Allocates what a worker notes of each sample; freed with the burst. 0 or -ENOMEM. */
int worker_allocate(struct worker *worker);

/* The thread: binds itself, meets the others, plays its part. Its argument is its struct worker. */
void *worker_run(void *worker);

/* Gives each side its arena, which may be shared, and its second arena. 0 or -errno. */
int burst_acquire_arenas(struct burst *burst);

/* Leaves a worker's arenas to its thread, which may still use them. */
void burst_abandon_arenas(const struct worker *worker);

/* Tells all workers to leave at the next occasion outside a hot loop. */
void burst_give_up(struct burst *burst);

/* Returns the CPU time that a thread, which may be another, has had so far; below 0: not known. */
int64_t worker_read_cpu_ns(const struct worker *worker);

/* Reports whether a thread was without its CPU for more than a tenth of a typical sample; if so,
 * says which in result->failed. */
bool burst_is_disturbed(const struct burst *burst, struct burst_result *result);

/* Returns when the first of the threads that take times began its samples. */
int64_t burst_find_first_begin_ns(const struct burst *burst);

/* Reports whether a burst watched for so long makes no progress because other work holds a thread's
 * CPU; if so, says why in result->failed. */
bool burst_is_starving(const struct burst *burst, int64_t watched_ns, struct burst_result *result);

/* Reads what the workers left; returns false, and why in result->failed, if it is not sound. */
bool burst_read_result(const struct burst *burst, struct burst_result *result);

#endif
