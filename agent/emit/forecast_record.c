/* forecast_record.c: what a plan costs, for the controller. */
#include "emit/emit.h"
#include "emit/json.h"

#include "base/build.h"

static void add_ms(const char *key, double seconds)
{
	json_count(key, (uint64_t)(seconds * 1e3 + 0.5));
}

static void add_choice(const struct plan *plan, const struct choice *choice, uint32_t rounds)
{
	const struct cost cost = cost_estimate(plan, choice);

	json_open(NULL, '{');
	json_string("benchmark", choice->benchmark->name);
	json_string("variant", choice->variant->name);
	json_count("points", choice->points[0].name[0] ? choice->point_count : 0);
	json_count("visits", cost.visits);
	json_count("bursts", cost.visits * rounds);
	add_ms("ms", cost.once_s + rounds * cost.round_s);
	json_close('}');
}

static void add_left_out(const struct plan *plan, const struct forecast *forecast)
{
	struct text words = {0};

	forecast_add_left_out(&words, forecast, plan);
	json_string("left_out", words.length ? words.data : NULL);
	text_free(&words);
}

static size_t count_points(const struct plan *plan)
{
	size_t count = 0;

	for (size_t i = 0; i < plan->choice_count; i++)
		if (plan->choices[i].points[0].name[0])
			count += plan->choices[i].point_count;
	return count;
}

void emit_forecast(const struct plan *plan, const struct forecast *forecast,
		   const struct notes *notes)
{
	json_begin("forecast");
	json_count("protocol", 1);
	json_string("build", FLEET_BUILD_ID);
	json_string("arch", plan->machine->arch);
	json_count("cpus", plan->cpu_count);
	json_count("pairs", plan->pair_count);
	json_count("points", count_points(plan));
	json_count("visits", plan->visit_count);
	json_count("rounds", forecast->rounds);
	json_count("bursts", (uint64_t)forecast->rounds * plan->visit_count);
	json_count("bursts_max", (uint64_t)plan->rounds_max * plan->visit_count);
	add_left_out(plan, forecast);
	json_count("bytes", plan->bytes);
	uint64_t most = 0; /* MB/s */
	for (size_t i = 0; i < plan->visit_count; i++) {
		const struct point *point = plan_visit_point(&plan->visits[i]);
		uint64_t load = point->load_mbps * (point->threads - UINT64_C(1));

		most = load > most ? load : most;
	}
	json_count("load_mbps", most);
	json_open("nodes", '[');
	for (size_t i = 0; i < plan->node_count; i++) {
		json_open(NULL, '{');
		json_number("node", plan->nodes[i]);
		json_count("bytes", plan->node_bytes[i]);
		json_close('}');
	}
	json_close(']');
	add_ms("ms_first", forecast->once_s + forecast->round_s);
	add_ms("ms", forecast->least_s);
	add_ms("ms_max", forecast->most_s);
	json_count("deadline_s", (uint64_t)forecast_deadline_s(forecast));
	json_open("benchmarks", '[');
	for (size_t i = 0; i < plan->choice_count; i++)
		add_choice(plan, &plan->choices[i], forecast->rounds);
	json_close(']');
	json_open("notes", '[');
	for (size_t i = 0; i < notes->count; i++)
		json_string(NULL, notes->text[i]);
	json_close(']');
	json_write_record();
}
