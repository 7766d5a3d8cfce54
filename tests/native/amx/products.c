/*
 * products.c: the agent's own loops on tiles, on the simulator.
 *
 *   products KIND M N K    multiplies in every way the benchmark does, and
 *                          compares
 *   products peak KIND     does what gemm does on registers, and counts
 *   products tile STRIDE   reads a matrix of such rows as bandwidth does, in two
 *                          parts; also tileblock
 *   products unconfigured | released | small | twice | unknown
 */
#include KERNELS
#include "bench/matrices.h"
#include "bench/sizes.h"
#include "simulator.h"
#include "base/stop.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Nobody stops this program. */
bool stop_run_idle_and_check(void) { return false; }

enum { PART_STEPS_MOST = 8, LINES_OF_A_ROW = 4, LINE = 64 };

/* Row after row of C of each strip, where it is added to of the next, and of
 * the B that comes next, if asked. */
static bool prefetches(const struct gemm *gemm, const struct gemm_tile *tile,
                       bool ahead) {
  const uint64_t parts = (tile->steps + PART_STEPS_MOST - 1) / PART_STEPS_MOST;
  const uint64_t rows_a_step = gemm->depth / 16;
  const char *of_b = tile->ahead;
  uint64_t left = tile->steps, lines = 0, lines_of_b = 0;
  bool right = true;

  for (uint64_t part = parts; part > 0; part--) {
    uint64_t steps = (left + part - 1) / part;
    bool adds = tile->add || part < parts;

    for (uint64_t strip = 0; strip < tile->strips; strip++)
      for (uint64_t row = 0; row < rows_a_step * steps; row++)
        for (int i = 0; i < LINES_OF_A_ROW; i++)
          right &= simulator_prefetched(
              1, (long)lines++,
              tile->c + ((strip + adds) * gemm->rows + row) * tile->c_row +
                  i * LINE);
    for (uint64_t step = 0; ahead && step < tile->strips * steps; step++) {
      for (int i = 0; i < LINES_OF_A_ROW; i++)
        right &= simulator_prefetched(3, (long)lines_of_b++, of_b + i * LINE);
      of_b += tile->ahead_step;
    }
    left -= steps;
  }
  return right && simulator_prefetches(1) == (long)lines &&
         simulator_prefetches(3) == (long)lines_of_b;
}

/* All strips of these shapes fit into one call. */
static int product(const struct gemm *gemm, struct point point, bool ahead) {
  const struct gemm_reference *reference = gemm_get_reference(gemm, &point);
  struct gemm_layout layout;
  char words[160];

  gemm_compute_layout(gemm, &point, &layout);
  char *c = aligned_alloc(4096, (layout.bytes + 8191) / 4096 * 4096);
  char *a = c + layout.c_bytes, *b = a + layout.a_bytes;
  uint32_t times = point.operation == GEMM_DEEP ? 2 : 1;

  memset(c, 0xff, layout.c_bytes);
  gemm_write_a(gemm, &layout, reference, a);
  gemm_write_b(gemm, reference, b);
  simulator_begin();
  gemm->begin();
  simulator_end();
  uint32_t down = point.m / gemm->rows / layout.strips;
  uint32_t calls = down * ((point.n + gemm->columns - 1) / gemm->columns);

  bool right = down == 1;

  for (uint32_t i = 0; i < times * calls; i++) {
    uint32_t row = i % calls % down, column = i % calls / down;
    const struct gemm_tile tile = {
        .a = a + row * layout.strips * layout.a_strip,
        .a_row = layout.a_row,
        .a_step = layout.a_step,
        .a_strip = layout.a_strip,
        .b = b + column * layout.b_panel,
        .c = c + row * layout.strips * gemm->rows * layout.c_row +
             column * gemm->columns * sizeof(int32_t),
        .c_row = layout.c_row,
        .strips = layout.strips,
        .steps = layout.steps,
        .add = i >= calls,
        .ahead = b,
        .ahead_step = layout.ahead_step};

    simulator_begin();
    (ahead ? gemm->multiply_ahead : gemm->multiply)(&tile);
    simulator_end();
    right &= prefetches(gemm, &tile, ahead);
  }
  simulator_begin();
  gemm->end();
  simulator_end();
  bool exact =
      gemm_check_sums(gemm, &layout, reference, c, times, words, sizeof words);

  if (!exact || !right)
    printf("%s\n", exact ? "not the calls or lines ahead" : words);
  free(c);
  return exact && right ? 0 : 1;
}

static int products(const struct gemm *gemm, char **sides) {
  static const uint8_t ways[] = {GEMM_ROWS, GEMM_ODD, GEMM_BLOCKED, GEMM_DEEP};
  int wrong = 0;

  for (size_t i = 0; i < sizeof ways; i++)
    wrong |= product(gemm,
                     (struct point){.operation = ways[i],
                                    .m = (uint32_t)atoi(sides[0]),
                                    .n = (uint32_t)atoi(sides[1]),
                                    .k = (uint32_t)atoi(sides[2]),
                                    .copies = 1},
                     ways[i] == GEMM_ODD);
  return wrong;
}

static void configure(uint8_t rows) {
  static uint8_t bytes[64] __attribute__((aligned(64)));

  memcpy(bytes, &configuration, sizeof bytes);
  bytes[48 + 4] = rows;
  __asm__ volatile(CONFIGURE : : "a"(bytes), "m"(bytes));
}

/* Each of these must end in the simulator. */
static void misuse(const char *what) {
  static char memory[64 << 10] __attribute__((aligned(4096)));
  const struct gemm_tile tile = {.a = memory,
                                 .a_row = 64,
                                 .b = memory,
                                 .c = memory,
                                 .c_row = 256,
                                 .strips = 1,
                                 .steps = 1,
                                 .ahead = memory};

  simulator_begin();
  if (strcmp(what, "unconfigured"))
    configure(!strcmp(what, "small") ? 8 : 16);
  if (!strcmp(what, "released"))
    x86_64_amx_end();
  if (!strcmp(what, "twice")) /* tdpbf16ps %tmm4, %tmm4, %tmm0 */
    __asm__ volatile(".byte 0xc4, 0xe2, 0x5a, 0x5c, 0xc4");
  if (!strcmp(what, "unknown")) /* tdpbuud %tmm6, %tmm4, %tmm0 */
    __asm__ volatile(".byte 0xc4, 0xe2, 0x48, 0x5e, 0xc4");
  x86_64_amx_bf16.multiply(&tile);
  simulator_end();
}

/* The benchmark's own work on a side, so many units in each call. */
static bool done(const struct benchmark *benchmark, struct side *side,
                 const uint32_t *units, size_t calls) {
  simulator_begin();
  benchmark->set_up(side, 1, NULL);
  bool prepared = !benchmark->prepare(side);
  for (size_t i = 0; i < calls; i++)
    benchmark->do_units(side, units[i]);
  benchmark->finish(side);
  simulator_end();
  return prepared && side->first == benchmark->units_in_grain(side->point);
}

/* In two calls, of which the second begins within a row of tiles. */
static int reads(const struct tiles *tiles, size_t stride) {
  enum { HEIGHT = 48, MOST = 2048 };
  static char memory[HEIGHT * MOST] __attribute__((aligned(4096)));
  static uint8_t loads[sizeof memory];
  size_t columns = stride / TILE_ROW_BYTES, bytes = HEIGHT * stride;
  uint32_t first = (uint32_t)(columns + columns / 2) * TILE_BYTES;
  const struct variant variant = {.tiles = tiles};
  const struct point point = {.operation = OPERATION_READ,
                              .bytes = bytes,
                              .stride_bytes = (uint32_t)stride};
  struct side side = {.variant = &variant, .point = &point, .arena = memory};

  simulator_watch(memory, sizeof memory, loads);
  bool right = done(&bench_bandwidth, &side,
                    (uint32_t[]){first, (uint32_t)bytes - first}, 2);
  for (size_t i = 0; i < sizeof memory; i++)
    if (loads[i] != (i < bytes)) {
      printf("byte %zu was loaded %d times\n", i, loads[i]);
      return 1;
    }
  printf("%ld\n", simulator_count());
  bool block = tiles == &x86_64_tileblock;
  return !right || side.first != bytes || side.odd || side.sweep.position || tiles->begin == tiles->end ||
         tiles->stride != (block ? 64 : 256) || tiles->is_fixed != block;
}

/* Four turns, asked for in parts; the values are 2 KiB, and nothing behind
 * them is loaded. A turn that is not asked for whole waits for the rest. */
static int peak(const struct gemm *gemm) {
  const uint32_t turn = (uint32_t)gemm->peak_operations;
  const uint32_t parts[] = {3 * turn + 5, turn + 2};
  const struct variant variant = {.gemm = gemm};
  const struct point point = {.operation = GEMM_PEAK, .grain = turn};
  static char values[sizeof((struct side *)0)->product.values];
  static struct side side;
  static uint8_t loads[sizeof side.product.values + LINE];
  int wrong;

  side.variant = &variant;
  side.point = &point;
  simulator_watch(side.product.values, sizeof loads, loads);
  gemm_write_register_values(gemm, values);
  wrong = !done(&bench_gemm, &side, parts, sizeof parts / sizeof *parts) ||
          memcmp(values, side.product.values, sizeof values);
  for (size_t i = 0; i < sizeof loads; i++)
    wrong |= loads[i] != (i < sizeof side.product.values ? 4 : 0);
  printf("%ld\n", simulator_apart());
  return wrong || side.product.owed != 7 ||
         simulator_operations() != 4L * turn;
}

static const struct gemm *kind(const char *word) {
  return !strcmp(word, "int8") ? &x86_64_amx_int8 : &x86_64_amx_bf16;
}

int main(int count, char **words) {
  if (count == 3 && !strcmp(words[1], "peak"))
    return peak(kind(words[2]));
  if (count == 3)
    return reads(strcmp(words[1], "tile") ? &x86_64_tileblock : &x86_64_tile,
                 (size_t)atoi(words[2]));
  if (count < 5) {
    misuse(words[1]);
    return 0;
  }
  int wrong = products(kind(words[1]), words + 2);

  printf("%ld\n", simulator_count());
  return wrong;
}
