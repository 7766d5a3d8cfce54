/* all.c: the list of benchmarks. */
#include "bench/bench.h"

#include <string.h>

#define ROW(name) &bench_##name,
const struct benchmark *const bench_all[] = {BENCHMARKS(ROW) NULL};

static bool takes_option(const struct benchmark *benchmark, const char *option)
{
	if (!strcmp(option, "few-pairs"))
		return benchmark->many_points;
	for (const struct parameter *p = benchmark->parameters; p && p->name; p++)
		if (p->option && !strcmp(p->option, option))
			return true;
	return false;
}

void bench_add_names(struct text *text, const char *option)
{
	const char *before = "";

	for (size_t i = 0; bench_all[i]; i++)
		if (takes_option(bench_all[i], option)) {
			text_add(text, "%s%s", before, bench_all[i]->name);
			before = ", ";
		}
	text_add(text, ": ");
}

static void add_parameter_words(struct text *text, const char *benchmark,
				const struct parameter *parameter)
{
	for (const struct word *word = parameter->words; word->meaning; word++) {
		const char *name = parameter->word(word->value);
		bool plain = !strcmp(name, word->meaning);

		text_add(text, word == parameter->words ? " %s: " : ", ", benchmark);
		text_add(text, plain ? "%s" : "%s (%s)", name, word->meaning);
	}
	text_add(text, ".");
}

void bench_add_words(struct text *text, const char *option)
{
	for (size_t i = 0; bench_all[i]; i++)
		for (const struct parameter *p = bench_all[i]->parameters; p && p->name; p++)
			if (p->word && p->option && !strcmp(p->option, option))
				add_parameter_words(text, bench_all[i]->name, p);
}
