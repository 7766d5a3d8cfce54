/* options.c: reading the command line by the table of options. */
#include "options/options.h"

#include "options/option_table.h"

#include "base/stop.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const struct option *find_option(const char *name, size_t length)
{
	for (size_t i = 0; i < option_count; i++)
		if (strlen(option_table[i].name) == length &&
		    !strncmp(option_table[i].name, name, length))
			return &option_table[i];
	return NULL;
}

static const struct option *find_option_by_letter(char letter)
{
	for (size_t i = 0; i < option_count; i++)
		if (option_table[i].letter && option_table[i].letter == letter)
			return &option_table[i];
	return NULL;
}

static int set_count(const struct option *option, uint64_t *count, const char *text,
		     struct refusal *refusal)
{
	char *end;

	errno = 0;
	unsigned long long value = strtoull(text, &end, 10);
	if (text[0] < '0' || text[0] > '9' || *end || errno || value < option->least ||
	    value > option->most)
		return refuse(refusal, EXIT_OPTIONS,
			      "--%s wants a whole number from %llu to %llu, not '%s'", option->name,
			      (unsigned long long)option->least, (unsigned long long)option->most,
			      text);
	if (option->multiple && value % option->multiple)
		return refuse(refusal, EXIT_OPTIONS, "--%s wants a multiple of %llu, not %llu",
			      option->name, (unsigned long long)option->multiple, value);
	*count = value;
	return 0;
}

static int set_counts(const struct option *option, const char **list, const char *text,
		      struct refusal *refusal)
{
	for (const char *next = text; next;) {
		uint64_t count = 0;
		const char *end = text_read_number(next, option->most, &count);

		if (!end || (*end && *end != ',') || count < option->least)
			return refuse(refusal, EXIT_OPTIONS,
				      "--%s wants a list of numbers from %llu to %llu, not '%s'",
				      option->name, (unsigned long long)option->least,
				      (unsigned long long)option->most, text);
		next = *end ? end + 1 : NULL;
	}
	*list = text;
	return 0;
}

static int set_seconds(const struct option *option, int64_t *ns, const char *text,
		       struct refusal *refusal)
{
	double least = (double)option->least / 1e3, most = (double)option->most / 1e3;
	char *end;
	double seconds = strtod(text, &end);

	if (end == text || *end || !(seconds >= least) || seconds > most)
		return refuse(refusal, EXIT_OPTIONS,
			      "--%s wants a number of seconds from %g, not '%s'", option->name,
			      least, text);
	*ns = (int64_t)(seconds * (double)NS_PER_S);
	return 0;
}

/* Reads a share like 1% or 0.01, or "off" for 0, as millionths. Returns 0, or -1 and a refusal. */
static int set_share(const struct option *option, int64_t *ppm, const char *text,
		     struct refusal *refusal)
{
	char *end;
	double share = strtod(text, &end);

	if (!strcmp(text, "off")) {
		*ppm = 0;
		return 0;
	}
	if (end != text && !strcmp(end, "%")) {
		share /= 100;
		end++;
	}
	if (end == text || *end || !(share * 1e6 >= (double)option->least) ||
	    share * 1e6 > (double)option->most)
		return refuse(refusal, EXIT_OPTIONS,
			      "--%s wants a share like 1%% or 0.01, or off, not '%s'", option->name,
			      text);
	*ppm = (int64_t)(share * 1e6 + 0.5);
	return 0;
}

/* Reports whether the text is one of the words separated by |. */
static bool is_one_of(const char *words, const char *text)
{
	size_t length = strlen(text);

	for (;;) {
		size_t span = strcspn(words, "|");

		if (span == length && !strncmp(words, text, length))
			return true;
		if (!words[span])
			return false;
		words += span + 1;
	}
}

static int set_word(const struct option *option, const char **word, const char *text,
		    struct refusal *refusal)
{
	if (!is_one_of(option->words, text))
		return refuse(refusal, EXIT_OPTIONS, "--%s is one of %s, and cannot be '%s'",
			      option->name, option->words, text);
	*word = text;
	return 0;
}

static int parse_argument(struct options *options, const char *arg, const char *next,
			  struct refusal *refusal);

/* Sets all that a preset stands for; options that come later change it. */
static int set_preset(struct options *options, const char *name, struct refusal *refusal)
{
	const struct preset *preset = presets;

	while (preset->name && strcmp(preset->name, name))
		preset++;
	if (!preset->name)
		return refuse(
			refusal, EXIT_OPTIONS,
			"--preset knows core_latency, core-to-core-latency and c2clat, not '%s'",
			name);
	options->preset = preset->name;
	options->estimator = preset->estimator;
	for (const char *const *argument = preset->arguments; *argument; argument++)
		if (parse_argument(options, *argument, NULL, refusal) < 0)
			return -1;
	return 0;
}

static int set_option(struct options *options, const struct option *option, const char *text,
		      struct refusal *refusal)
{
	void *place = (char *)options + option->offset;

	switch (option->kind) {
	case FLAG:
		*(bool *)place = true;
		return 0;
	case TEXT:
		*(const char **)place = text;
		return 0;
	case COUNTS:
		return set_counts(option, place, text, refusal);
	case COUNT_OR_AUTO:
		if (!strcmp(text, "auto")) {
			*(uint64_t *)place = 0;
			return 0;
		}
		return set_count(option, place, text, refusal);
	case COUNT:
		return set_count(option, place, text, refusal);
	case WORD:
		return set_word(option, place, text, refusal);
	case PRESET:
		return set_preset(options, text, refusal);
	case SHARE_PPM:
		return set_share(option, place, text, refusal);
	case SECONDS:
		return set_seconds(option, place, text, refusal);
	}
	return -1;
}

/* Parses one argument: --name VALUE, --name=VALUE, -x VALUE, -xVALUE, --flag, -x. `next` is the
 * argument after it. Returns how many arguments it used, or -1. */
static int parse_argument(struct options *options, const char *arg, const char *next,
			  struct refusal *refusal)
{
	const struct option *option = NULL;
	const char *value = NULL;

	if (!strncmp(arg, "--", 2)) {
		size_t length = strcspn(arg + 2, "=");

		option = find_option(arg + 2, length);
		value = arg[2 + length] ? arg + 2 + length + 1 : NULL;
	} else if (arg[0] == '-' && arg[1]) {
		option = find_option_by_letter(arg[1]);
		value = arg[2] ? arg + 2 : NULL;
	}
	if (!option)
		return refuse(refusal, EXIT_OPTIONS,
			      "unknown argument '%s'; --help lists the options", arg);
	options->given |= UINT64_C(1) << (option - option_table);
	if (option->kind == FLAG) {
		if (value)
			return refuse(refusal, EXIT_OPTIONS, "--%s takes no value, but got '%s'",
				      option->name, value);
		return set_option(options, option, "", refusal) ? -1 : 1;
	}
	if (value)
		return set_option(options, option, value, refusal) ? -1 : 1;
	if (!next)
		return refuse(refusal, EXIT_OPTIONS, "--%s wants a value (%s)", option->name,
			      option->value);
	return set_option(options, option, next, refusal) ? -1 : 2;
}

int options_refuse_value(const char *name, const char *value, struct refusal *refusal)
{
	return refuse(refusal, EXIT_OPTIONS, "--%s wants %s, not '%s'", name,
		      find_option(name, strlen(name))->allowed, value);
}

bool options_has_word(const char *name, const char *word)
{
	return is_one_of(find_option(name, strlen(name))->words, word);
}

bool options_has_pages(const struct options *options, const char *kind)
{
	return options->pages && !strcmp(options->pages, kind);
}

static uint64_t draw_seed(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return ((uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u) ^
	       (uint64_t)getpid() << 40;
}

/* Sets every option that has a usual value to it. */
static int set_usual_values(struct options *options, struct refusal *refusal)
{
	for (size_t i = 0; i < option_count; i++) {
		const struct option *option = &option_table[i];

		if (option->usual && set_option(options, option, option->usual, refusal))
			return -1;
	}
	return 0;
}

static bool is_given(const struct options *options, const char *name)
{
	const struct option *option = find_option(name, strlen(name));

	return options->given >> (option - option_table) & 1;
}

/* Sets the usual values beside --rounds. */
static int set_values_with_rounds(struct options *options, struct refusal *refusal)
{
	for (size_t i = 0; i < option_count; i++) {
		const struct option *option = &option_table[i];

		if (option->with_rounds && !is_given(options, option->name) &&
		    set_option(options, option, option->with_rounds, refusal))
			return -1;
	}
	return 0;
}

/* Changes the usual values that depend on what was given. All rounds fit into half of a time
 * budget. */
static int fit_usual_values(struct options *options, struct refusal *refusal)
{
	options->rounds_given = is_given(options, "rounds");
	options->samples_given = is_given(options, "samples");
	options->budget_ends = options->time_budget_ns && !options->rounds_given;
	if (options->rounds_given)
		return set_values_with_rounds(options, refusal);
	if (!is_given(options, "spread") && options->time_budget_ns &&
	    options->time_budget_ns / 2 < options->spread_ns)
		options->spread_ns = options->time_budget_ns / 2;
	return 0;
}

/* Reports whether a share is on. */
static bool is_on(const struct options *options, const char *name)
{
	const struct option *share = find_option(name, strlen(name));

	return *(const int64_t *)((const char *)options + share->offset) != 0;
}

static int check_rule(const struct options *options, const struct rule *rule,
		      struct refusal *refusal)
{
	if (!is_given(options, rule->name))
		return 0;
	if (rule->relation == EXCLUDES && is_given(options, rule->other))
		return refuse(refusal, EXIT_OPTIONS, "--%s and --%s %s", rule->name, rule->other,
			      rule->why);
	if (rule->relation == NEEDS && !is_on(options, rule->other))
		return refuse(refusal, EXIT_OPTIONS, "--%s needs --%s: %s", rule->name, rule->other,
			      rule->why);
	return 0;
}

static int check_combination(const struct options *options, struct refusal *refusal)
{
	if (options->samples + options->warmup > SAMPLES_MAX)
		return refuse(refusal, EXIT_OPTIONS,
			      "--samples and --warmup together may be at most %d", SAMPLES_MAX);
	if (options->facts && !options->forecast)
		return refuse(refusal, EXIT_OPTIONS, "--facts is for --forecast");
	for (const struct rule *rule = rules; rule->name; rule++)
		if (check_rule(options, rule, refusal))
			return -1;
	return 0;
}

/* Returns the estimator of the program whose output the format imitates. */
static const char *usual_estimator(const char *format)
{
	for (const struct preset *preset = presets; preset->name; preset++)
		if (!strcmp(preset->name, format))
			return preset->estimator;
	return "median";
}

int options_parse(struct options *options, int argc, char **argv, struct refusal *refusal)
{
	*options = (struct options){
		.seed = draw_seed() & INT64_MAX, .node = NOT_GIVEN, .priority = PRIORITY_USUAL};
	if (set_usual_values(options, refusal))
		return -1;
	for (int i = 1, taken; i < argc; i += taken) {
		taken = parse_argument(options, argv[i], i + 1 < argc ? argv[i + 1] : NULL,
				       refusal);
		if (taken < 0)
			return -1;
	}
	if (!options->estimator)
		options->estimator = usual_estimator(options->format);
	if (fit_usual_values(options, refusal))
		return -1;
	return check_combination(options, refusal);
}
