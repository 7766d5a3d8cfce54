/*
 * libxsmm_gemm.c: the time of an operation of libxsmm's product of bf16, 256 x
 * 256 x 256, in fp32, C from zero each time, with its A (the second matrix of a
 * product in rows) in the order of its "VNNI" layout. Prints the median of 21
 * samples of 4 products, in ps.
 *
 * Build: cc -O2 -Ilibxsmm/include libxsmm_gemm.c libxsmm/lib/libxsmm.a -lm
 * -lpthread -ldl
 */
#define _GNU_SOURCE
#include <libxsmm.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum {
  SIDE = 256,
  VALUES = SIDE * SIDE,
  SAMPLES = 21,
  PRODUCTS = 4,
  WARM = 200,
  HUGE = 2 << 20
};

static double now_ns(void) {
  struct timespec at;

  clock_gettime(CLOCK_MONOTONIC, &at);
  return at.tv_sec * 1e9 + at.tv_nsec;
}

static int compare(const void *one, const void *other) {
  double a = *(const double *)one, b = *(const double *)other;

  return (a > b) - (a < b);
}

int main(void) {
  libxsmm_gemm_shape shape = libxsmm_create_gemm_shape(
      SIDE, SIDE, SIDE, SIDE, SIDE, SIDE, LIBXSMM_DATATYPE_BF16,
      LIBXSMM_DATATYPE_BF16, LIBXSMM_DATATYPE_F32, LIBXSMM_DATATYPE_F32);
  libxsmm_gemmfunction multiply = libxsmm_dispatch_gemm(
      shape, LIBXSMM_GEMM_FLAG_BETA_0 | LIBXSMM_GEMM_FLAG_VNNI_A,
      LIBXSMM_GEMM_PREFETCH_NONE);
  libxsmm_gemm_param param = {0};
  double samples[SAMPLES];
  uint16_t *values = aligned_alloc(HUGE, HUGE);

  if (!multiply || !values)
    return 1;
  madvise(values, HUGE, MADV_HUGEPAGE);
  memset(values, 0, HUGE);
  for (int i = 0; i < 2 * VALUES; i++) { /* whole numbers from -4 to 4 */
    float value = (float)(i * 7 % 9 - 4);
    uint32_t bits;

    memcpy(&bits, &value, sizeof bits);
    values[i] = (uint16_t)(bits >> 16);
  }
  param.a.primary = values;
  param.b.primary = values + VALUES;
  param.c.primary = values + 2 * VALUES;
  for (int i = 0; i < WARM; i++)
    multiply(&param);
  for (int i = 0; i < SAMPLES; i++) {
    double from = now_ns();

    for (int j = 0; j < PRODUCTS; j++)
      multiply(&param);
    samples[i] = now_ns() - from;
  }
  qsort(samples, SAMPLES, sizeof *samples, compare);
  printf("%.4f\n",
         samples[SAMPLES / 2] * 1000 / (2.0 * VALUES * SIDE * PRODUCTS));
  fprintf(stderr, "%s\n", libxsmm_get_target_arch());
  return 0;
}
