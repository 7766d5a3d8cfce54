/* The variant `c11`: C's atomics as the compiler translates them. Always built, as a cross-check
 * for the asm and the fallback where there is none; a variant of its own, since compiler and flags
 * decide its loop. Builtins instead of stdatomic.h: older compilers have only these. */
#include "lock_loops.h"

#include <string.h>

TIMED void generic_cas_c11(uint32_t *line, uint32_t from, uint32_t to, uint32_t n)
{
	uint32_t expected;

	while (n--) {
		do {
			expected = from;
		} while (!__atomic_compare_exchange_n(line, &expected, to, 0, __ATOMIC_RELAXED,
						      __ATOMIC_RELAXED));
	}
}

TIMED void generic_readwrite_c11(uint32_t *watched, uint32_t *written, uint32_t from, uint32_t to,
				 uint32_t n)
{
	while (n--) {
		while (__atomic_load_n(watched, __ATOMIC_ACQUIRE) != from)
			;
		__atomic_store_n(written, to, __ATOMIC_RELEASE);
		from ^= 1;
		to ^= 1;
	}
}

TIMED uintptr_t generic_message_c11(const uintptr_t *word, uintptr_t old)
{
	uintptr_t seen;

	do {
		seen = __atomic_load_n(word, __ATOMIC_RELAXED);
	} while (seen == old);
	return seen;
}

TIMED void *generic_chase_c11(void *line, uint32_t n16)
{
	while (n16--)
		for (int i = 0; i < 16; i++)
			line = *(void *volatile *)line;
	return line;
}

TIMED void *generic_swap_c11(void *line, uint32_t n)
{
	while (n--)
		line = (void *)__atomic_fetch_add((uintptr_t *)line, 0, __ATOMIC_RELAXED);
	return line;
}

TIMED char *generic_load_c11(char *cursor, size_t stride, const char *end)
{
	for (; cursor < end; cursor += LINE_PAGE)
		for (size_t i = stride; i < LINE_PAGE; i += stride)
			(void)*(volatile uintptr_t *)(cursor + i);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return cursor;
}

TIMED char *generic_store_c11(char *cursor, size_t stride, const char *end)
{
	for (; cursor < end; cursor += LINE_PAGE)
		for (size_t i = stride; i < LINE_PAGE; i += stride)
			((volatile uintptr_t *)(cursor + i))[1] = (uintptr_t)(cursor + i);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return cursor;
}

TIMED char *generic_blocks_c11(char *cursor, size_t block, size_t step, const char *end)
{
	for (; cursor < end; cursor += step)
		for (char *line = cursor; line < cursor + block; line += 64)
			for (size_t i = 0; i < 64; i += sizeof(uintptr_t))
				*(volatile uintptr_t *)(line + i) = (uintptr_t)line;
	return cursor;
}

/* The result of an atomic operation must be used, or the compiler drops it. */
#define KEEP(value) __asm__ volatile("" : : "r"(value))

TIMED uint32_t generic_faa_c11(uint32_t *word, uint32_t n)
{
	while (n--)
		KEEP(__atomic_fetch_add(word, 1, __ATOMIC_RELAXED));
	return 0;
}

TIMED uint32_t generic_add_c11(uint32_t *word, uint32_t n)
{
	uint32_t tries = 0;

	while (n--) {
		uint32_t seen = __atomic_load_n(word, __ATOMIC_RELAXED);

		do {
			tries++;
		} while (!__atomic_compare_exchange_n(word, &seen, seen + 1, 1, __ATOMIC_RELAXED,
						      __ATOMIC_RELAXED));
	}
	return tries;
}

/* Not atomic: a load, an addition and a store. */
TIMED uint32_t generic_modify_once_c11(uint32_t *word, uint32_t n)
{
	while (n--)
		__atomic_store_n(word, __atomic_load_n(word, __ATOMIC_RELAXED) + 1,
				 __ATOMIC_RELAXED);
	return 0;
}

TIMED uint32_t generic_put_c11(uint32_t *word, uint32_t value, uint32_t n)
{
	uint32_t sum = 0;

	for (; n--; value++)
		sum += __atomic_exchange_n(word, value, __ATOMIC_RELAXED);
	return sum;
}

TIMED uint32_t generic_put_store_c11(uint32_t *word, uint32_t value, uint32_t n)
{
	for (; n--; value++)
		__atomic_store_n(word, value, __ATOMIC_RELAXED);
	return 0;
}

/* The loads are volatile, since the compiler would otherwise drop them. */
TIMED char *generic_read_c11(char *cursor, const char *from, size_t bytes)
{
	const volatile uint64_t *word = (const volatile uint64_t *)cursor;

	(void)from;
	for (size_t i = 0; i < bytes / sizeof *word; i += 8) {
		(void)word[i];
		(void)word[i + 1];
		(void)word[i + 2];
		(void)word[i + 3];
		(void)word[i + 4];
		(void)word[i + 5];
		(void)word[i + 6];
		(void)word[i + 7];
	}
	return cursor + bytes;
}

TIMED char *generic_write_c11(char *cursor, const char *from, size_t bytes)
{
	uint64_t *word = (uint64_t *)cursor;

	(void)from;
	for (size_t i = 0; i < bytes / sizeof *word; i++)
		word[i] = (uintptr_t)cursor + i;
	return cursor + bytes;
}

TIMED char *generic_modify_c11(char *cursor, const char *from, size_t bytes)
{
	uint64_t *word = (uint64_t *)cursor;

	(void)from;
	for (size_t i = 0; i < bytes / sizeof *word; i++)
		word[i]++;
	return cursor + bytes;
}

TIMED char *generic_copy_c11(char *cursor, const char *from, size_t bytes)
{
	const uint64_t *source = (const uint64_t *)from;
	uint64_t *word = (uint64_t *)cursor;

	for (size_t i = 0; i < bytes / sizeof *word; i++)
		word[i] = source[i];
	return cursor + bytes;
}

TIMED char *generic_copy_libc(char *cursor, const char *from, size_t bytes)
{
	return (char *)memcpy(cursor, from, bytes) + bytes;
}

TIMED char *generic_zero_libc(char *cursor, const char *from, size_t bytes)
{
	(void)from;
	return (char *)memset(cursor, 0, bytes) + bytes;
}

enum { ROWS = 4, COLUMNS = 8 };

/* Multiplies one tile, as a gemm_fn does. b_step: bytes of B from step to step. */
TIMED void multiply(const struct gemm_tile *tile, size_t b_step)
{
	float sum[ROWS][COLUMNS] = {{0}};
	const char *a = tile->a, *b = tile->b;

	for (size_t i = 0; tile->add && i < ROWS; i++)
		memcpy(sum[i], tile->c + i * tile->c_row, sizeof sum[i]);
	for (uint64_t step = 0; step < tile->steps; step++) {
		const float *columns = (const void *)b;

		for (size_t i = 0; i < ROWS; i++) {
			float value = *(const float *)(const void *)(a + i * tile->a_row);

			for (size_t j = 0; j < COLUMNS; j++)
				sum[i][j] += value * columns[j];
		}
		a += tile->a_step;
		b += b_step;
	}
	for (size_t i = 0; i < ROWS; i++)
		memcpy(tile->c + i * tile->c_row, sum[i], sizeof sum[i]);
}

static void generic_gemm_c11(const struct gemm_tile *tile)
{
	multiply(tile, COLUMNS * sizeof(float));
}

/* Multiplies the same few values `turns` times: they stay in the nearest cache. */
static void generic_peak_c11(const void *values, uint64_t turns)
{
	char c[ROWS * COLUMNS * sizeof(float)];
	const struct gemm_tile tile = {.a = values,
				       .a_row = sizeof(float),
				       .b = values,
				       .c = c,
				       .c_row = COLUMNS * sizeof(float),
				       .steps = turns};

	multiply(&tile, 0);
}

static const struct gemm generic_c11 = {
	.value = GEMM_FP32,
	.rows = ROWS,
	.columns = COLUMNS,
	.depth = 1,
	.pack = 1,
	.block = COLUMNS,
	.peak_operations = 2 * ROWS * COLUMNS,
	.multiply = generic_gemm_c11,
	.multiply_ahead = generic_gemm_c11,
	.peak = generic_peak_c11,
};

LOCKS(generic, c11, builtin, )

VARIANTS(generic_cas, {.name = "c11", .cas = generic_cas_c11});
VARIANTS(generic_readwrite, {.name = "c11", .readwrite = generic_readwrite_c11});
VARIANTS(generic_message, {.name = "c11", .receive = generic_message_c11});
VARIANTS(generic_chase, {.name = "c11", .chase = generic_chase_c11});
VARIANTS(generic_fetch, {.name = "c11",
			 .swap = generic_swap_c11,
			 .load = generic_load_c11,
			 .store = generic_store_c11});
VARIANTS(generic_interleave, {.name = "c11", .blocks = generic_blocks_c11});
VARIANTS(generic_contend,
	 {.name = "c11",
	  .cas = generic_cas_c11,
	  .add = {[OPERATION_FAA] = generic_faa_c11,
		  [OPERATION_CAS] = generic_add_c11,
		  [OPERATION_MODIFY] = generic_modify_once_c11},
	  .put = {[OPERATION_SWAP] = generic_put_c11, [OPERATION_STORE] = generic_put_store_c11},
	  .lock = {[OPERATION_TICKET] = generic_ticket_c11, [OPERATION_MCS] = generic_mcs_c11}});
VARIANTS(generic_stream,
	 {.name = "c11",
	  .stream = {[OPERATION_READ] = generic_read_c11,
		     [OPERATION_WRITE] = generic_write_c11,
		     [OPERATION_MODIFY] = generic_modify_c11,
		     [OPERATION_COPY] = generic_copy_c11}},
	 {.name = "libc",
	  .stream = {[OPERATION_ZERO] = generic_zero_libc, [OPERATION_COPY] = generic_copy_libc}});
VARIANTS(generic_gemm, {.name = "c11", .gemm = &generic_c11});
