/* lines.c: mapping, placing and retiring the lines of lines.h. */
#include "machine/lines.h"

#include "machine/arena.h"
#include "native/native.h"

#include <stdio.h>

enum { RETIRED_MAX = 32 };

static struct lines fixed; /* once mapped, for the whole run */

static uint32_t *address_at(const struct lines *lines, size_t offset)
{
	return (uint32_t *)((char *)lines->start + offset);
}

/* Chooses one line in each of two neighbouring pages. */
static void choose_lines_in_two_pages(struct lines *lines, struct random *random)
{
	size_t page_bytes = os_page_bytes(), slots = page_bytes / LINE_BYTES;
	size_t page = random_below(random, lines->bytes / page_bytes - LINES_MAX + 1);
	size_t slot = random_below(random, slots);

	for (size_t i = 0; i < LINES_MAX; i++) {
		lines->line[i] = address_at(lines, (page + i) * page_bytes + slot * LINE_BYTES);
		slot = (slot + 1 + random_below(random, slots - 1)) % slots;
	}
}

static void choose_separated_lines(struct lines *lines, size_t separation, struct random *random)
{
	size_t slots = (lines->bytes - separation) / LINE_BYTES;
	size_t offset = random_below(random, slots) * LINE_BYTES;

	lines->line[0] = address_at(lines, offset);
	lines->line[1] = address_at(lines, offset + separation);
}

static int map_lines(struct lines *lines, const struct placement *placement)
{
	size_t page_bytes = os_page_bytes();
	size_t pages = placement->separation_bytes
			       ? 1 + (placement->separation_bytes + page_bytes - 1) / page_bytes
			       : LINES_MAX;
	int err;

	if (placement->huge_page) {
		lines->bytes = 1;
		err = os_huge_pages_map(&lines->start, &lines->bytes);
	} else {
		lines->bytes = pages * page_bytes;
		err = os_pages_map(pages, &lines->start);
	}
	if (!err && placement->node >= 0)
		err = os_pages_bind(lines->start, lines->bytes, placement->node);
	return err;
}

int lines_map(struct lines *lines, size_t count, const struct placement *placement,
	      struct random *random)
{
	if (placement->fixed && fixed.start) {
		*lines = fixed;
		lines->count = count;
		return 0;
	}
	*lines = (struct lines){.count = count, .is_fixed = placement->fixed};
	int err = map_lines(lines, placement);

	if (err) {
		if (lines->start)
			arena_unmap(lines->start, lines->bytes);
		lines->start = NULL;
		return err;
	}
	if (placement->separation_bytes)
		choose_separated_lines(lines, placement->separation_bytes, random);
	else
		choose_lines_in_two_pages(lines, random);
	if (placement->fixed)
		fixed = *lines;
	return 0;
}

/* Large memory is unmapped at once: huge pages may be few. */
void lines_retire(struct lines *lines)
{
	static struct lines retired[RETIRED_MAX];
	static size_t next;

	if (!lines->start || lines->is_fixed)
		return;
	if (lines->bytes > RETIRED_MAX * os_page_bytes()) {
		arena_unmap(lines->start, lines->bytes);
	} else {
		if (retired[next].start)
			arena_unmap(retired[next].start, retired[next].bytes);
		retired[next] = *lines;
		next = (next + 1) % RETIRED_MAX;
	}
	*lines = (struct lines){0};
}

void lines_abandon(struct lines *lines)
{
	if (lines->is_fixed)
		fixed = (struct lines){0};
	lines->is_fixed = false;
}

struct line_place line_locate(const void *line)
{
	uintptr_t address = (uintptr_t)line;
	struct line_place place = {.page = address / os_page_bytes(),
				   .offset = address % os_page_bytes()};
	void *page = (void *)(address - place.offset);
	int node;

	place.node = os_pages_find_nodes(page, 1, 0, &node) || node < 0 ? -1 : node;
	if (os_find_physical_page(page, &place.physical))
		place.physical = 0;
	return place;
}

bool lines_check_placement(const struct lines *lines, const struct placement *placement,
			   char *words, size_t room)
{
	for (size_t i = 0; placement->node >= 0 && i < lines->count; i++) {
		int node = line_locate(lines->line[i]).node;

		if (node == placement->node)
			continue;
		if (node < 0)
			snprintf(words, room,
				 "asked for node %d, but cannot tell where a line lies",
				 placement->node);
		else
			snprintf(words, room, "a line lies on node %d instead of %d", node,
				 placement->node);
		return false;
	}
	if (placement->huge_page && lines->count && os_huge_pages_check(lines->start)) {
		snprintf(words, room, "the lines do not lie in a huge page");
		return false;
	}
	return true;
}

int lines_try_huge_page(void)
{
	void *start = NULL;
	size_t bytes = 1;
	int err = os_huge_pages_map(&start, &bytes);

	if (!err) {
		__atomic_store_n((uint32_t *)start, 0, __ATOMIC_RELAXED);
		err = os_huge_pages_check(start);
		arena_unmap(start, bytes);
	}
	return err;
}
