/* sizes.c: see sizes.h. */
#include "bench/sizes.h"

#include "base/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t outside_least = UINT64_C(64) << 20;

int points_add(struct points *points, const struct point *point, struct refusal *refusal)
{
	if (points->count == points->room) {
		size_t room = points->room ? 2 * points->room : 64;
		struct point *more = realloc(points->list, room * sizeof *more);

		if (!more)
			return refuse(refusal, EXIT_OTHER, "out of memory");
		points->list = more;
		points->room = room;
	}
	points->list[points->count++] = *point;
	return 0;
}

bool points_has_name(const struct points *points, const char *name)
{
	for (size_t i = 0; i < points->count; i++)
		if (!strcmp(points->list[i].name, name))
			return true;
	return false;
}

bool points_have_huge_pages(const struct point_context *context)
{
	return context->huge_pages &&
	       (context->benchmark->huge_pages ? !context->base_asked : context->huge_asked);
}

static int refuse_word(const char *option, const char *list, const char *(*word)(unsigned value),
		       unsigned count, struct refusal *refusal)
{
	struct text valid = {0};

	for (unsigned i = 0; i < count; i++)
		if (word(i))
			text_add(&valid, "%s%s", valid.length ? ", " : "", word(i));
	refuse(refusal, EXIT_OPTIONS, "--%s has no '%.*s'; there is: %s", option,
	       (int)strcspn(list, ","), list, valid.data);
	text_free(&valid);
	return -1;
}

int read_words_as_mask(const char *option, const char *list, const char *(*word)(unsigned value),
		       unsigned count, uint32_t *mask, struct refusal *refusal)
{
	for (*mask = 0;; list++) {
		size_t span = strcspn(list, ",");
		unsigned i = 0;

		while (i < count &&
		       (!word(i) || strlen(word(i)) != span || strncmp(word(i), list, span)))
			i++;
		if (i == count)
			return refuse_word(option, list, word, count, refusal);
		*mask |= 1u << i;
		list += span;
		if (!*list)
			return 0;
	}
}

static bool read_size(const char **next, uint64_t *bytes)
{
	static const char units[] = "KMG";
	const char *end = text_read_number(*next, SIZE_MOST, bytes);
	const char *unit = end && *end ? strchr(units, *end) : NULL;

	if (!end)
		return false;
	*bytes <<= unit ? 10 * (unit - units + 1) : 0;
	*next = end + (unit != NULL);
	return *bytes <= SIZE_MOST;
}

bool read_size_range(const char **next, bool (*is_whole_pages)(uint64_t bytes), uint64_t *first,
		     uint64_t *last)
{
	if (!read_size(next, first))
		return false;
	*last = *first;
	if (!strncmp(*next, "..", 2)) {
		*next += 2;
		if (!read_size(next, last))
			return false;
	}
	return (!**next || **next == ',') && is_whole_pages(*first) && is_whole_pages(*last) &&
	       *first <= *last;
}

void format_size(uint64_t bytes, char name[SIZE_ROOM])
{
	static const char units[] = "KMG";
	int unit = -1;

	while (unit < 2 && bytes && bytes % 1024 == 0) {
		bytes /= 1024;
		unit++;
	}
	snprintf(name, SIZE_ROOM, "%" PRIu64 "%.1s", bytes, unit < 0 ? "" : units + unit);
}

static int compare_sizes(const void *a, const void *b)
{
	uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;

	return (left > right) - (left < right);
}

/* Adds a size, in whole pages and once; leaves it out if the list is full. */
static void add_size(struct sizes *sizes, uint64_t bytes)
{
	bytes = bytes / SIZE_STEP * SIZE_STEP;
	for (size_t i = 0; i < sizes->count; i++)
		if (sizes->bytes[i] == bytes)
			return;
	if (bytes && sizes->count < SIZES_MAX)
		sizes->bytes[sizes->count++] = bytes;
}

/* Two steps an octave: 16K, 24K, 32K, ... */
static void add_size_range(struct sizes *sizes, uint64_t first, uint64_t last)
{
	for (uint64_t bytes = first; bytes <= last; bytes *= 2) {
		add_size(sizes, bytes);
		if (bytes + bytes / 2 <= last)
			add_size(sizes, bytes + bytes / 2);
	}
}

const struct cpu_cache *last_data_cache(const struct cpu_facts *facts)
{
	const struct cpu_cache *last = NULL;

	for (size_t i = 0; i < facts->cache_count; i++) {
		const struct cpu_cache *cache = &facts->caches[i];

		if (cache->bytes > 0 && strcmp(cache->kind, "Instruction") &&
		    (!last || cache->level > last->level))
			last = cache;
	}
	return last;
}

uint64_t size_outside_caches(const struct point_context *context, uint32_t threads, uint64_t most)
{
	const struct cpu_cache *last = last_data_cache(context->facts);
	uint64_t cache = last ? (uint64_t)last->bytes * threads : 0;

	if (cache > context->cache_bytes)
		cache = context->cache_bytes;
	uint64_t bytes = 4 * cache / threads / (1 << 20) * (1 << 20);

	return bytes < outside_least ? outside_least : bytes > most ? most : bytes;
}

static void add_around_caches(struct sizes *sizes, const struct cpu_facts *facts, uint64_t most)
{
	const struct cpu_cache *last = last_data_cache(facts);
	uint64_t outside = last ? 4 * (uint64_t)last->bytes : UINT64_C(64) << 20;

	if (outside > most)
		outside = most;
	if (!last)
		add_size_range(sizes, 16 << 10, outside);
	for (size_t i = 0; i < facts->cache_count; i++) {
		uint64_t bytes = facts->caches[i].bytes > 0 ? (uint64_t)facts->caches[i].bytes : 0;
		const uint64_t around[] = {bytes / 4, bytes / 2, bytes / 4 * 3, 2 * bytes,
					   4 * bytes};

		if (!strcmp(facts->caches[i].kind, "Instruction"))
			continue;
		for (size_t k = 0; k < sizeof around / sizeof *around; k++)
			if (around[k] <= outside)
				add_size(sizes, around[k]);
	}
	add_size(sizes, outside);
}

static bool is_whole_pages(uint64_t bytes)
{
	return bytes && bytes % SIZE_STEP == 0;
}

int read_sizes(const char *text, const struct cpu_facts *facts, uint64_t most, struct sizes *sizes,
	       struct refusal *refusal)
{
	const char *next = text;

	sizes->count = 0;
	if (!strcmp(text, "auto")) {
		add_around_caches(sizes, facts, most);
	} else {
		for (;; next++) {
			uint64_t first, last;

			if (!read_size_range(&next, is_whole_pages, &first, &last))
				return options_refuse_value("sizes", text, refusal);
			add_size_range(sizes, first, last);
			if (!*next)
				break;
		}
	}
	qsort(sizes->bytes, sizes->count, sizeof *sizes->bytes, compare_sizes);
	return 0;
}
