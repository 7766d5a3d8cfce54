/* detection.c: why tiles cannot be used, for made-up CPUs and kernels: one line
 * for each case. And what is read of a CPU. */
#define _GNU_SOURCE
#include <cpuid.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static int refuses;        /* the request for permission */
static uint64_t permitted; /* what the kernel says is permitted */
static uint64_t grants;    /* what a request changes that to */

static unsigned edx_7, ecx_1, last_leaf, others; /* others: bits of tiles */

/* Intel SDM 2A, CPUID, as Sapphire Rapids has it. */
static int fake_cpuid(unsigned leaf, unsigned part, unsigned *a, unsigned *b,
                      unsigned *c, unsigned *d) {
  bool size = leaf == 0x1d && part == 1, product = leaf == 0x1e && !part;

  *a = size ? 1024 << 16 | 8192 : leaf == 0x1d && !part;
  *b = others | (size ? 8 << 16 | 64 : product ? 64 << 8 | 16 : 0);
  *c = leaf == 1 ? ecx_1 : size ? others | 16 : 0;
  *d = leaf == 7 && !part ? edx_7 : 0;
  return leaf <= last_leaf;
}

static long fake_syscall(long number, int what, ...);

#undef __cpuid_count
#define __cpuid_count(leaf, part, a, b, c, d)                                  \
  fake_cpuid(leaf, part, &a, &b, &c, &d)
#define __get_cpuid(leaf, a, b, c, d) fake_cpuid(leaf, 0, a, b, c, d)
#define __get_cpuid_count fake_cpuid
#define syscall fake_syscall
#include "native/linux_amx.h"
#include "native/x86_amx.h"
#undef syscall

#include <stdarg.h>

static long fake_syscall(long number, int what, ...) {
  va_list rest;

  va_start(rest, what);
  if (number == SYS_arch_prctl && what == 0x1022)
    *va_arg(rest, uint64_t *) = permitted;
  else if (!refuses)
    permitted = grants;
  va_end(rest);
  return what == 0x1023 && refuses ? -1 : 0;
}

static void say(const char *name, const char *why) {
  printf("%s: %s\n", name, why ? why : "usable");
}

static void say_read(const char *name) {
  struct amx_cpu cpu = amx_read_cpuid(7);

  printf("%s: %d %d %d %d %u %u %u %u %u %u %u\n", name, cpu.tile, cpu.bf16,
         cpu.int8, cpu.xsave, cpu.saved, cpu.palettes, cpu.tiles, cpu.rows,
         cpu.row_bytes, cpu.depth, cpu.columns);
}

static const char *never(void) { return "never"; }

/* A CPU with one member changed. */
#define SAY(member, value)                                                     \
  cpu = whole;                                                                 \
  cpu.member = value;                                                          \
  say(#member, amx_explain_missing(&cpu))

int main(void) {
  const struct amx_cpu whole = {.tile = true,
                                .bf16 = true,
                                .int8 = true,
                                .xsave = true,
                                .saved = 0x600e7,
                                .palettes = 1,
                                .tiles = 8,
                                .rows = 16,
                                .row_bytes = 64,
                                .depth = 16,
                                .columns = 64};
  struct amx_cpu cpu;

  SAY(tile, true);
  SAY(tile, false);
  SAY(bf16, false);
  SAY(int8, false);
  SAY(int8 = cpu.bf16, false);
  SAY(xsave, false);
  SAY(saved, 0x200e7);
  SAY(saved, 0x400e7);
  SAY(palettes, 0);
  SAY(tiles, 7);
  SAY(rows, 15);
  SAY(row_bytes, 63);
  SAY(depth, 15);
  SAY(columns, 63);

  grants = permitted = 1 << 18;
  refuses = 1;
  say("permitted before", linux_permit_amx());
  permitted = 0;
  say("refused", linux_permit_amx());
  refuses = 0;
  say("granted", linux_permit_amx());
  permitted = grants = ~(UINT64_C(1) << 18);
  say("granted in vain", linux_permit_amx());

  edx_7 = 1 << 24 | 1 << 22;
  ecx_1 = 1 << 27;
  last_leaf = 0x1e;
  say_read("read bf16");
  fflush(stdout);
  if (!fork()) {
    say("asked", amx_explain_unusable(0x600e7, never));
    edx_7 = 0;
    say("asked again", amx_explain_unusable(0x600e7, NULL));
    return 0;
  }
  wait(NULL);
  edx_7 = 1 << 24 | 1 << 25;
  ecx_1 = ~ecx_1;
  say_read("read int8");
  last_leaf = 7;
  say_read("read old");
  last_leaf = 0x1e;
  others = ~0u;
  say_read("read most");
  edx_7 = ~edx_7;
  say_read("read none");
  say("not asked", amx_explain_unusable(0x600e7, never));
  return 0;
}
