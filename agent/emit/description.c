/* description.c: the benchmarks and their parameters in JSON, for the records and --describe. */
#include "emit/emit.h"

#include "base/build.h"
#include "emit/json.h"

#include <string.h>

static const char *const shapes[] = {
	[SHAPE_CPU] = "cpu", [SHAPE_PAIR] = "pair", [SHAPE_GROUP] = "group"};
static const char *const roles[] = {
	[ROLE_ROW] = "row", [ROLE_COLUMN] = "column", [ROLE_TABLE] = "table"};

static void add_parameter(const struct parameter *parameter)
{
	json_open(NULL, '{');
	json_string("name", parameter->name);
	json_string("type", parameter->word || parameter->record ? "word"
			    : parameter->bytes                   ? "bytes"
			    : parameter->node                    ? "node"
								 : "count");
	json_string("role", roles[parameter->role]);
	json_string("none", parameter->none);
	json_string("option", parameter->option);
	if (parameter->word && parameter->words) {
		json_open("words", '{');
		for (const struct word *word = parameter->words; word->meaning; word++)
			json_string(parameter->word(word->value), word->meaning);
		json_close('}');
	}
	json_close('}');
}

void emit_benchmark(const struct benchmark *benchmark, bool variants)
{
	const struct variant *variant;

	json_open(NULL, '{');
	json_string("name", benchmark->name);
	json_string("question", benchmark->question);
	json_string("unit", benchmark->unit);
	json_string("other_unit", benchmark->other_unit);
	json_count("latencies", benchmark->two_ways ? 2 : 1);
	json_string("shape", shapes[benchmark->shape]);
	json_string("view", benchmark->view ? benchmark->view : "table");
	json_string("heading", benchmark->heading);
	json_string("rate", benchmark->rate);
	json_string("point", benchmark->point);
	json_count("samples", SAMPLES_USUAL);
	json_flag("many_points", benchmark->many_points);
	json_open("parameters", '[');
	for (const struct parameter *p = benchmark->parameters; p && p->name; p++)
		add_parameter(p);
	json_close(']');
	if (variants) {
		json_open("variants", '[');
		for (size_t i = 0; (variant = bench_variant(benchmark, i)); i++)
			json_string(NULL, variant->name);
		json_close(']');
	}
	json_close('}');
}

void emit_benchmarks(void)
{
	json_begin("benchmarks");
	json_count("protocol", 1);
	json_string("build", FLEET_BUILD_ID);
	json_string("os", os_name);
	json_string("arch", arch_name);
	json_open("benchmarks", '[');
	for (size_t i = 0; bench_all[i]; i++)
		emit_benchmark(bench_all[i], true);
	json_close(']');
	json_write_record();
}

static uint64_t read_member(const struct point *point, const struct parameter *parameter)
{
	const char *member = (const char *)point + parameter->offset;
	uint32_t medium;
	uint64_t large;

	switch (parameter->size) {
	case sizeof medium:
		memcpy(&medium, member, sizeof medium);
		return medium;
	case sizeof large:
		memcpy(&large, member, sizeof large);
		return large;
	default:
		return *(const uint8_t *)member;
	}
}

void emit_parameters(const struct benchmark *benchmark, const struct point *point)
{
	json_open("parameters", '{');
	for (const struct parameter *p = benchmark->parameters; p && p->name; p++) {
		uint64_t value = read_member(point, p);
		const char *word = p->record ? p->record(point)
				   : p->word ? p->word((unsigned)value)
					     : NULL;

		if (word)
			json_string(p->name, word);
		else if (!p->word && !p->record && (p->none ? value != LOAD_FULL : value))
			json_count(p->name, value);
	}
	json_close('}');
}
