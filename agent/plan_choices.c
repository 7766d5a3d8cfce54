/* plan_choices.c: from names to benchmarks and their variants. */
#include "plan_parts.h"

#include <stdlib.h>
#include <string.h>

enum { NAME_ROOM = 32 };

/* The words of a list without spaces: takes the next one, false after the last. */
static bool next_word(const char **at, char word[NAME_ROOM])
{
	if (!*at)
		return false;
	size_t span = strcspn(*at, ",");

	snprintf(word, NAME_ROOM, "%.*s", (int)span, *at);
	*at = (*at)[span] ? *at + span + 1 : NULL;
	return true;
}

static bool has_word(const char *list, const char *wanted)
{
	char word[NAME_ROOM];

	while (next_word(&list, word))
		if (!strcmp(word, wanted))
			return true;
	return false;
}

static const struct benchmark *find_benchmark(const char *name)
{
	for (size_t i = 0; bench_all[i]; i++)
		if (!strcmp(bench_all[i]->name, name))
			return bench_all[i];
	return NULL;
}

/* The variant meant for a benchmark: what stands alone is for all, one not named takes auto. */
static void variant_for(const struct benchmark *benchmark, const char *list, char name[NAME_ROOM])
{
	size_t length = strlen(benchmark->name);
	char word[NAME_ROOM];

	snprintf(name, NAME_ROOM, "%s", strchr(list, '=') ? "auto" : list);
	while (next_word(&list, word))
		if (!strncmp(word, benchmark->name, length) && word[length] == '=')
			snprintf(name, NAME_ROOM, "%s", word + length + 1);
}

void plan_add_variants(struct text *text, const struct benchmark *benchmark)
{
	const struct variant *variant;
	const char *separator = "";

	for (size_t i = 0; (variant = bench_variant(benchmark, i)); i++) {
		bool usable = !(variant->needs & ~os_features());

		text_add(text, "%s%s%s", separator, variant->name,
			 usable ? "" : " (not on this CPU)");
		separator = ", ";
	}
}

static int refuse_variant(const struct benchmark *benchmark, const char *name,
			  struct refusal *refusal)
{
	struct text there = {0};

	plan_add_variants(&there, benchmark);
	refuse(refusal, EXIT_VARIANT, "%s has no variant '%s' here; there is: %s", benchmark->name,
	       name, there.data);
	text_free(&there);
	return -1;
}

/* Adds the variants of one benchmark that `name` means: one, or for "all" each this CPU has. */
static int add_choices(struct plan *plan, const struct benchmark *benchmark, const char *name,
		       struct refusal *refusal)
{
	bool all = !strcmp(name, "all"), any = all || !strcmp(name, "auto");
	uint32_t features = os_features();
	size_t before = plan->choice_count;
	const struct variant *variant;

	for (size_t i = 0; (variant = bench_variant(benchmark, i)); i++) {
		if (variant->needs & ~features || (!any && strcmp(name, variant->name)))
			continue;
		plan->choices[plan->choice_count++] = (struct choice){benchmark, variant};
		if (!all)
			break;
	}
	return plan->choice_count > before ? 0 : refuse_variant(benchmark, name, refusal);
}

static int check_benchmarks(const char *list, struct refusal *refusal)
{
	char name[NAME_ROOM];

	while (next_word(&list, name))
		if (!find_benchmark(name))
			return refuse(refusal, EXIT_OPTIONS,
				      "--benchmark knows cas, readwrite, clock and all, not '%s'",
				      name);
	return 0;
}

/* In a list of variants each word is benchmark=variant, of a benchmark that is measured. */
static int check_variants(const struct options *options, bool all, struct refusal *refusal)
{
	const char *list = options->variant;
	char word[NAME_ROOM];

	if (!strpbrk(list, "=,"))
		return 0;
	while (next_word(&list, word)) {
		size_t span = strcspn(word, "=");

		if (!word[span] || !word[span + 1])
			return refuse(
				refusal, EXIT_OPTIONS,
				"--variant wants a name or a list like cas=c11,readwrite=all, "
				"not '%s'",
				options->variant);
		word[span] = '\0';
		if (!find_benchmark(word) || !(all || has_word(options->benchmarks, word)))
			return refuse(refusal, EXIT_OPTIONS,
				      "--variant names '%s', which is not measured", word);
	}
	return 0;
}

int plan_choose_benchmarks(struct plan *plan, const struct options *options,
			   struct refusal *refusal)
{
	bool all = !strcmp(options->benchmarks, "all");
	char variant[NAME_ROOM];
	size_t room = 0;

	if (!all && check_benchmarks(options->benchmarks, refusal))
		return -1;
	if (check_variants(options, all, refusal))
		return -1;
	for (size_t b = 0; bench_all[b]; b++)
		for (size_t i = 0; bench_variant(bench_all[b], i); i++)
			room++;
	plan->choices = calloc(room, sizeof *plan->choices);
	if (!plan->choices)
		return refuse(refusal, EXIT_OTHER, "out of memory");
	for (size_t b = 0; bench_all[b]; b++) {
		if (!all && !has_word(options->benchmarks, bench_all[b]->name))
			continue;
		variant_for(bench_all[b], options->variant, variant);
		if (add_choices(plan, bench_all[b], variant, refusal))
			return -1;
	}
	return 0;
}
