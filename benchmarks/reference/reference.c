/*
 * reference.c: core-to-core latency measured the plain way, to hold the agent against.
 *
 *   reference cas|readwrite PING PONG SAMPLES ITERATIONS
 *
 * The two loops are what most tools of this kind time: a C11 compare-exchange in which each side
 * waits for the other's value, and an acquire load in a spin followed by a release store. Compiled
 * code, the OS's clock around each sample, fresh pages per process. Prints the nanoseconds one way
 * of each sample.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

static bool cas;
static int ping_cpu, pong_cpu;
static long samples, iterations;
static double *one_way_ns;
static _Atomic int *first, *second; /* cas uses only the first */
static atomic_int arrived;

static double now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void pin(int cpu)
{
	cpu_set_t mask;

	CPU_ZERO(&mask);
	CPU_SET(cpu, &mask);
	if (sched_setaffinity(0, sizeof mask, &mask) || sched_getcpu() != cpu) {
		fprintf(stderr, "reference: cannot pin to CPU %d\n", cpu);
		exit(1);
	}
}

static void meet(void)
{
	atomic_fetch_add(&arrived, 1);
	while (atomic_load(&arrived) < 2)
		;
}

static void swap(int from, int to, long n)
{
	while (n--) {
		int expected = from;

		while (!atomic_compare_exchange_weak_explicit(
			first, &expected, to, memory_order_relaxed, memory_order_relaxed))
			expected = from;
	}
}

static void answer(_Atomic int *watched, _Atomic int *written, int step, long n)
{
	static _Thread_local int turn;

	while (n--) {
		while (atomic_load_explicit(watched, memory_order_acquire) != turn + step)
			;
		atomic_store_explicit(written, ++turn, memory_order_release);
	}
}

static void *pong(void *unused)
{
	pin(pong_cpu);
	meet();
	if (cas)
		swap(1, 0, samples * iterations);
	else
		answer(first, second, 1, samples * iterations);
	return unused;
}

static void *ping(void *unused)
{
	pin(ping_cpu);
	memset((void *)first, 0, sizeof *first);
	memset((void *)second, 0, sizeof *second);
	meet();
	for (long i = 0; i < samples; i++) {
		double start = now_ns();

		if (cas)
			swap(0, 1, iterations);
		else
			answer(second, first, 0, iterations);
		one_way_ns[i] = (now_ns() - start) / (double)iterations / 2;
	}
	return unused;
}

int main(int argc, char **argv)
{
	pthread_t threads[2];

	if (argc != 6)
		return 2;
	cas = !strcmp(argv[1], "cas");
	ping_cpu = atoi(argv[2]);
	pong_cpu = atoi(argv[3]);
	samples = atol(argv[4]);
	iterations = atol(argv[5]);
	one_way_ns = calloc((size_t)samples, sizeof *one_way_ns);
	char *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (!one_way_ns || pages == MAP_FAILED)
		return 1;
	memset(one_way_ns, 0, (size_t)samples * sizeof *one_way_ns);
	first = (_Atomic int *)pages;
	second = (_Atomic int *)(pages + 4096 + 256);
	pthread_create(&threads[0], NULL, ping, NULL);
	pthread_create(&threads[1], NULL, pong, NULL);
	pthread_join(threads[0], NULL);
	pthread_join(threads[1], NULL);
	for (long i = 0; i < samples; i++)
		printf("%.2f\n", one_way_ns[i]);
	return 0;
}
