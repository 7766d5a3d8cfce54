/* simulator.c: see simulator.h. */
#define _GNU_SOURCE
#include "simulator.h"

#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

enum {
  TILES = 8,
  ROWS = 16,
  ROW_BYTES = 64,
  PREFIX_NONE = 0,
  PREFIX_66,
  PREFIX_F3,
  PREFIX_F2
};

struct tile {
  unsigned rows, row_bytes;
  uint8_t data[ROWS][ROW_BYTES];
};

/* An instruction, taken apart. */
struct decoded {
  unsigned prefix, opcode, reg, rm, vvvv;
  bool memory, sib;
  uint8_t *address;
  size_t stride;
  const uint8_t *end;
};

static struct tile tiles[TILES];
static bool configured;
static long count;

static struct {
  long count, operations, apart;
  long last_into[TILES]; /* the number of the product, from 1 */
} products = {.apart = LONG_MAX};

static struct {
  const uint8_t *memory;
  size_t bytes;
  uint8_t *loads;
} watched;

static struct {
  long count;
  const uint8_t *lines[PREFETCHES_MOST];
} prefetched[4]; /* by level, 1 to 3 */

static void die(const char *why, const uint8_t *at) {
  fprintf(stderr, "simulator: %s:", why);
  for (int i = 0; i < 10; i++)
    fprintf(stderr, " %02x", at[i]);
  fprintf(stderr, "\n");
  _exit(99);
}

/* VEX with three bytes, map 0F38, W0, 128 bits, and an opcode of tiles. */
static bool is_tile_instruction(const uint8_t *at) {
  return at[0] == 0xc4 && (at[1] & 31) == 2 && !(at[2] & 0x84) &&
         (at[3] == 0x49 || at[3] == 0x4b || at[3] == 0x5c || at[3] == 0x5e);
}

static uint64_t value_of(const greg_t *registers, unsigned number) {
  static const int places[] = {
      REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
      REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};

  return (uint64_t)registers[places[number]];
}

/* at: the byte of the form; high: bits 1 and 0 of a prefix REX. */
static void decode_memory(const uint8_t *at, unsigned high,
                          const greg_t *registers, struct decoded *found) {
  unsigned mod = at[0] >> 6, base = at[0] & 7, index = 4, scale = 0;
  int32_t offset = 0;

  found->end = at + 1;
  found->sib = base == 4;
  if (found->sib) {
    base = at[1] & 7;
    index = (at[1] >> 3 & 7) + (high & 2 ? 8 : 0);
    scale = at[1] >> 6;
    found->end++;
  }
  if (mod == 0 && base == 5)
    die("an address without a base", at);
  if (mod == 1)
    offset = (int8_t)*found->end++;
  if (mod == 2) {
    memcpy(&offset, found->end, sizeof offset);
    found->end += sizeof offset;
  }
  found->address = (uint8_t *)(value_of(registers, base + (high & 1 ? 8 : 0)) +
                               (uint64_t)(int64_t)offset);
  if (index != 4)
    found->stride = value_of(registers, index) << scale;
}

static struct decoded decode(const uint8_t *at, const greg_t *registers) {
  struct decoded found = {.prefix = at[2] & 3,
                          .opcode = at[3],
                          .reg = (at[4] >> 3 & 7) + (at[1] & 0x80 ? 0 : 8),
                          .rm = (at[4] & 7) + (at[1] & 0x20 ? 0 : 8),
                          .vvvv = ~at[2] >> 3 & 15,
                          .memory = at[4] >> 6 != 3,
                          .end = at + 5};

  if (found.memory)
    decode_memory(at + 4, ~at[1] >> 5 & 3, registers, &found);
  return found;
}

/* ---- what each does
 * -------------------------------------------------------------------------- */

static void configure(const uint8_t *at, const uint8_t *bytes) {
  memset(tiles, 0, sizeof tiles);
  if (bytes[0] != 1)
    die("a palette other than 1", at);
  for (int i = 1; i < 16; i++)
    if (bytes[i])
      die("a reserved byte of the configuration", at);
  for (int i = 0; i < TILES; i++) {
    tiles[i].row_bytes = bytes[16 + 2 * i] | (unsigned)bytes[17 + 2 * i] << 8;
    tiles[i].rows = bytes[48 + i];
    if (tiles[i].row_bytes > ROW_BYTES || tiles[i].rows > ROWS)
      die("a tile that is too large", at);
  }
  configured = true;
}

static struct tile *tile_of(unsigned number, const uint8_t *at) {
  if (!configured)
    die("tiles are not configured", at);
  if (number >= TILES || !tiles[number].rows)
    die("no such tile", at);
  return &tiles[number];
}

static void move(const struct decoded *found, const uint8_t *at) {
  struct tile *tile = tile_of(found->reg, at);
  bool load = found->prefix == PREFIX_F2 || found->prefix == PREFIX_66;

  if (!found->memory || !found->sib || found->vvvv ||
      (!load && found->prefix != PREFIX_F3))
    die("an unknown form", at);
  if (load)
    memset(tile->data, 0, sizeof tile->data);
  for (unsigned i = 0; i < tile->rows; i++) {
    uint8_t *row = found->address + i * found->stride;
    size_t at = (size_t)(row - watched.memory);

    for (unsigned j = 0; load && j < tile->row_bytes; j++)
      if (at + j < watched.bytes)
        watched.loads[at + j]++;

    memcpy(load ? tile->data[i] : row, load ? row : tile->data[i],
           tile->row_bytes);
  }
}

static float wide(const uint8_t *bf16) {
  uint32_t bits = (uint32_t)bf16[1] << 24 | (uint32_t)bf16[0] << 16;
  float value;

  memcpy(&value, &bits, sizeof value);
  return value;
}

static void add_bf16(uint8_t *sum, const uint8_t *a, const uint8_t *b) {
  float value;

  memcpy(&value, sum, sizeof value);
  value += wide(a) * wide(b) + wide(a + 2) * wide(b + 2);
  memcpy(sum, &value, sizeof value);
}

static void add_int8(uint8_t *sum, const uint8_t *a, const uint8_t *b) {
  int32_t value;

  memcpy(&value, sum, sizeof value);
  for (int i = 0; i < 4; i++)
    value += (int8_t)a[i] * (int8_t)b[i];
  memcpy(sum, &value, sizeof value);
}

static void count_product(unsigned into, const struct tile *c,
                          const struct tile *b, unsigned values) {
  long *last = &products.last_into[into];

  products.count++;
  if (*last && products.count - *last < products.apart)
    products.apart = products.count - *last;
  *last = products.count;
  products.operations += 2L * c->rows * c->row_bytes / 4 * b->rows * values;
}

static void multiply(const struct decoded *found, const uint8_t *at) {
  bool bf16 = found->opcode == 0x5c && found->prefix == PREFIX_F3;
  struct tile *c = tile_of(found->reg, at), *a = tile_of(found->rm, at),
              *b = tile_of(found->vvvv, at);

  if (found->memory ||
      (!bf16 && (found->opcode != 0x5e || found->prefix != PREFIX_F2)))
    die("an unknown form", at);
  if (c == a || c == b || a == b)
    die("a tile that is used twice", at);
  if (c->rows != a->rows || c->row_bytes != b->row_bytes ||
      a->row_bytes != 4 * b->rows)
    die("tiles that do not fit together", at);
  for (unsigned i = 0; i < c->rows; i++)
    for (unsigned k = 0; k < b->rows; k++)
      for (unsigned j = 0; j < c->row_bytes; j += 4)
        (bf16 ? add_bf16 : add_int8)(&c->data[i][j], &a->data[i][4 * k],
                                     &b->data[k][j]);
  count_product(found->reg, c, b, bf16 ? 2 : 4);
}

static void carry_out(const struct decoded *found, const uint8_t *at) {
  if (found->opcode == 0x4b)
    move(found, at);
  else if (found->opcode != 0x49)
    multiply(found, at);
  else if (found->vvvv)
    die("an unknown form", at);
  else if (found->memory && found->prefix == PREFIX_NONE && !found->reg)
    configure(at, found->address);
  else if (!found->memory && found->prefix == PREFIX_NONE && !found->reg &&
           !found->rm)
    configured = false;
  else if (!found->memory && found->prefix == PREFIX_F2 && !found->rm)
    memset(tile_of(found->reg, at)->data, 0, ROWS * ROW_BYTES);
  else
    die("an unknown form", at);
  count++;
}

/* prefetcht0 to prefetcht2, which the CPU then carries out. */
static void note_prefetch(const uint8_t *at, const greg_t *registers) {
  unsigned rex = (at[0] & 0xf0) == 0x40 ? *at++ : 0;
  unsigned level = at[2] >> 3 & 7;
  struct decoded found = {.end = NULL};

  if (at[0] != 0x0f || at[1] != 0x18 || at[2] >> 6 == 3 || !level || level > 3)
    return;
  decode_memory(at + 2, rex, registers, &found);
  if (prefetched[level].count < PREFETCHES_MOST)
    prefetched[level].lines[prefetched[level].count++] = found.address;
}

/* ---- single steps
 * ----------------------------------------------------------------------------
 */

static void step(int number, siginfo_t *info, void *context) {
  greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;

  (void)number;
  (void)info;
  for (;;) {
    const uint8_t *at = (const uint8_t *)registers[REG_RIP];

    if (!is_tile_instruction(at)) {
      note_prefetch(at, registers);
      return;
    }
    struct decoded found = decode(at, registers);

    carry_out(&found, at);
    registers[REG_RIP] = (greg_t)found.end;
  }
}

void simulator_begin(void) {
  struct sigaction action = {.sa_sigaction = step, .sa_flags = SA_SIGINFO};

  memset(prefetched, 0, sizeof prefetched);
  sigaction(SIGTRAP, &action, NULL);
  __asm__ volatile("pushfq\n\torq $0x100, (%%rsp)\n\tpopfq" ::: "memory", "cc");
}

void simulator_end(void) {
  __asm__ volatile("pushfq\n\tandq $~0x100, (%%rsp)\n\tpopfq" ::
                       : "memory", "cc");
}

void simulator_watch(const void *memory, size_t bytes, uint8_t *loads) {
  watched.memory = memory;
  watched.bytes = bytes;
  watched.loads = loads;
}

long simulator_count(void) { return count; }

long simulator_operations(void) { return products.operations; }

long simulator_apart(void) { return products.apart; }

bool simulator_prefetched(int level, long number, const void *line) {
  return number < prefetched[level].count &&
         prefetched[level].lines[number] == line;
}

long simulator_prefetches(int level) { return prefetched[level].count; }
