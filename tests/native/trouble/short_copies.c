/* A C library that copies all but the last byte of 2 KiB. */
#include <stddef.h>

void *memcpy(void *to, const void *from, size_t bytes)
{
	char *put = to;
	const char *taken = from;

	for (size_t i = 0; i < bytes - (bytes == 2048); i++)
		put[i] = taken[i];
	return to;
}
