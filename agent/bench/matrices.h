/* matrices.h: what gemm multiplies: its points, where matrices lie, what they hold, the product. */
#ifndef FLEET_BENCH_MATRICES_H
#define FLEET_BENCH_MATRICES_H

#include "bench/sizes.h"

/* Adds the points of the context's variant. */
int gemm_add_points(const struct options *options, const struct point_context *context,
		    struct points *points, struct refusal *refusal);

void gemm_compute_layout(const struct gemm *gemm, const struct point *point,
			 struct gemm_layout *layout);

/* Returns how many copies of the streamed matrices fit in so many bytes: at least 2, and at most as
 * many as C can add up. */
uint32_t gemm_count_copies(const struct gemm *gemm, const struct point *point, uint64_t bytes);

/* Small whole numbers and their product: exact in every kind of value, in any order of sums. */
struct gemm_reference {
	uint32_t m, n, k;
	bool is_unsigned; /* the values of A */
	int8_t *a, *b;
	int32_t *c;
	struct gemm_reference *next;
};

/* Returns the reference of a shape, made at its first use; null if out of memory or if the run must
 * end. Not thread-safe. */
const struct gemm_reference *gemm_get_reference(const struct gemm *gemm, const struct point *point);

/* Writes a copy of A or B where and as the layout says. */
void gemm_write_a(const struct gemm *gemm, const struct gemm_layout *layout,
		  const struct gemm_reference *reference, char *to);
void gemm_write_b(const struct gemm *gemm, const struct gemm_reference *reference, char *to);

/* Writes 2 KiB of values for registers. */
void gemm_write_register_values(const struct gemm *gemm, char *to);

/* Reports whether C is `times` the reference, bit for bit. If not, says in words how many values
 * differ, and the first. */
bool gemm_check_sums(const struct gemm *gemm, const struct gemm_layout *layout,
		     const struct gemm_reference *reference, const char *c, uint32_t times,
		     char *words, size_t room);

#endif
