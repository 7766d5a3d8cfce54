/* cost.c: see cost.h. All constants are of a virtual machine with two CPUs. */
#include "plan/cost.h"

/* Seconds of a burst beside its samples, and more for each byte that one of its threads works on;
 * of a unit where somebody says how many make a sample, and in trials. */
static const struct usual {
	const struct benchmark *benchmark;
	double burst_s, byte_s, unit_s;
} costs[] = {
	{&bench_chase, 0.0006, 1.0e-9, 3e-9},
	{&bench_bandwidth, 0.0003, 4.0e-10, 4e-11},
	{&bench_loaded, 0.0006, 1.0e-10, 1e-7},
	{&bench_gemm, 0.0018, 1.2e-10, 2e-11},
	{&bench_interleave, 0.0005, 0, 4e-11},
	{&bench_clock, 0.0005, 0, 2e-8},
	{NULL, 0.0005, 0, 2e-7},
};

enum { TRIAL_SAMPLES = 4 }; /* at most */

static const double thread_s = 5e-5, written_byte_s = 1.5e-9;

static const struct usual *usual_of(const struct benchmark *benchmark)
{
	const struct usual *usual = costs;

	while (usual->benchmark && usual->benchmark != benchmark)
		usual++;
	return usual;
}

/* Of so many grains; where nobody says how many, as long as the benchmark wants it. */
static double sample_s(const struct visit *visit, uint32_t grains)
{
	const struct benchmark *benchmark = visit->choice->benchmark;

	if (!grains || benchmark->single)
		return benchmark->sample_us * 1e-6;
	return grains * usual_of(benchmark)->unit_s *
	       (double)bench_grain(benchmark, plan_point(visit));
}

double cost_stretch(const struct plan *plan, const struct visit *visit)
{
	bool is_pair = visit->choice->benchmark->shape == SHAPE_PAIR;
	double busy = plan_point(visit)->threads, cpus = plan->machine->limits.cpus;

	busy = busy ? busy : 1 + is_pair;
	return cpus && busy > cpus ? busy / cpus : 1;
}

double cost_burst_s(const struct plan *plan, const struct visit *visit)
{
	const struct usual *usual = usual_of(visit->choice->benchmark);
	const struct point *point = plan_point(visit);

	return cost_stretch(plan, visit) *
	       (usual->burst_s + usual->byte_s * (double)point->bytes + point->threads * thread_s +
		plan_samples(plan, false) * sample_s(visit, plan->iterations));
}

/* A few samples of the fewest grains. */
static double cost_trial_s(const struct plan *plan, const struct visit *visit)
{
	const struct benchmark *benchmark = visit->choice->benchmark;
	bool given = benchmark->single ? !benchmark->reset : plan->iterations;

	return given ? 0
		     : cost_stretch(plan, visit) * TRIAL_SAMPLES *
			       sample_s(visit, benchmark->least);
}

static bool begins_point(const struct plan *plan, size_t i)
{
	return !i || plan_point(&plan->visits[i]) != plan_point(&plan->visits[i - 1]);
}

double cost_points_s(const struct plan *plan)
{
	double total_s = 0;

	for (size_t i = 0; i < plan->visit_count; i++)
		if (begins_point(plan, i))
			total_s += cost_burst_s(plan, &plan->visits[i]);
	return total_s;
}

struct cost cost_of(const struct plan *plan, const struct choice *choice)
{
	struct cost cost = {0};
	double burst_s = 0, once_s = 0, most_s = 0;

	for (size_t i = 0; i < plan->visit_count; i++) {
		const struct visit *visit = &plan->visits[i];
		const struct point *point = plan_point(visit);
		double written = (double)point->arena_bytes +
				 (double)point_arena_bytes(point, 1) * (point->threads - 1);

		if (point->memory_node != NO_NODE)
			written *= (double)plan->node_count;
		if (choice && visit->choice != choice)
			continue;
		if (!cost.visits || begins_point(plan, i)) {
			burst_s = cost_burst_s(plan, visit);
			once_s = cost_trial_s(plan, visit);
		}
		cost.visits++;
		cost.round_s += burst_s;
		cost.once_s += once_s;
		written *= cost_stretch(plan, visit) * written_byte_s;
		most_s = written > most_s ? written : most_s;
	}
	cost.round_s += most_s;
	return cost;
}
