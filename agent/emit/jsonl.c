/* jsonl.c: the wire, JSON Lines: every record and key as docs/wire.md lists them. */
#include "base/build.h"
#include "emit/emit.h"
#include "emit/json.h"

#include "base/stop.h"
#include "machine/facts.h"

#include <unistd.h>

static void add_sampling(const struct plan *plan)
{
	json_count_or_null("rounds_max", plan->precision_ppm ? plan->rounds_max : 0);
	json_count_or_null("precision_ppm", plan->precision_ppm);
	json_count_or_null("time_budget_ms", (uint64_t)(plan->time_budget_ns / NS_PER_MS));
	json_count("spread_ms", (uint64_t)(plan->spread_ns / NS_PER_MS));
	json_string("preset", plan->preset);
	json_string("order", plan->sequential ? "sequential" : "shuffled");
	json_string("estimator", plan->estimator);
}

static void add_placement(const struct placement *placement)
{
	json_string("line", placement->fixed ? "fixed" : "fresh");
	json_string("owner", placement->owner_pong ? "pong" : "ping");
	json_number_or_null("node", placement->node);
	json_count_or_null("separation_bytes", placement->separation_bytes);
	json_flag("huge_page", placement->huge_page);
}

/* Adds the names of the points, if the benchmark has any. */
static void add_point_names(const struct choice *choice)
{
	if (!choice->points[0].name[0])
		return;
	json_open("points", '[');
	for (size_t i = 0; i < choice->point_count; i++)
		json_string(NULL, choice->points[i].name);
	json_close(']');
}

static void add_plan(const struct run *run)
{
	const struct plan *plan = run->plan;

	json_open("plan", '{');
	json_open("benchmarks", '[');
	for (size_t i = 0; i < plan->choice_count; i++) {
		json_open(NULL, '{');
		json_string("benchmark", plan->choices[i].benchmark->name);
		json_string("variant", plan->choices[i].variant->name);
		add_point_names(&plan->choices[i]);
		json_count("samples", plan->samples);
		json_close('}');
	}
	json_close(']');
	json_count("samples", plan->samples);
	json_count_or_null("iterations", plan->iterations);
	json_count("rounds", plan->rounds);
	json_count("warmup", plan->warmup);
	json_string("pairs", plan->pairs == PAIRS_LISTED    ? "listed"
			     : plan->pairs == PAIRS_ORDERED ? "ordered"
							    : "half");
	add_sampling(plan);
	add_placement(&plan->placement);
	json_cpus("nodes", plan->nodes, plan->node_count);
	json_string("governor", run->governor);
	json_string("boost", run->boost);
	json_close('}');
}

static void add_machine(const struct run *run)
{
	const struct clock_facts *clock = run->clock;

	json_string("os", os_name);
	json_string("arch", arch_name);
	json_string("compiler", FLEET_COMPILER);
	json_string("cflags", FLEET_CFLAGS);
	json_count("pid", (uint64_t)getpid());
	json_string("clock", clock->clock.name);
	json_count("ticks_per_second", clock->clock.ticks_per_second);
	json_count("clock_cost_ticks", clock->cost_ticks);
	json_count("clock_quantum_ticks", clock->clock.quantum_ticks);
	json_string("clock_note", clock->clock.note);
	if (clock->rate_checked)
		json_number("rate_error_ppm", clock->rate_error_ppm);
	else
		json_null("rate_error_ppm");
	json_count("line_bytes", LINE_BYTES);
	json_count("page_bytes", os_page_bytes());
	json_cpus("cpus", run->plan->cpus, run->plan->cpu_count);
	json_open("core_mhz", '[');
	for (size_t i = 0; i < run->plan->cpu_count; i++)
		json_count_or_null(NULL, run->core_mhz[i]);
	json_close(']');
	json_open("features", '[');
	for (const struct feature_name *feature = machine_features; feature->name; feature++)
		if (run->features & feature->bit)
			json_string(NULL, feature->name);
	json_close(']');
	json_count_or_null("priority", (uint64_t)run->priority);
}

/* Adds the counters asked for, and why some are not counted; nothing if none were asked for. */
static void add_counters(const struct counters *counters)
{
	if (!counters)
		return;
	json_open("counters", '[');
	for (size_t i = 0; i < counters->count; i++) {
		const struct counter *counter = &counters->counter[i];

		json_open(NULL, '{');
		json_string("event", counter->name);
		json_count("type", counter->event.type);
		json_count("config", counter->event.config);
		json_flag("kernel", counter->event.kernel);
		json_string("refused", counter->refused);
		json_close('}');
	}
	json_close(']');
}

/* Adds each benchmark once, though it may be measured with several variants. */
static void add_benchmarks(const struct plan *plan)
{
	const struct benchmark *last = NULL;

	json_open("benchmarks", '[');
	for (size_t i = 0; i < plan->choice_count; i++) {
		if (plan->choices[i].benchmark != last)
			emit_benchmark(plan->choices[i].benchmark, false);
		last = plan->choices[i].benchmark;
	}
	json_close(']');
}

static void write_hello_record(const struct run *run)
{
	const struct plan *plan = run->plan;

	json_begin("hello");
	json_count("protocol", 1);
	json_string("build", FLEET_BUILD_ID);
	json_string("agent", FLEET_AGENT_VERSION);
	add_machine(run);
	json_count("seed", plan->seed);
	add_plan(run);
	json_count("pairs", plan->pair_count);
	json_count("done", run->done);
	json_count("bursts", (uint64_t)plan->rounds * plan->visit_count - run->done_minimum);
	json_count("bursts_max", (uint64_t)plan->rounds_max * plan->visit_count - run->done);
	json_count("monotonic_ns", (uint64_t)run->start_ns);
	json_number_or_null("memory_kills", plan->machine->limits.kills);
	add_counters(run->counters);
	add_benchmarks(plan);
	json_write_record();
}

/* Adds the point and its parameters, if the benchmark has any. */
static void add_point(const struct benchmark *benchmark, const struct point *point)
{
	if (!point->name[0])
		return;
	json_string("point", point->name);
	json_string("unit", benchmark->unit);
	emit_parameters(benchmark, point);
}

static void begin_record(const char *record, const struct report *report)
{
	const struct choice *choice = report->visit->choice;

	json_begin(record);
	json_string("benchmark", choice->benchmark->name);
	json_string("variant", choice->variant->name);
	add_point(choice->benchmark, plan_visit_point(report->visit));
	json_count("round", report->round);
	json_number("ping", report->ping);
	json_number("pong", report->pong);
	if (report->attempt)
		json_count("attempt", report->attempt);
}

static void add_pair_or_null(const char *key, bool is_known, const uint32_t pair[2])
{
	if (is_known)
		json_counts(key, (uint64_t[]){pair[0], pair[1]}, 2);
	else
		json_null(key);
}

/* Adds how much of their CPUs the threads had. */
static void add_cpu_shares(const struct burst_result *result)
{
	if (result->switches_known)
		json_numbers("switches", result->switches, 4);
	else
		json_null("switches");
	add_pair_or_null("ran_ppm", result->ran_known, result->ran_ppm);
	add_pair_or_null("steal_ppm", result->steal_known, result->steal_ppm);
}

static void add_lines(const struct burst_result *result)
{
	const struct line_place *first = &result->lines[0], *second = &result->lines[1];

	if (!result->line_count) {
		json_null("line_page");
		json_null("line_offset");
		json_null("line_node");
		json_null("line_physical");
		return;
	}
	json_count("line_page", first->page);
	json_count("line_offset", first->offset);
	json_number_or_null("line_node", first->node);
	json_count_or_null("line_physical", first->physical);
	if (result->line_count > 1) {
		json_count("line2_page", second->page);
		json_count("line2_offset", second->offset);
	}
}

/* Adds the ticks of all threads but ping. */
static void add_other_ticks(const struct burst_result *result)
{
	json_open("other_ticks", '[');
	for (size_t i = 1; i < result->timed; i++)
		json_counts(NULL, result->ticks + i * result->samples, result->samples);
	json_close(']');
}

/* Adds the ticks of all threads but ping, and how far apart they began. */
static void add_threads(const struct report *report)
{
	const struct burst_result *result = report->result;

	add_other_ticks(result);
	if (!report->visit->choice->benchmark->sample_ticks)
		json_numbers("begin_ns", result->begin_ns, result->timed);
}

static void add_units(const struct burst_result *result)
{
	json_open("other_units", '[');
	for (size_t i = 0; i < result->counted_others; i++)
		json_counts(NULL, result->other_units + i * result->samples, result->samples);
	json_close(']');
}

/* Adds each counter of each thread, in the order of the CPUs; null if it was not counted there. */
static void add_counts(const struct run *run, const struct report *report)
{
	const struct event_count *count = report->result->counts;

	if (!report->result->counted)
		return;
	json_open("counters", '[');
	for (size_t thread = 0; thread < report->cpu_count; thread++) {
		json_open(NULL, '[');
		for (size_t i = 0; i < run->counters->count; i++, count++)
			if (count->enabled_ns)
				json_counts(NULL,
					    (uint64_t[]){count->count, count->enabled_ns,
							 count->running_ns},
					    3);
			else
				json_null(NULL);
		json_close(']');
	}
	json_close(']');
}

static void write_burst_record(const struct run *run, const struct report *report)
{
	const struct benchmark *benchmark = report->visit->choice->benchmark;
	const struct burst_result *result = report->result;

	begin_record("burst", report);
	json_count("iterations", report->units);
	json_count("warmup", run->plan->warmup);
	json_counts("ticks", result->ticks, result->samples);
	if (benchmark->all_timed || benchmark->all_counted || report->cpu_count > 2)
		json_cpus("cpus", report->cpus, report->cpu_count);
	if (benchmark->all_timed)
		add_threads(report);
	if (benchmark->all_counted)
		add_units(result);
	add_pair_or_null("core_mhz", result->core_mhz[0], result->core_mhz);
	if (benchmark->clocked)
		json_count_or_null("sample_mhz", result->sample_mhz);
	if (benchmark->compares && plan_visit_point(report->visit)->bytes)
		json_flag("checked", true);
	json_number("start_ns", result->start_ns - run->start_ns);
	json_cpus("ping_cpus", result->ping_cpus, 2);
	json_cpus("pong_cpus", result->pong_cpus, 2);
	add_cpu_shares(result);
	add_lines(result);
	add_counts(run, report);
	json_write_record();
}

/* Adds the samples of a burst that was taken to its end, but disturbed. */
static void add_disturbed_samples(const struct report *report)
{
	const struct benchmark *benchmark = report->visit->choice->benchmark;
	const struct burst_result *result = report->result;

	json_count("iterations", report->units);
	json_counts("ticks", result->ticks, result->samples);
	if (benchmark->all_timed)
		add_other_ticks(result);
	if (benchmark->all_counted)
		add_units(result);
}

static void write_failed(const struct run *run, const struct report *report)
{
	(void)run;
	begin_record("failed", report);
	json_string("reason", report->result->failed);
	if (report->result->disturbed)
		json_flag("disturbed", true);
	if (report->result->disturbed && report->result->samples)
		add_disturbed_samples(report);
	json_write_record();
}

static void write_note(const char *sentence)
{
	json_begin("note");
	json_string("text", sentence);
	json_write_record();
}

static void write_alive(const struct report *report)
{
	if (report)
		begin_record("alive", report);
	else
		json_begin("alive");
	json_write_record();
}

static void write_end_record(const struct run *run, const struct totals *totals, const char *reason)
{
	bool precision = run->plan->precision_ppm;

	json_begin("end");
	json_count("bursts", totals->taken);
	json_count("failed", totals->failed);
	json_count("again", totals->again);
	json_number_or_null("converged", precision ? (int64_t)totals->converged : -1);
	json_number_or_null("unconverged", precision ? (int64_t)totals->unconverged : -1);
	json_number_or_null("reached_ppm", precision && totals->reached_ppm < UINT32_MAX
						   ? (int64_t)totals->reached_ppm
						   : -1);
	json_string("reason", reason);
	json_write_record();
}

const struct format emit_jsonl = {
	.name = "jsonl",
	.write_hello = write_hello_record,
	.write_burst = write_burst_record,
	.write_failed = write_failed,
	.write_note = write_note,
	.write_alive = write_alive,
	.write_end = write_end_record,
};
