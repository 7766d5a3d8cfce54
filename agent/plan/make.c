/* make.c: from the options to a plan for this machine. */
#include "plan/parts.h"

#include "plan/forecast.h"

#include <string.h>

enum {
	ROUNDS_FOR_PRECISION = 1000,
	ROUNDS_LEAST = 3, /* of a usual run, if these take longer than the usual budget */
	BUDGET_TIMES = 2, /* the rounds asked for, likewise */
};

static int check_node(const struct machine *machine, int64_t node, struct refusal *refusal)
{
	int err = node == NOT_GIVEN ? 0 : machine_check_node(machine, (int)node);

	if (!err)
		return 0;
	if (plan_refuse_policies(machine, "node", refusal))
		return -1;
	return refuse(refusal, EXIT_CPU, "NUMA node %d cannot be used: %s", (int)node,
		      strerror(-err));
}

static struct placement make_placement(const struct options *options)
{
	return (struct placement){.fixed = !strcmp(options->line, "fixed"),
				  .owner_pong = !strcmp(options->owner, "pong"),
				  .huge_page = options_has_pages(options, "huge"),
				  .node = (int)options->node,
				  .separation_bytes = (uint32_t)options->separation};
}

static void add_quota_note(const struct plan *plan, struct notes *notes)
{
	double most = cost_most_quota_factor(plan);

	if (most > 1)
		notes_add(notes, "CPU time is limited (%s): bursts take up to %.3g times as long.",
			  plan->machine->limits.cpu_time, most);
}

static void set_rounds(struct plan *plan, const struct options *options)
{
	uint32_t rounds = (uint32_t)options->rounds;

	plan->rounds = plan->rounds_wanted = plan->rounds_max = rounds;
	plan->rounds_usual = BUDGET_TIMES * rounds;
	if (!options->precision_ppm)
		return;
	if (rounds < ROUNDS_FOR_PRECISION)
		plan->rounds_max = ROUNDS_FOR_PRECISION;
	if (options->rounds_given)
		return;
	plan->rounds = options->budget_ends ? 1 : ROUNDS_LEAST;
	plan->rounds_usual = ROUNDS_LEAST;
}

int plan_make(struct plan *plan, const struct options *options, struct machine *machine,
	      struct notes *notes, struct refusal *refusal)
{
	*plan = (struct plan){.machine = machine,
			      .cpus = plan_copy_cpus(machine->cpus, machine->cpu_count),
			      .cpu_count = machine->cpu_count,
			      .sequential = !strcmp(options->order, "sequential"),
			      .samples = (uint32_t)options->samples,
			      .samples_given = options->samples_given,
			      .warmup = (uint32_t)options->warmup,
			      .iterations = (uint32_t)options->iterations,
			      .precision_ppm = (uint32_t)options->precision_ppm,
			      .time_budget_ns = options->time_budget_ns,
			      .budget_ends = options->budget_ends,
			      .spread_ns = options->spread_ns,
			      .seed = options->seed,
			      .preset = options->preset,
			      .estimator = options->estimator,
			      .placement = make_placement(options)};
	set_rounds(plan, options);
	if (!plan->cpus)
		return refuse(refusal, EXIT_OTHER, "out of memory");
	if (options->cpus ? plan_choose_cpus(plan, options->cpus, refusal)
			  : plan_add_paired_cpus(plan, options->pairs, refusal))
		return -1;
	if (plan->cpu_count > UINT16_MAX)
		return refuse(refusal, EXIT_OPTIONS, "--cpus: at most %d CPUs at once", UINT16_MAX);
	if (plan_choose_benchmarks(plan, options, notes, refusal) ||
	    check_node(machine, options->node, refusal) ||
	    plan_choose_nodes(plan, options, notes, refusal) ||
	    plan_make_groups(plan, options, refusal) ||
	    plan_make_points(plan, options, notes, refusal) ||
	    plan_make_visits(plan, options, refusal) ||
	    plan_shorten(plan, options, notes, refusal) ||
	    plan_reserve_memory(plan, options, notes, refusal))
		return -1;
	add_quota_note(plan, notes);
	return 0;
}

void plan_print_list(FILE *out, const struct machine *machine)
{
	struct text text = {0};

	text_add_cpus(&text, machine->cpus, machine->cpu_count);
	fprintf(out, "cpus       %s\n", text.data);
	for (size_t b = 0; bench_all[b]; b++) {
		text_clear(&text);
		plan_add_variants(&text, bench_all[b], machine->features);
		fprintf(out, "%-10s %s\n", bench_all[b]->name, text.data);
	}
	text_free(&text);
}
