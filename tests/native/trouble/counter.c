/*
 * An architecture whose counter is said to tick STATED times a second. Without SCRIPTED it is the
 * OS's clock in nanoseconds, so what is stated may be wrong. With it, each thread sees its own: the
 * i-th stretch between two readings lasts 1,000 x (1 + i * i % 11) ticks, and one tick from 1,200
 * on: the quantum. The OS's clock is ahead by APART_NS on CPU 1, twice as much on CPU 2, and so on.
 */
#define _GNU_SOURCE
#include "native/native.h"

#include <sched.h>
#include <time.h>

#ifndef APART_NS
#define APART_NS 0
#endif

const char arch_name[] = "counter";

const struct variant arch_cas[] = {{.name = NULL}};
const struct variant arch_readwrite[] = {{.name = NULL}};
const struct variant arch_contend[] = {{.name = NULL}};
const struct variant arch_interleave[] = {{.name = NULL}};
const struct variant arch_message[] = {{.name = NULL}};
const struct variant arch_fetch[] = {{.name = NULL}};
flush_fn *const arch_flush = NULL;
const struct variant arch_chase[] = {{.name = NULL}};
const struct variant arch_stream[] = {{.name = NULL}};
const struct variant arch_gemm[] = {{.name = NULL}};

adds_fn *const arch_adds = NULL;

static uint64_t ticks(void)
{
#ifdef SCRIPTED
	static __thread uint64_t now, i;

	now += i < 1200 ? 1000 * (1 + i * i % 11) : 1;
	i++;
	return now;
#else
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_RAW, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec +
	       (uint64_t)(APART_NS) * (uint64_t)sched_getcpu();
#endif
}

int arch_get_clock(struct clock *clock)
{
	*clock = (struct clock){.name = "counter", .ticks_per_second = STATED, .ticks = ticks};
	return 0;
}
