/* worker.h: what the threads of a burst and their supervisor, burst.c, share. */
#ifndef FLEET_WORKER_H
#define FLEET_WORKER_H

#include "burst.h"
#include "lines.h"

#include <pthread.h>

/* Everything a worker writes lies on lines of its own. */
struct worker {
	_Alignas(LINE_BYTES) pthread_t thread;
	struct burst *burst;
	const char *name;
	int cpu;
	bool started;
	struct side side;
	const char *doing; /* what gave the error, if there is one */
	int error;
	int cpus[2];
	bool switches_known;
	int64_t switches[2][2]; /* before and after */
	bool ran_known;
	int64_t ran_ns[2], at_ns[2]; /* CPU time had, and the time then: before and after */
	int64_t thread_name;         /* os_thread_self(), once it is bound */
	uint32_t bound;              /* 1: thread_name holds */
	uint32_t progress;           /* counts chunks of turns */
	uint32_t out;                /* 1: touches nothing of the burst any more */
};

struct burst {
	_Alignas(LINE_BYTES) struct burst_order order;
	struct lines lines;
	struct burst *next_abandoned;
	uint64_t *stamps; /* order.samples + 1, written by ping */
	int done_fd;      /* a worker that is out writes a byte here */
	bool disturbed;   /* by a thread of an abandoned burst */
	struct worker ping, pong;
	_Alignas(LINE_BYTES) uint32_t arrived;
	_Alignas(LINE_BYTES) uint32_t give_up;
};

/* The thread: binds itself, meets the other, plays its part. Its argument is its struct worker. */
void *worker_run(void *worker);

/* Tells both workers to leave at the next occasion outside a hot loop. */
void worker_give_up(struct burst *burst);

static inline bool burst_has_pong(const struct burst *burst)
{
	return burst->order.benchmark->lines > 0;
}

#endif
