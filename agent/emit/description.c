/* description.c: benchmarks, their parameters, and options in JSON, for records and --describe. */
#include "emit/emit.h"

#include "base/build.h"
#include "emit/json.h"
#include "options/option_table.h"

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

static const char *const types[] = {
	[FLAG] = "flag",     [TEXT] = "text",           [WORD] = "word",
	[PRESET] = "word",   [COUNT] = "count",         [COUNT_OR_AUTO] = "count",
	[COUNTS] = "counts", [SHARE_PPM] = "share_ppm", [SECONDS] = "duration_ms"};

static void add_words(const struct option *option)
{
	struct text words = {0};

	for (const struct preset *preset = presets; option->kind == PRESET && preset->name;
	     preset++)
		text_add(&words, "%s%s", words.length ? "|" : "", preset->name);
	json_string("words", words.data ? words.data : option->words);
	text_free(&words);
}

static void add_option(const struct option *option)
{
	struct text help = {0};

	if (option->has_benchmarks)
		bench_add_names(&help, option->name);
	text_add(&help, "%s", option->help);
	json_open(NULL, '{');
	json_string("name", option->name);
	json_string("type", types[option->kind]);
	json_count("least", option->least);
	json_count("most", option->most);
	json_count_or_null("multiple", option->multiple);
	add_words(option);
	json_string("allowed", option->allowed ? option->allowed : "");
	json_string("value", option->value);
	json_string("usual", option->usual);
	json_string("with_rounds", option->with_rounds);
	json_string("usual_words", option->usual_words);
	json_string("help", help.data);
	json_close('}');
	text_free(&help);
}

static const char *const relations[] = {[EXCLUDES] = "excludes", [NEEDS] = "needs"};

static void add_rule(const struct rule *rule)
{
	json_open(NULL, '{');
	json_string("name", rule->name);
	json_string("relation", relations[rule->relation]);
	json_string("other", rule->other);
	json_string("why", rule->why);
	json_close('}');
}

static void add_preset(const struct preset *preset)
{
	json_open(NULL, '{');
	json_string("name", preset->name);
	json_open("arguments", '[');
	for (const char *const *argument = preset->arguments; *argument; argument++)
		json_string(NULL, *argument);
	json_close(']');
	json_close('}');
}

void emit_description(void)
{
	json_begin("description");
	json_count("protocol", 1);
	json_string("build", FLEET_BUILD_ID);
	json_string("os", os_name);
	json_string("arch", arch_name);
	json_open("benchmarks", '[');
	for (size_t i = 0; bench_all[i]; i++)
		emit_benchmark(bench_all[i], true);
	json_close(']');
	json_open("options", '[');
	for (size_t i = 0; i < option_count; i++)
		if (option_table[i].kind != FLAG)
			add_option(&option_table[i]);
	json_close(']');
	json_open("rules", '[');
	for (const struct rule *rule = rules; rule->name; rule++)
		add_rule(rule);
	json_close(']');
	json_open("presets", '[');
	for (const struct preset *preset = presets; preset->name; preset++)
		add_preset(preset);
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
