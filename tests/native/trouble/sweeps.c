/*
 * A program in the place of the agent: runs every loop that goes through memory, on bytes between
 * pages that may not be touched, and prints for each: variant, operation, and "ok" or what it did.
 */
#include "native/native.h"

#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { BYTES = 64 << 10, GAP = 64 << 10, BLOCK = 2 << 10 };

static const char *const operations[OPERATIONS] = {"read",   "write", "nt",    "zero",
						   "modify", "copy",  "ntcopy"};
static unsigned char before[BYTES], source[BYTES], *to, *from;
static sigjmp_buf after_fault;

static void leave(int signal)
{
	siglongjmp(after_fault, signal);
}

/* Bytes of which no 8 in a row are alike, or 0. */
static void fill(unsigned char *bytes, uint32_t number)
{
	for (size_t i = 0; i < BYTES; i++) {
		number = number * 1664525 + 1013904223;
		bytes[i] = (unsigned char)(number >> 24 | 1);
	}
}

static uint64_t word(const unsigned char *at, size_t bytes)
{
	uint64_t wide = 0;
	uint32_t narrow;

	if (bytes == sizeof wide)
		return memcpy(&wide, at, sizeof wide), wide;
	return bytes == sizeof narrow ? (memcpy(&narrow, at, sizeof narrow), narrow) : *at;
}

/* Has each word of so many bytes grown by one? */
static bool has_grown(size_t first, size_t bytes)
{
	uint64_t mask = bytes == 8 ? UINT64_MAX : (UINT64_C(1) << 8 * bytes) - 1;

	for (size_t i = first; i < BYTES; i += bytes)
		if (((word(to + i, bytes) - word(before + i, bytes)) & mask) != 1)
			return false;
	return true;
}

static bool is_inverted(size_t first)
{
	for (size_t i = first; i < BYTES; i++)
		if ((to[i] ^ before[i]) != 0xff)
			return false;
	return true;
}

/* No word is as it was, or 0, and no two blocks are alike; a byte may be the same in all blocks. */
static const char *check_written(size_t first, bool bytes)
{
	size_t each = bytes ? 1 : 8;

	for (size_t i = first; i < BYTES; i += each)
		if (!word(to + i, each) || (!bytes && word(to + i, each) == word(before + i, each)))
			return "left words out, or stored zeros";
	for (size_t i = first + BLOCK; i < BYTES && !bytes; i += BLOCK)
		if (!memcmp(to + i, to + i - BLOCK, BLOCK))
			return "stored the same in two blocks";
	return NULL;
}

static const char *check_left(enum operation operation, size_t first, bool bytes)
{
	static const unsigned char zeros[BYTES];

	if (memcmp(to, before, first) || memcmp(from, source, BYTES))
		return "changed what it was not given";
	switch (operation) {
	case OPERATION_READ:
		return memcmp(to, before, BYTES) ? "changed what it read" : NULL;
	case OPERATION_WRITE:
	case OPERATION_NT:
		return check_written(first, bytes);
	case OPERATION_ZERO:
		return memcmp(to + first, zeros, BYTES - first) ? "left bytes out" : NULL;
	case OPERATION_MODIFY:
		return has_grown(first, 8) || has_grown(first, 4) || has_grown(first, 1) ||
				       is_inverted(first)
			       ? NULL
			       : "did not change each word once";
	default:
		return memcmp(to + first, source + first, BYTES - first) ? "copied something else"
									 : NULL;
	}
}

/* Goes through the bytes from `first` on; null if the loop died. */
static char *go(stream_fn *stream, size_t first)
{
	if (sigsetjmp(after_fault, 1))
		return NULL;
	return stream((char *)to + first, (char *)from + first, BYTES - first);
}

/* Is every page of what is read looked at? */
static bool reads_pages(stream_fn *stream)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	bool all = true;

	for (size_t i = 0; i < BYTES; i += page) {
		mprotect(to + i, page, PROT_NONE);
		all = all && !go(stream, 0);
		mprotect(to + i, page, PROT_READ | PROT_WRITE);
	}
	return all;
}

/* Goes through the last so many bytes. */
static const char *run(const struct variant *variant, enum operation operation, size_t bytes)
{
	stream_fn *stream = variant->stream[operation];
	size_t first = BYTES - bytes;

	memcpy(to, before, BYTES);
	memcpy(from, source, BYTES);
	char *end = go(stream, first);

	if (!end)
		return "died";
	if (end != (char *)to + BYTES)
		return "did not end where it should";
	if (operation == OPERATION_READ && !first && !reads_pages(stream))
		return "did not read all";
	return check_left(operation, first, !strcmp(variant->name, "stosb"));
}

static void run_plan(const struct variant *variants)
{
	for (; variants->name; variants++)
		for (enum operation o = OPERATION_READ; o < OPERATIONS; o++) {
			if (variants->needs & ~os_features() || !variants->stream[o])
				continue;
			const char *words = run(variants, o, BYTES);

			words = words ? words : run(variants, o, BLOCK);
			printf("%s %s %s\n", variants->name, operations[o], words ? words : "ok");
		}
}

int main(void)
{
	const struct sigaction action = {.sa_handler = leave, .sa_flags = SA_NODEFER};
	unsigned char *all =
		mmap(NULL, 2 * BYTES + 3 * GAP, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (all == MAP_FAILED)
		return 1;
	to = all + GAP;
	from = to + BYTES + GAP;
	mprotect(to, BYTES, PROT_READ | PROT_WRITE);
	mprotect(from, BYTES, PROT_READ | PROT_WRITE);
	fill(before, 1);
	fill(source, 2);
	sigaction(SIGSEGV, &action, NULL);
	sigaction(SIGBUS, &action, NULL);
	sigaction(SIGILL, &action, NULL);
	run_plan(arch_stream);
	run_plan(generic_stream);
	return 0;
}
