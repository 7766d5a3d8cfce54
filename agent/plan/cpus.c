/* cpus.c: from a CPU list to the CPUs of the plan. */
#include "plan/parts.h"

#include <stdlib.h>

enum { CPU_NUMBER_MAX = (1 << 20) - 1 };

int plan_compare_numbers(const void *a, const void *b)
{
	int left = *(const int *)a, right = *(const int *)b;

	return (left > right) - (left < right);
}

int plan_find_cpu(const struct plan *plan, long cpu)
{
	int wanted = (int)cpu;

	if (cpu < 0 || cpu > CPU_NUMBER_MAX)
		return -1;
	const int *match =
		bsearch(&wanted, plan->cpus, plan->cpu_count, sizeof wanted, plan_compare_numbers);

	return match ? (int)(match - plan->cpus) : -1;
}

/* Reads "3" or "3-5" and moves past it; returns false if there is no such item. */
static bool read_range(const char **next, uint64_t *first, uint64_t *last)
{
	const char *end = text_read_number(*next, CPU_NUMBER_MAX, first);

	*last = *first;
	if (end && *end == '-')
		end = text_read_number(end + 1, CPU_NUMBER_MAX, last);
	*next = end;
	return end && *last >= *first;
}

int plan_refuse_cpu(const struct plan *plan, long cpu, struct refusal *refusal)
{
	struct text usable = {0};

	text_add_cpus(&usable, plan->cpus, plan->cpu_count);
	refuse(refusal, EXIT_CPU, "CPU %ld cannot be used: this process may use %s", cpu,
	       usable.data);
	text_free(&usable);
	return -1;
}

/* Marks each CPU of the list in `wanted`, by its number, and counts them. A CPU that isolcpus= or
 * taskset left out of our affinity is taken if a thread can be bound to it. */
static int mark_list(const struct plan *plan, const char *list, bool *wanted, size_t *count,
		     struct refusal *refusal)
{
	for (const char *next = list;; next++) {
		uint64_t first, last;

		if (!read_range(&next, &first, &last) || (*next && *next != ','))
			return refuse(refusal, EXIT_OPTIONS,
				      "--cpus wants a list like 0-3,8, not '%s'", list);
		for (long cpu = (long)first; cpu <= (long)last; cpu++) {
			if (plan_find_cpu(plan, cpu) < 0 &&
			    !machine_can_use_cpu(plan->machine, (int)cpu))
				return plan_refuse_cpu(plan, cpu, refusal);
			*count += !wanted[cpu];
			wanted[cpu] = true;
		}
		if (!*next)
			return 0;
	}
}

/* Leaves a malformed list to visits.c, which reads it later and refuses it. */
int plan_add_paired_cpus(struct plan *plan, const char *list, struct refusal *refusal)
{
	uint64_t cpu;

	for (const char *next = list; (next = text_read_number(next, CPU_NUMBER_MAX, &cpu));
	     next += *next != '\0') {
		if (plan_find_cpu(plan, (long)cpu) >= 0 ||
		    !machine_can_use_cpu(plan->machine, (int)cpu))
			continue;
		int *cpus = realloc(plan->cpus, (plan->cpu_count + 1) * sizeof *cpus);

		if (!cpus)
			return refuse(refusal, EXIT_OTHER, "out of memory");
		cpus[plan->cpu_count++] = (int)cpu;
		qsort(cpus, plan->cpu_count, sizeof *cpus, plan_compare_numbers);
		plan->cpus = cpus;
	}
	return 0;
}

int plan_choose_cpus(struct plan *plan, const char *list, struct refusal *refusal)
{
	bool *wanted = calloc(CPU_NUMBER_MAX + 1, sizeof *wanted);
	size_t count = 0, chosen = 0;

	if (!wanted)
		return refuse(refusal, EXIT_OTHER, "out of memory");
	int result = mark_list(plan, list, wanted, &count, refusal);
	int *cpus = result ? NULL : calloc(count, sizeof *cpus);

	if (!result && !cpus)
		result = refuse(refusal, EXIT_OTHER, "out of memory");
	for (int cpu = 0; cpus && cpu <= CPU_NUMBER_MAX; cpu++)
		if (wanted[cpu])
			cpus[chosen++] = cpu;
	if (cpus) {
		free(plan->cpus);
		plan->cpus = cpus;
		plan->cpu_count = count;
	}
	free(wanted);
	return result;
}
