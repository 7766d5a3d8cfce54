/* detection.c: why tiles cannot be used, for made-up CPUs and kernels: one line
 * for each case. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

static int refuses;        /* the request for permission */
static uint64_t permitted; /* what the kernel says is permitted */
static uint64_t grants;    /* what a request changes that to */

static long fake_syscall(long number, int what, ...);

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
  struct amx_cpu cpu = whole;

  say("whole", amx_missing(&whole));
  cpu.tile = false;
  say("tile", amx_missing(&cpu));
  cpu = whole;
  cpu.bf16 = cpu.int8 = false;
  say("kinds", amx_missing(&cpu));
  cpu = whole;
  cpu.xsave = false;
  say("xsave", amx_missing(&cpu));
  cpu = whole;
  cpu.saved = 0x200e7;
  say("saved", amx_missing(&cpu));
  cpu = whole;
  cpu.rows = 8;
  say("palette", amx_missing(&cpu));
  cpu = whole;
  cpu.depth = 8;
  say("multiplier", amx_missing(&cpu));

  grants = permitted = 1 << 18;
  refuses = 1;
  say("permitted before", linux_permit_amx());
  permitted = 0;
  say("refused", linux_permit_amx());
  refuses = 0;
  say("granted", linux_permit_amx());
  permitted = grants = 0;
  say("granted in vain", linux_permit_amx());
  (void)amx_trouble;
  return 0;
}
