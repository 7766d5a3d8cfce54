/* An architecture whose loops end where they should, but each does something else on the way. */
#include "native/native.h"

#include <errno.h>
#include <string.h>

const char arch_name[] = "untidy";

const struct variant arch_cas[] = {{.name = NULL}};
const struct variant arch_readwrite[] = {{.name = NULL}};
const struct variant arch_chase[] = {{.name = NULL}};

static char *read_half(char *at, const char *from, size_t bytes)
{
	(void)from;
	for (size_t i = 0; i < bytes / 2; i++)
		(void)*(volatile char *)(at + i);
	return at + bytes;
}

static char *write_alike(char *at, const char *from, size_t bytes)
{
	(void)from;
	return (char *)memset(at, 1, bytes) + bytes;
}

static char *write_beyond(char *at, const char *from, size_t bytes)
{
	(void)from;
	return (char *)memset(at, 1, bytes + 1) + bytes;
}

static char *zero_less(char *at, const char *from, size_t bytes)
{
	(void)from;
	return (char *)memset(at, 0, bytes - 1) + bytes;
}

static char *modify_twice(char *at, const char *from, size_t bytes)
{
	(void)from;
	for (size_t i = 0; i < bytes; i++)
		at[i] += 2;
	return at + bytes;
}

static char *copy_back(char *at, const char *from, size_t bytes)
{
	return (char *)memcpy((char *)from, at, bytes) - from + at + bytes;
}

static char *copy_less(char *at, const char *from, size_t bytes)
{
	return (char *)memcpy(at, from, bytes - 64) + bytes - 64;
}

const struct variant arch_stream[] = {
	{.name = "untidy",
	 .stream = {read_half, write_alike, write_beyond, zero_less, modify_twice, copy_back,
		    copy_less}},
	{.name = NULL},
};

adds_fn *const arch_adds = NULL;

int arch_get_clock(struct clock *clock)
{
	clock->note = "this architecture has no counter";
	return -ENOTSUP;
}
