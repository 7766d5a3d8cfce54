/* counters.c: which events are counted, and their counters in each thread. */
#include "machine/counters.h"

#include "base/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

/* Reads a number and returns the text after it; null without a number. */
static const char *parse_number(const char *text, uint64_t most, uint64_t *number)
{
	char *end;

	errno = 0;
	*number = strtoull(text, &end, 0);
	return text[0] < '0' || text[0] > '9' || errno || *number > most ? NULL : end;
}

/* Reads one item of the list and returns the text after it; null if it is malformed. */
static const char *read_counter(struct counter *counter, const char *text)
{
	size_t length = strcspn(text, "=,");
	uint64_t type;

	if (text[length] != '=' || !length || length >= sizeof counter->name)
		return NULL;
	memcpy(counter->name, text, length);
	text = parse_number(text + length + 1, UINT32_MAX, &type);
	counter->event.type = (uint32_t)type;
	if (!text || *text != ':')
		return NULL;
	text = parse_number(text + 1, UINT64_MAX, &counter->event.config);
	if (!text)
		return NULL;
	counter->event.kernel = !strncmp(text, ":k", 2);
	return text + (counter->event.kernel ? 2 : 0);
}

int counters_parse(struct counters *counters, const char *text, struct refusal *refusal)
{
	const char *next = text;

	*counters = (struct counters){0};
	while (next && *next) {
		if (counters->count == COUNTERS_MAX)
			return refuse(refusal, EXIT_OPTIONS, "--counters takes at most %d events",
				      COUNTERS_MAX);
		next = read_counter(&counters->counter[counters->count++], next);
		if (!next || (*next && *next != ','))
			return refuse(refusal, EXIT_OPTIONS,
				      "--counters wants a list like cycles=0:0,faults=1:2, not "
				      "'%s'",
				      text);
		next += *next == ',';
	}
	return 0;
}

/* Every thread has a file open for each event: more of them than many limits foresee. */
static void raise_file_limit(size_t wanted)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= wanted)
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

static void try_counter(struct counter *counter)
{
	int opened = os_counter_open(&counter->event);
	struct event_count count;

	if (opened < 0)
		counter->refused = os_explain_counter_refusal(opened);
	else
		os_counter_read_and_close(opened, &count);
}

/* Adds `first` and later counters refused for its reason; nothing if an earlier one has that
 * reason. */
static void add_refused_for_same_reason(struct text *text, const struct counters *counters,
					size_t first)
{
	const char *reason = counters->counter[first].refused;

	for (size_t i = 0; i < first; i++)
		if (counters->counter[i].refused && !strcmp(counters->counter[i].refused, reason))
			return;
	text_add(text, "%s", text->length ? "; " : "");
	for (size_t i = first; i < counters->count; i++)
		if (counters->counter[i].refused && !strcmp(counters->counter[i].refused, reason))
			text_add(text, "%s%s", i == first ? "" : ", ", counters->counter[i].name);
	text_add(text, " (%s)", reason);
}

void counters_try_all(struct counters *counters, size_t threads, struct notes *notes)
{
	enum { OTHER_FILES = 64 };
	struct text text = {0};

	if (counters->count)
		raise_file_limit(counters->count * threads + OTHER_FILES);
	for (size_t i = 0; i < counters->count; i++)
		try_counter(&counters->counter[i]);
	for (size_t i = 0; i < counters->count; i++)
		if (counters->counter[i].refused)
			add_refused_for_same_reason(&text, counters, i);
	if (text.length)
		notes_add(notes, "Not counted: %s.", text.data);
	text_free(&text);
}

bool counters_has_any(const struct counters *counters)
{
	for (size_t i = 0; i < counters->count; i++)
		if (!counters->counter[i].refused)
			return true;
	return false;
}

void counters_open(const struct counters *counters, int opened[COUNTERS_MAX])
{
	for (size_t i = 0; i < counters->count; i++)
		opened[i] = counters->counter[i].refused
				    ? -1
				    : os_counter_open(&counters->counter[i].event);
}

void counters_read_and_close(const struct counters *counters, const int opened[COUNTERS_MAX],
			     struct event_count counts[COUNTERS_MAX])
{
	for (size_t i = 0; i < counters->count; i++)
		if (opened[i] >= 0)
			os_counter_read_and_close(opened[i], &counts[i]);
}
