/*
 * card.c: the agent's card of a machine and of numbers that stdin has: its model on a line, how
 * many CPUs, a line for each (package node die llc cluster core capacity), then lines of two
 * places, ns, and half the interval as a share.
 */
#include "emit/card.h"
#include "emit/emit.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { CPUS = 512 };

static struct cpu_facts known[CPUS];
static int cpus[CPUS];
static struct visit visits[CPUS * CPUS / 2];
static double found[CPUS * CPUS / 2];
static struct level levels[CPUS * CPUS / 2];

int machine_get_cpu(const struct machine *machine, int cpu, struct cpu_facts *facts)
{
	(void)machine;
	*facts = known[cpu];
	return 0;
}

const struct cpu_cache *last_data_cache(const struct cpu_facts *facts)
{
	return facts->cache_count ? facts->caches : NULL;
}

int os_setting_read(enum setting setting, int cpu, char value[SETTING_ROOM])
{
	(void)setting;
	(void)cpu;
	(void)value;
	return -ENOTSUP;
}

int main(void)
{
	static const struct benchmark benchmark = {.name = "cas",
						   .heading = "one-way latency in ns"};
	static const struct variant variant = {.name = "cmpxchg"};
	const struct choice choice = {.benchmark = &benchmark, .variant = &variant};
	struct plan plan = {.cpus = cpus, .visits = visits};
	const struct run run = {.plan = &plan};
	struct tool_matrix matrix = {&choice, cpus, 0, NULL, 0, 0, &run, found, levels};
	struct text page = {0};
	char model[CPU_NAME_ROOM + 1] = "";
	double half;
	unsigned int a, b;

	if (!fgets(model, sizeof model, stdin) || scanf("%zu", &plan.cpu_count) != 1)
		return 1;
	model[strcspn(model, "\n")] = '\0';
	for (size_t i = 0; i < plan.cpu_count; i++) {
		struct cpu_facts *facts = &known[i];

		cpus[i] = (int)i;
		strcpy(facts->name, model);
		facts->cache_count = 1;
		if (scanf("%ld %ld %ld %ld %ld %ld %ld", &facts->package, &facts->node, &facts->die,
			  &facts->caches[0].group, &facts->cluster, &facts->core,
			  &facts->capacity) != 7)
			return 1;
	}
	for (size_t i = 0; scanf("%u %u %lf %lf", &a, &b, &found[i], &half) == 4; i++) {
		visits[i] = (struct visit){&choice, (uint16_t)a, (uint16_t)b, 0};
		levels[i].half_ppm = half < 0 ? UINT32_MAX : (uint32_t)(half * 1e6 + 0.5);
		plan.visit_count = i + 1;
	}
	matrix.count = plan.cpu_count;
	card_draw(&page, &matrix);
	return fputs(page.data, stdout) < 0;
}
