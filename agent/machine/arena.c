/* arena.c: mapping, writing and giving back the memory of arena.h. */
#include "machine/arena.h"

#include "base/stop.h"
#include "native/native.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_WORDS = 64 / sizeof(uint64_t), TRIED_BYTES = 4 << 20, PART_BYTES = 4 << 20 };

static struct arena *arenas; /* ascending by key */
static size_t arena_count;
static bool keeps_last;

/* Returns the key that identifies an arena; arenas are sorted by it. */
static uint64_t arena_key(int cpu, bool huge_pages, int node)
{
	return (uint64_t)cpu << 12 | (uint64_t)huge_pages << 11 | (uint64_t)(node + 1);
}

/* Returns where an arena is in the list, or where to insert it. */
static size_t find_key_position(uint64_t key)
{
	size_t first = 0, last = arena_count;

	while (first < last) {
		size_t middle = first + (last - first) / 2;

		if (arenas[middle].key < key)
			first = middle + 1;
		else
			last = middle;
	}
	return first;
}

static struct arena *find_arena(uint64_t key)
{
	size_t place = find_key_position(key);

	return place < arena_count && arenas[place].key == key ? &arenas[place] : NULL;
}

void arena_clear_reservations(void)
{
	arena_count = 0;
}

int arena_reserve(int cpu, bool huge_pages, int node, size_t bytes)
{
	uint64_t key = arena_key(cpu, huge_pages, node);
	struct arena *arena = find_arena(key);

	if (!arena) {
		struct arena *more = realloc(arenas, (arena_count + 1) * sizeof *arenas);

		if (!more)
			return -ENOMEM;
		arenas = more;
		arena = &arenas[find_key_position(key)];
		memmove(arena + 1, arena, (size_t)(arenas + arena_count++ - arena) * sizeof *arena);
		*arena = (struct arena){.key = key, .huge_pages = huge_pages, .node = node};
	}
	if (arena->wanted_bytes < bytes)
		arena->wanted_bytes = bytes;
	return 0;
}

uint64_t arena_total_bytes(size_t page_bytes, size_t huge_page_bytes, int node)
{
	uint64_t total = 0;

	for (size_t i = 0; i < arena_count; i++) {
		size_t page = arenas[i].huge_pages ? huge_page_bytes : page_bytes;

		if (node == ALL_NODES || arenas[i].node == node)
			total += (arenas[i].wanted_bytes + page - 1) / page * page;
	}
	return total;
}

void arena_unmap(void *start, size_t bytes)
{
	char reason[64];
	int err = os_pages_unmap(start, bytes);

	if (!err)
		return;
	snprintf(reason, sizeof reason, "munmap: %s", strerror(-err));
	stop_record_reason(reason);
}

static void unmap_arena(struct arena *arena)
{
	if (arena->start)
		arena_unmap(arena->start, arena->bytes);
	arena_abandon(arena);
}

void arena_abandon(struct arena *arena)
{
	arena->start = NULL;
	arena->written_bytes = 0;
	arena->cycle = NULL;
	arena->checked = false;
	*arena->astray = '\0';
}

void arena_enable_round_overlap(void)
{
	keeps_last = true;
}

void arena_end_round(void)
{
	for (size_t i = 0; i < arena_count; i++) {
		struct arena *arena = &arenas[i];

		if (arena->last_start)
			arena_unmap(arena->last_start, arena->last_bytes);
		arena->last_start = keeps_last ? arena->start : NULL;
		arena->last_bytes = arena->bytes;
		if (keeps_last)
			arena_abandon(arena);
		else
			unmap_arena(arena);
	}
}

static int map_arena(struct arena *arena)
{
	size_t page_bytes = os_page_bytes(),
	       pages = (arena->wanted_bytes + page_bytes - 1) / page_bytes;
	void *start = NULL;
	int err;

	arena->page_bytes = arena->huge_pages ? os_huge_page_bytes() : page_bytes;
	if (arena->huge_pages) {
		arena->bytes = arena->wanted_bytes;
		err = os_huge_pages_map(&start, &arena->bytes);
	} else {
		arena->bytes = pages * page_bytes;
		err = os_pages_map(pages, &start);
	}
	arena->start = start;
	return err;
}

int arena_acquire(int cpu, bool huge_pages, int node, struct arena **taken)
{
	struct arena *arena = find_arena(arena_key(cpu, huge_pages, node));

	if (!arena)
		return -ENOENT;
	*taken = arena;
	if (arena->start)
		return 0;
	int err = map_arena(arena);

	if (!err && node >= 0)
		err = os_pages_bind(arena->start, arena->bytes, node);
	if (err)
		unmap_arena(arena);
	return err;
}

bool arena_write_more(struct arena *arena, size_t wanted_bytes)
{
	uint64_t *words = (uint64_t *)arena->start;

	if (arena->written_bytes >= wanted_bytes)
		return false;
	size_t left = arena->bytes - arena->written_bytes;
	size_t bytes = left < PART_BYTES ? left : PART_BYTES;
	size_t first = arena->written_bytes / sizeof *words, count = bytes / sizeof *words;

	for (size_t i = first; i < first + count; i++)
		words[i] = (uintptr_t)&words[i / LINE_WORDS * LINE_WORDS];
	arena->written_bytes += bytes;
	arena->checked = false;
	return bytes > 0;
}

/* Writes to arena->astray how many pages lie on which other nodes. */
static void describe_misplaced_pages(struct arena *arena, const size_t counts[NODE_NUMBERS],
				     size_t pages)
{
	size_t room = sizeof arena->astray, length = 0;
	char total[48];

	snprintf(total, sizeof total, " of %zu pages", pages);
	for (int node = 0; node < NODE_NUMBERS && length < room; node++)
		if (counts[node] && node != arena->node)
			length += (size_t)snprintf(arena->astray + length, room - length,
						   "%s%zu%s on node %d", length ? ", " : "",
						   counts[node], length ? "" : total, node);
}

void arena_check_nodes(struct arena *arena)
{
	size_t step = arena->page_bytes, pages = (arena->written_bytes + step - 1) / step;
	size_t counts[NODE_NUMBERS] = {0}, told = 0;
	int nodes[PAGES_ASKED];

	if (arena->node < 0 || *arena->astray)
		return;
	for (size_t page = 0, count; page < pages; page += count) {
		count = pages - page < PAGES_ASKED ? pages - page : PAGES_ASKED;
		int err = os_pages_find_nodes(arena->start + page * step, count, step, nodes);

		for (size_t i = 0; !err && i < count; i++)
			if (nodes[i] >= 0 && nodes[i] < NODE_NUMBERS) {
				counts[nodes[i]]++;
				told++;
			}
	}
	if (told < pages)
		snprintf(arena->astray, sizeof arena->astray,
			 "asked for node %d, but cannot tell where %zu of %zu pages lie",
			 arena->node, pages - told, pages);
	else if (counts[arena->node] < pages)
		describe_misplaced_pages(arena, counts, pages);
}

static bool check_huge_pages(const struct arena *arena, char *words, size_t room)
{
	if (arena->checked || !arena->huge_pages || !os_huge_pages_check(arena->start))
		return true;
	snprintf(words, room, "not all of the memory lies in huge pages");
	return false;
}

bool arena_check_placement(struct arena *arena, char *words, size_t room)
{
	arena->checked |= check_huge_pages(arena, words, room);
	arena_check_nodes(arena);
	if (arena->checked && !*arena->astray)
		return true;
	if (*arena->astray)
		snprintf(words, room, "%s", arena->astray);
	unmap_arena(arena);
	return false;
}

bool arena_has_huge_pages(void)
{
	struct arena arena = {.wanted_bytes = TRIED_BYTES, .huge_pages = true};

	if (map_arena(&arena)) {
		unmap_arena(&arena);
		return false;
	}
	while (arena_write_more(&arena, TRIED_BYTES))
		;
	bool huge = !os_huge_pages_check(arena.start);

	unmap_arena(&arena);
	return huge;
}
