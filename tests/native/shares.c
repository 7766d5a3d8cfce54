/* shares.c: what a load of `loaded` reads and writes. Arguments: mix or nt, and its share of reads;
 * prints the bytes that were read, written, and written past the caches. Nothing else is linked. */
#include "bench/loaded.c"

static size_t moved[OPERATIONS];

#define COUNTS(name, operation)                                                                    \
	static char *name(char *to, const char *from, size_t bytes)                                \
	{                                                                                          \
		moved[operation] += bytes;                                                         \
		return (char *)from + bytes + (to - from);                                         \
	}
COUNTS(count_read, OPERATION_READ)
COUNTS(count_write, OPERATION_WRITE)
COUNTS(count_nt, OPERATION_NT)

int main(int argc, char **argv)
{
	static struct side side;
	static struct variant variant = {.stream = {[OPERATION_READ] = count_read,
						    [OPERATION_WRITE] = count_write,
						    [OPERATION_NT] = count_nt}};
	struct point point = {.operation = argc > 1 && *argv[1] == 'n' ? OPERATION_NT : OPERATION_MIX,
			      .load_mbps = LOAD_FULL,
			      .load_variant = &variant,
			      .load_bytes = 1 << 20,
			      .read_percent = (uint32_t)atoi(argv[argc - 1])};

	side.point = &point;
	side.load.due = UINT64_MAX;
	side.load.grain = PART;
	for (int i = 0; i < 12000; i++)
		transfer_due_parts(&side);
	printf("%zu %zu %zu\n", moved[OPERATION_READ], moved[OPERATION_WRITE], moved[OPERATION_NT]);
	return (int)side.odd;
}
