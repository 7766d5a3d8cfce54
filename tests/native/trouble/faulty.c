/* An architecture that multiplies wrongly: one result is one too many, or is never stored. */
#include "native/native.h"

#include <errno.h>
#include <string.h>

const char arch_name[] = "faulty";

const struct variant arch_cas[] = {{.name = NULL}};
const struct variant arch_readwrite[] = {{.name = NULL}};
const struct variant arch_contend[] = {{.name = NULL}};
const struct variant arch_interleave[] = {{.name = NULL}};
const struct variant arch_message[] = {{.name = NULL}};
const struct variant arch_fetch[] = {{.name = NULL}};
flush_fn *const arch_flush = NULL;
const struct variant arch_chase[] = {{.name = NULL}};
const struct variant arch_stream[] = {{.name = NULL}};

/* A part of C of 4 by 4; the fault is at row 3, column 3 of each that lies at the start of a row.
 */
static void multiply(const struct gemm_tile *tile, float fault, size_t stored)
{
	for (size_t i = 0; i < 4; i++)
		for (size_t j = 0; j < stored; j++) {
			float *c = (float *)(tile->c + i * tile->c_row) + j;
			float sum = tile->add ? *c : 0;

			for (size_t p = 0; p < tile->steps; p++)
				sum += *(const float *)(tile->a + i * tile->a_row +
							p * tile->a_step) *
				       ((const float *)tile->b)[4 * p + j];
			*c = sum + (i == 3 && j == 3 ? fault : 0);
		}
}

static void one_too_many(const struct gemm_tile *tile)
{
	multiply(tile, 1, 4);
}

static void one_too_few(const struct gemm_tile *tile)
{
	multiply(tile, 0, 3);
}

static void half(const struct gemm_tile *tile)
{
	multiply(tile, 0.5f, 4);
}

static void peak(const void *values, uint64_t turns)
{
	const volatile float *value = values;

	while (turns--)
		(void)*value;
}

#define GEMM(loop)                                                                                 \
	&(const struct gemm)                                                                       \
	{                                                                                          \
		.value = GEMM_FP32, .rows = 4, .columns = 4, .depth = 1, .pack = 1, .block = 4,    \
		.peak_operations = 2, .multiply = loop, .multiply_ahead = loop, .peak = peak       \
	}

const struct variant arch_gemm[] = {{.name = "more", .gemm = GEMM(one_too_many)},
				    {.name = "fewer", .gemm = GEMM(one_too_few)},
				    {.name = "half", .gemm = GEMM(half)},
				    {.name = NULL}};

adds_fn *const arch_adds = NULL;

int arch_get_clock(struct clock *clock)
{
	clock->note = "this architecture has no counter";
	return -ENOTSUP;
}
