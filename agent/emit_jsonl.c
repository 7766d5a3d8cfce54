/* emit_jsonl.c: the wire, JSON Lines: every record and key as docs/wire.md lists them. */
#include "build.h"
#include "emit.h"

#include "stop.h"

#include <inttypes.h>
#include <unistd.h>

static struct text line;

static const struct {
	uint32_t bit;
	const char *name;
} feature_names[] = {
	{FEATURE_LSE, "lse"},
	{FEATURE_ZACAS, "zacas"},
	{FEATURE_LAM_CAS, "lam_cas"},
	{FEATURE_AVX, "avx"},
	{FEATURE_AVX512, "avx512"},
	{FEATURE_CLZERO, "clzero"},
	{FEATURE_SVE, "sve"},
	{FEATURE_ZVA, "zva"},
	{FEATURE_SSE2, "sse2"},
	{FEATURE_NEON, "neon"},
	{FEATURE_RVV, "rvv"},
	{FEATURE_CBO_ZERO, "cbo_zero"},
	{FEATURE_POWER9, "power9"},
	{FEATURE_DCBZ, "dcbz"},
	{FEATURE_VX, "vx"},
	{FEATURE_LSX, "lsx"},
	{FEATURE_LASX, "lasx"},
	{FEATURE_FMA, "fma"},
	{FEATURE_AVX512_VNNI, "avx512_vnni"},
	{FEATURE_AVX512_BF16, "avx512_bf16"},
	{FEATURE_AMX_TILE, "amx_tile"},
	{FEATURE_AMX_BF16, "amx_bf16"},
	{FEATURE_AMX_INT8, "amx_int8"},
	{FEATURE_FLUSH, "flush"},
	{FEATURE_BF16, "bf16"},
	{FEATURE_I8MM, "i8mm"},
	{FEATURE_VXE, "vxe"},
};

static void add_string(const char *key, const char *value)
{
	text_add(&line, ",\"%s\":", key);
	text_add_json(&line, value);
}

static void add_count(const char *key, uint64_t value)
{
	text_add(&line, ",\"%s\":%" PRIu64, key, value);
}

static void add_features(uint32_t features)
{
	const char *separator = "";

	text_add(&line, ",\"features\":[");
	for (size_t i = 0; i < sizeof feature_names / sizeof *feature_names; i++)
		if (features & feature_names[i].bit) {
			text_add(&line, "%s\"%s\"", separator, feature_names[i].name);
			separator = ",";
		}
	text_add(&line, "]");
}

/* A number where 0 means that there is none. */
static void add_count_or_null(const char *key, uint64_t value)
{
	if (value)
		add_count(key, value);
	else
		text_add(&line, ",\"%s\":null", key);
}

/* A number where a negative one means that there is none. */
static void add_number_or_null(const char *key, int64_t value)
{
	if (value >= 0)
		add_count(key, (uint64_t)value);
	else
		text_add(&line, ",\"%s\":null", key);
}

static void add_flag(const char *key, bool value)
{
	text_add(&line, ",\"%s\":%s", key, value ? "true" : "false");
}

static void finish(void)
{
	text_add(&line, "}\n");
	emit_write(&line);
}

static void add_sampling(const struct plan *plan)
{
	add_count_or_null("rounds_max", plan->precision_ppm ? plan->rounds_max : 0);
	add_count_or_null("precision_ppm", plan->precision_ppm);
	add_count_or_null("time_budget_ms", (uint64_t)(plan->time_budget_ns / NS_PER_MS));
	add_count("spread_ms", (uint64_t)(plan->spread_ns / NS_PER_MS));
	add_string("preset", plan->preset);
	add_string("order", plan->sequential ? "sequential" : "shuffled");
	add_string("estimator", plan->estimator);
}

static void add_placement(const struct placement *placement)
{
	add_string("line", placement->fixed ? "fixed" : "fresh");
	add_string("owner", placement->owner_pong ? "pong" : "ping");
	add_number_or_null("node", placement->node);
	add_count_or_null("separation_bytes", placement->separation_bytes);
	add_flag("huge_page", placement->huge_page);
}

/* Names of the points; nothing where the benchmark has none. */
static void add_points(const struct choice *choice)
{
	if (!choice->points[0].name[0])
		return;
	text_add(&line, ",\"points\":[");
	for (size_t i = 0; i < choice->point_count; i++) {
		text_add(&line, i ? "," : "");
		text_add_json(&line, choice->points[i].name);
	}
	text_add(&line, "]");
}

static void add_plan(const struct run *run)
{
	const struct plan *plan = run->plan;

	text_add(&line, ",\"plan\":{\"benchmarks\":[");
	for (size_t i = 0; i < plan->choice_count; i++) {
		text_add(&line, "%s{\"benchmark\":", i ? "," : "");
		text_add_json(&line, plan->choices[i].benchmark->name);
		add_string("variant", plan->choices[i].variant->name);
		add_points(&plan->choices[i]);
		add_count("samples", plan_samples_of(plan, plan->choices[i].benchmark));
		text_add(&line, "}");
	}
	text_add(&line, "]");
	add_count("samples", plan->samples);
	add_count_or_null("iterations", plan->iterations);
	add_count("rounds", plan->rounds);
	add_count("warmup", plan->warmup);
	add_string("pairs", plan->pairs == PAIRS_LISTED    ? "listed"
			    : plan->pairs == PAIRS_ORDERED ? "ordered"
							   : "half");
	add_sampling(plan);
	add_placement(&plan->placement);
	add_string("governor", run->governor);
	add_string("boost", run->boost);
	text_add(&line, "}");
}

static void add_machine(const struct run *run)
{
	const struct clock_facts *clock = run->clock;

	add_string("os", os_name);
	add_string("arch", arch_name);
	add_string("compiler", FLEET_COMPILER);
	add_string("cflags", FLEET_CFLAGS);
	add_count("pid", (uint64_t)getpid());
	add_string("clock", clock->clock.name);
	add_count("ticks_per_second", clock->clock.ticks_per_second);
	add_count("clock_cost_ticks", clock->cost_ticks);
	add_count("clock_quantum_ticks", clock->quantum_ticks);
	add_string("clock_note", clock->clock.note);
	if (clock->rate_checked)
		text_add(&line, ",\"rate_error_ppm\":%" PRId64, clock->rate_error_ppm);
	else
		text_add(&line, ",\"rate_error_ppm\":null");
	add_count("line_bytes", LINE_BYTES);
	add_count("page_bytes", os_page_bytes());
	text_add(&line, ",\"cpus\":[");
	for (size_t i = 0; i < run->plan->cpu_count; i++)
		text_add(&line, "%s%d", i ? "," : "", run->plan->cpus[i]);
	text_add(&line, "],\"core_mhz\":[");
	for (size_t i = 0; i < run->plan->cpu_count; i++) {
		text_add(&line, i ? "," : "");
		if (run->core_mhz[i])
			text_add(&line, "%" PRIu32, run->core_mhz[i]);
		else
			text_add(&line, "null");
	}
	text_add(&line, "]");
	add_features(run->features);
	add_count_or_null("priority", (uint64_t)run->priority);
}

/* What was asked for, and why some of it is not counted; nothing where nothing was. */
static void add_counters(const struct counters *counters)
{
	if (!counters)
		return;
	text_add(&line, ",\"counters\":[");
	for (size_t i = 0; i < counters->count; i++) {
		const struct counter *counter = &counters->counter[i];

		text_add(&line, "%s{\"event\":", i ? "," : "");
		text_add_json(&line, counter->name);
		add_count("type", counter->event.type);
		add_count("config", counter->event.config);
		add_flag("kernel", counter->event.kernel);
		add_string("refused", counter->refused);
		text_add(&line, "}");
	}
	text_add(&line, "]");
}

static void hello(const struct run *run)
{
	const struct plan *plan = run->plan;

	text_add(&line, "{\"record\":\"hello\",\"protocol\":1");
	add_string("build", FLEET_BUILD_ID);
	add_string("agent", FLEET_AGENT_VERSION);
	add_machine(run);
	add_count("seed", plan->seed);
	add_plan(run);
	add_count("pairs", plan->pair_count);
	add_count("done", plan->done);
	add_count("bursts", (uint64_t)plan->rounds * plan->visit_count - plan->done_least);
	add_count("bursts_max", (uint64_t)plan->rounds_max * plan->visit_count - plan->done);
	add_count("monotonic_ns", (uint64_t)run->start_ns);
	add_counters(run->counters);
	finish();
}

/* The point and its parameters; nothing where the benchmark has none. */
static void add_point(const struct benchmark *benchmark, const struct point *point)
{
	if (!point->name[0])
		return;
	add_string("point", point->name);
	add_string("unit", unit_name(benchmark->unit));
	text_add(&line, ",\"parameters\":{\"pages\":\"%s\",\"threads\":%" PRIu32,
		 point->huge_pages ? "huge" : "base", point->threads);
	if (point->bytes)
		add_count("bytes", point->bytes);
	if (point->stride_bytes)
		add_count("stride_bytes", point->stride_bytes);
	if (point->block_bytes)
		add_count("block_bytes", point->block_bytes);
	if (point->order != ORDER_NONE)
		add_string("order", order_name(point->order));
	if (point->state != STATE_NONE)
		add_string("state", state_name(point->state));
	if (benchmark->unit == UNIT_BYTE || benchmark->unit == UNIT_LINE)
		add_string("operation", operation_name(point->operation));
	if (benchmark->unit == UNIT_OPERATION)
		add_string("operation", gemm_point_name(point->operation));
	if (point->sharing != SHARING_NONE)
		add_string("sharing", sharing_name(point->sharing));
	text_add(&line, "}");
}

static void begin(const char *record, const struct report *report)
{
	const struct choice *choice = report->visit->choice;

	text_add(&line, "{\"record\":\"%s\"", record);
	add_string("benchmark", choice->benchmark->name);
	add_string("variant", choice->variant->name);
	add_point(choice->benchmark, plan_point(report->visit));
	text_add(&line, ",\"round\":%" PRIu32 ",\"ping\":%d,\"pong\":%d", report->round,
		 report->ping, report->pong);
}

/* Of ping and of the others. */
static void add_shares_or_null(const char *key, bool known, const uint32_t ppm[2])
{
	if (known)
		text_add(&line, ",\"%s\":[%" PRIu32 ",%" PRIu32 "]", key, ppm[0], ppm[1]);
	else
		text_add(&line, ",\"%s\":null", key);
}

/* What the threads got of their CPUs. */
static void add_effort(const struct burst_result *result)
{
	if (result->switches_known)
		text_add(&line, ",\"switches\":[%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 "]",
			 result->switches[0], result->switches[1], result->switches[2],
			 result->switches[3]);
	else
		text_add(&line, ",\"switches\":null");
	add_shares_or_null("ran_ppm", result->ran_known, result->ran_ppm);
	add_shares_or_null("steal_ppm", result->steal_known, result->steal_ppm);
}

static void add_lines(const struct burst_result *result)
{
	const struct line_place *first = &result->lines[0], *second = &result->lines[1];

	if (!result->line_count) {
		text_add(&line, ",\"line_page\":null,\"line_offset\":null,\"line_node\":null,"
				"\"line_physical\":null");
		return;
	}
	add_count("line_page", first->page);
	add_count("line_offset", first->offset);
	add_number_or_null("line_node", first->node);
	add_count_or_null("line_physical", first->physical);
	if (result->line_count > 1) {
		add_count("line2_page", second->page);
		add_count("line2_offset", second->offset);
	}
}

static void add_list(const uint64_t *values, uint32_t count)
{
	text_add(&line, "[");
	for (uint32_t i = 0; i < count; i++)
		text_add(&line, "%s%" PRIu64, i ? "," : "", values[i]);
	text_add(&line, "]");
}

static void add_cpus(const struct report *report)
{
	text_add(&line, ",\"cpus\":[");
	for (size_t i = 0; i < report->cpu_count; i++)
		text_add(&line, "%s%d", i ? "," : "", report->cpus[i]);
	text_add(&line, "]");
}

/* Where threads work at once: which, the times of all but ping, and how far apart they began. */
static void add_threads(const struct report *report)
{
	const struct burst_result *result = report->result;

	add_cpus(report);
	text_add(&line, ",\"other_ticks\":[");
	for (size_t i = 1; i < result->timed; i++) {
		text_add(&line, i > 1 ? "," : "");
		add_list(result->ticks + i * result->samples, result->samples);
	}
	text_add(&line, "]");
	if (report->visit->choice->benchmark->value)
		return;
	text_add(&line, ",\"begin_ns\":[");
	for (size_t i = 0; i < result->timed; i++)
		text_add(&line, "%s%" PRId64, i ? "," : "", result->begin_ns[i]);
	text_add(&line, "]");
}

/* How fast ping's core ran, before and after. */
static void add_frequency(const struct burst_result *result)
{
	if (result->core_mhz[0])
		text_add(&line, ",\"core_mhz\":[%" PRIu32 ",%" PRIu32 "]", result->core_mhz[0],
			 result->core_mhz[1]);
	else
		text_add(&line, ",\"core_mhz\":null");
}

/* Of each thread, in the order of its CPUs, each counter; null: it was not counted there. */
static void add_counts(const struct run *run, const struct report *report)
{
	const struct event_count *count = report->result->counts;

	if (!report->result->counted)
		return;
	text_add(&line, ",\"counters\":[");
	for (size_t thread = 0; thread < report->cpu_count; thread++) {
		text_add(&line, "%s[", thread ? "," : "");
		for (size_t i = 0; i < run->counters->count; i++, count++) {
			text_add(&line, i ? "," : "");
			if (count->enabled_ns)
				text_add(&line, "[%" PRIu64 ",%" PRIu64 ",%" PRIu64 "]",
					 count->count, count->enabled_ns, count->running_ns);
			else
				text_add(&line, "null");
		}
		text_add(&line, "]");
	}
	text_add(&line, "]");
}

static void burst(const struct run *run, const struct report *report)
{
	const struct benchmark *benchmark = report->visit->choice->benchmark;
	const struct burst_result *result = report->result;

	begin("burst", report);
	add_count("iterations", plan_units(report->visit));
	add_count("warmup", run->plan->warmup);
	text_add(&line, ",\"ticks\":");
	add_list(result->ticks, result->samples);
	if (benchmark->all_timed)
		add_threads(report);
	else if (report->cpu_count > 2)
		add_cpus(report);
	add_frequency(result);
	if (benchmark->clocked)
		add_count_or_null("sample_mhz", result->sample_mhz);
	if (benchmark->compares && plan_point(report->visit)->bytes)
		add_flag("checked", true);
	text_add(&line, ",\"start_ns\":%" PRId64, result->start_ns - run->start_ns);
	text_add(&line, ",\"ping_cpus\":[%d,%d],\"pong_cpus\":[%d,%d]", result->ping_cpus[0],
		 result->ping_cpus[1], result->pong_cpus[0], result->pong_cpus[1]);
	add_effort(result);
	add_lines(result);
	add_counts(run, report);
	finish();
}

static void failed(const struct run *run, const struct report *report)
{
	(void)run;
	begin("failed", report);
	add_string("reason", report->result->failed);
	finish();
}

static void note(const char *sentence)
{
	text_add(&line, "{\"record\":\"note\"");
	add_string("text", sentence);
	finish();
}

static void alive(void)
{
	text_add(&line, "{\"record\":\"alive\"");
	finish();
}

static void end(const struct run *run, const struct totals *totals, const char *reason)
{
	bool precision = run->plan->precision_ppm;

	text_add(&line, "{\"record\":\"end\"");
	add_count("bursts", totals->taken);
	add_count("failed", totals->failed);
	add_number_or_null("converged", precision ? (int64_t)totals->converged : -1);
	add_number_or_null("unconverged", precision ? (int64_t)totals->unconverged : -1);
	add_number_or_null("several_levels", precision ? (int64_t)totals->several_levels : -1);
	add_number_or_null("reached_ppm", precision && totals->reached_ppm < UINT32_MAX
						  ? (int64_t)totals->reached_ppm
						  : -1);
	add_string("reason", reason);
	finish();
}

const struct format emit_jsonl = {
	.name = "jsonl",
	.hello = hello,
	.burst = burst,
	.failed = failed,
	.note = note,
	.alive = alive,
	.end = end,
};
