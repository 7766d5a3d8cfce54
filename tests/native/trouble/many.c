/*
 * Preloaded into the agent: a machine with the CPUs listed in MANY_CPUS. Two
 * real ones take their part, by turns, so a pair is on both. Numbers, bookkeeping
 * and what a visit costs are what it is for; its latencies mean nothing.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { ROOM = 4096 }; /* CPUs the pretended kernel has masks for */

static __thread int bound = -1;
static unsigned turn; /* of the real CPUs, as threads ask for theirs */
static int bound_of[1 << 12]; /* the same for all threads, by the end of their
                                 number; + 1 */

int sched_getaffinity(pid_t pid, size_t size, cpu_set_t *mask) {
  const char *at = getenv("MANY_CPUS");
  int mine = pid ? bound_of[pid % (1 << 12)] - 1 : bound;

  if (size < ROOM / 8) {
    errno = EINVAL;
    return -1;
  }
  memset(mask, 0, size);
  if (mine >= 0) {
    CPU_SET_S((size_t)mine, size, mask);
    return 0;
  }
  for (char *end; *at; at = *end ? end + 1 : end)
    CPU_SET_S((size_t)strtol(at, &end, 10), size, mask);
  return 0;
}

int sched_setaffinity(pid_t pid, size_t size, const cpu_set_t *mask) {
  unsigned long real = 0;
  int wanted = -1;
  bool is_there = false;

  for (int cpu = 0; cpu < ROOM && (size_t)cpu < size * 8; cpu++)
    if (CPU_ISSET_S((size_t)cpu, size, mask))
      wanted = cpu;
  for (char *at = getenv("MANY_CPUS"), *end; *at; at = *end ? end + 1 : end)
    is_there |= strtol(at, &end, 10) == wanted;
  if (!is_there) {
    errno = EINVAL;
    return -1;
  }
  bound = wanted;
  bound_of[gettid() % (1 << 12)] = bound + 1;
  real = 1ul << (__atomic_fetch_add(&turn, 1, __ATOMIC_RELAXED) & 1);
  return syscall(SYS_sched_setaffinity, pid, sizeof real, &real) < 0 ? -1 : 0;
}

int sched_getcpu(void) { return bound; }

/* Two of the threads may be on one CPU: that none had it all the time must not
 * fail their burst. */
int clock_gettime(clockid_t which, struct timespec *now) {
  if (which == CLOCK_THREAD_CPUTIME_ID) {
    errno = EINVAL;
    return -1;
  }
  return (int)syscall(SYS_clock_gettime, which, now);
}
