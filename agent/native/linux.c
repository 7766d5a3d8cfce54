/* Linux: what the kernel and a C library (glibc, musl) give. See native.h. */
#define _GNU_SOURCE
#include "linux_cpu.h"
#include "native.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

const char os_name[] = "linux";

enum { CPU_ROOM_FIRST = 1024, CPU_ROOM_LAST = 1 << 20 };

/*
 * Reads a thread's affinity, 0 for the calling one, into a fresh mask. The kernel says EINVAL while
 * the mask is smaller than its own, so it grows until it fits: no ceiling of 1,024 CPUs. The caller
 * frees it with CPU_FREE.
 */
static int read_affinity(pid_t thread, cpu_set_t **mask, int *room)
{
	for (*room = CPU_ROOM_FIRST; *room <= CPU_ROOM_LAST; *room *= 2) {
		*mask = CPU_ALLOC(*room);
		if (!*mask)
			return -ENOMEM;
		if (sched_getaffinity(thread, CPU_ALLOC_SIZE(*room), *mask) == 0)
			return 0;
		int err = -errno;
		CPU_FREE(*mask);
		if (err != -EINVAL)
			return err;
	}
	return -EINVAL;
}

int os_cpu_list(int **cpus, size_t *count)
{
	cpu_set_t *mask;
	int room, err = read_affinity(0, &mask, &room);

	if (err)
		return err;
	size_t size = CPU_ALLOC_SIZE(room);

	*count = 0;
	*cpus = calloc((size_t)CPU_COUNT_S(size, mask) + 1, sizeof **cpus);
	if (!*cpus)
		err = -ENOMEM;
	for (int cpu = 0; !err && cpu < room; cpu++)
		if (CPU_ISSET_S(cpu, size, mask))
			(*cpus)[(*count)++] = cpu;
	CPU_FREE(mask);
	return err;
}

static int set_affinity(int cpu)
{
	cpu_set_t *mask = CPU_ALLOC(cpu + 1);

	if (!mask)
		return -ENOMEM;
	size_t size = CPU_ALLOC_SIZE(cpu + 1);

	CPU_ZERO_S(size, mask);
	CPU_SET_S(cpu, size, mask);
	int err = sched_setaffinity(0, size, mask) ? -errno : 0;
	CPU_FREE(mask);
	return err;
}

/* -EXDEV unless the thread may run on this CPU and nowhere else. */
static int check_affinity(pid_t thread, int cpu)
{
	cpu_set_t *mask;
	int room, err = read_affinity(thread, &mask, &room);

	if (err)
		return err;
	size_t size = CPU_ALLOC_SIZE(room);

	if (CPU_COUNT_S(size, mask) != 1 || !CPU_ISSET_S(cpu, size, mask))
		err = -EXDEV;
	CPU_FREE(mask);
	return err;
}

int os_pin_self(int cpu)
{
	int err = set_affinity(cpu);

	if (!err)
		err = check_affinity(0, cpu);
	return err ? err : sched_getcpu() == cpu ? 0 : -EXDEV;
}

int64_t os_thread_self(void)
{
	return syscall(SYS_gettid);
}

int os_thread_bound(int64_t thread, int cpu)
{
	return check_affinity((pid_t)thread, cpu) == -EXDEV ? -EXDEV : 0;
}

int os_thread_ran_ns(int64_t *ns)
{
	struct timespec ran;

	if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ran))
		return -errno;
	*ns = (int64_t)ran.tv_sec * 1000000000 + ran.tv_nsec;
	return 0;
}

int os_current_cpu(void)
{
	int cpu = sched_getcpu();

	return cpu < 0 ? -errno : cpu;
}

int os_realtime_self(int priority)
{
	struct sched_param param = {.sched_priority = priority};

	return -pthread_setschedparam(pthread_self(), SCHED_FIFO, &param);
}

static uint64_t ticks_monotonic_raw(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_RAW, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void os_clock(struct clock *clock)
{
	*clock = (struct clock){.name = "monotonic_raw",
				.ticks_per_second = 1000000000u,
				.ticks = ticks_monotonic_raw};
}

int os_counter_rate(uint64_t *ticks_per_second)
{
	return linux_counter_rate(ticks_per_second);
}

size_t os_page_bytes(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

int os_pages_map(size_t pages, void **start)
{
	size_t size = pages * os_page_bytes();

	*start = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (*start == MAP_FAILED)
		return -errno;
	/* A huge page would hold many bursts' lines. A kernel without them refuses: no loss. */
	madvise(*start, size, MADV_NOHUGEPAGE);
	return 0;
}

void os_pages_unmap(void *start, size_t bytes)
{
	munmap(start, bytes);
}

/* ---- huge pages ------------------------------------------------------------------------------ */

/* First line of a small file, without its end. */
static int read_line(const char *path, char *line, size_t room)
{
	FILE *file = fopen(path, "re");

	if (!file)
		return -errno;
	int err = fgets(line, (int)room, file) ? 0 : -EIO;
	fclose(file);
	if (!err)
		line[strcspn(line, "\n")] = '\0';
	return err;
}

/* A stretch aligned to its size, where the kernel can put a transparent huge page. */
static int map_aligned(size_t bytes, void **start)
{
	char *from =
		mmap(NULL, 2 * bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (from == MAP_FAILED)
		return -errno;
	size_t before = (bytes - (uintptr_t)from % bytes) % bytes;

	if (before)
		munmap(from, before);
	munmap(from + before + bytes, bytes - before);
	*start = from + before;
	return madvise(*start, bytes, MADV_HUGEPAGE) ? -errno : 0;
}

/* From the pool of huge pages if there is one, otherwise a transparent one. */
int os_huge_page_map(void **start, size_t *bytes)
{
	char line[32];
	int err =
		read_line("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size", line, sizeof line);

	*start = NULL;
	*bytes = err ? 2u << 20 : strtoul(line, NULL, 10);
	void *pooled = mmap(NULL, *bytes, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);

	if (pooled == MAP_FAILED)
		return err ? -ENOTSUP : map_aligned(*bytes, start);
	*start = pooled;
	return 0;
}

/* /proc/self/smaps (proc_pid_smaps(5)) counts huge pages, of both kinds, in each mapping. */
int os_huge_page_check(const void *start)
{
	FILE *file = fopen("/proc/self/smaps", "re");
	char line[256];
	bool inside = false;
	unsigned long from, to, kib = 0;

	if (!file)
		return -errno;
	while (!kib && fgets(line, sizeof line, file)) {
		if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
			inside = from <= (uintptr_t)start && (uintptr_t)start < to;
		else if (inside && sscanf(line, "AnonHugePages: %lu", &kib) != 1)
			(void)sscanf(line, "Private_Hugetlb: %lu", &kib);
	}
	fclose(file);
	return kib ? 0 : -ENOTSUP;
}

/* ---- NUMA and physical pages ----------------------------------------------------------------- */

/* As <linux/mempolicy.h> numbers them, a header that a C library need not bring. */
enum { POLICY_BIND = 2, POLICY_ALLOWED = 1 << 2, NODE_BITS = 1024 };

struct nodes {
	unsigned long bits[NODE_BITS / (8 * sizeof(unsigned long))];
};

enum { BITS_PER_LONG = 8 * sizeof(unsigned long) };

int os_node_check(int node)
{
	struct nodes allowed = {0};

	if (syscall(SYS_get_mempolicy, NULL, allowed.bits, NODE_BITS, NULL, POLICY_ALLOWED))
		return -errno;
	return allowed.bits[node / BITS_PER_LONG] >> node % BITS_PER_LONG & 1 ? 0 : -ENODEV;
}

/* The kernel takes one bit less than it is told (mbind(2), set_mempolicy(2)): hence the + 1. */
int os_pages_bind(void *start, size_t bytes, int node)
{
	struct nodes wanted = {0};

	wanted.bits[node / BITS_PER_LONG] = 1ul << node % BITS_PER_LONG;
	return syscall(SYS_mbind, start, bytes, POLICY_BIND, wanted.bits, NODE_BITS + 1ul, 0)
		       ? -errno
		       : 0;
}

/* move_pages(2) with no target nodes moves nothing and reports where each page is. */
int os_page_node(void *page)
{
	int node = -ENOENT;

	if (syscall(SYS_move_pages, 0, 1ul, &page, NULL, &node, 0))
		return -errno;
	return node;
}

/*
 * /proc/self/pagemap holds 64 bits for each page: bit 63 says it is present, bits 0-54 are the
 * number, 0 for who may not know (Linux Documentation/admin-guide/mm/pagemap.rst).
 */
int os_page_physical(const void *page, uint64_t *number)
{
	off_t at = (off_t)((uintptr_t)page / os_page_bytes() * sizeof(uint64_t));
	uint64_t entry = 0;
	int file = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);

	if (file < 0)
		return -errno;
	ssize_t got = pread(file, &entry, sizeof entry, at);

	close(file);
	*number = entry & ((UINT64_C(1) << 55) - 1);
	return got == sizeof entry && entry >> 63 && *number ? 0 : -ENOTSUP;
}

/* ---- settings -------------------------------------------------------------------------------- */

/* A file in which a setting stands; boost may stand in it the wrong way round. */
struct place {
	char path[96];
	bool inverted;
};

#define CPUS "/sys/devices/system/cpu/"

static int find_setting(enum setting setting, int cpu, struct place *place)
{
	*place = (struct place){.inverted = false};
	if (setting == SETTING_GOVERNOR) {
		snprintf(place->path, sizeof place->path, CPUS "cpu%d/cpufreq/scaling_governor",
			 cpu);
		return access(place->path, F_OK) ? -ENOTSUP : 0;
	}
	snprintf(place->path, sizeof place->path, CPUS "cpufreq/boost");
	if (!access(place->path, F_OK))
		return 0;
	snprintf(place->path, sizeof place->path, CPUS "intel_pstate/no_turbo");
	place->inverted = true;
	return access(place->path, F_OK) ? -ENOTSUP : 0;
}

int os_setting_read(enum setting setting, int cpu, char value[SETTING_ROOM])
{
	struct place place;
	int err = find_setting(setting, cpu, &place);

	value[0] = '\0';
	if (!err)
		err = read_line(place.path, value, SETTING_ROOM);
	if (!err && setting == SETTING_BOOST)
		strcpy(value, (value[0] == '1') != place.inverted ? "on" : "off");
	return err;
}

int os_setting_write(enum setting setting, int cpu, const char *value)
{
	char now[SETTING_ROOM];
	struct place place;
	int err = find_setting(setting, cpu, &place);

	if (err)
		return err;
	int file = open(place.path, O_WRONLY | O_TRUNC | O_CLOEXEC);

	if (file < 0)
		return -errno;
	const char *text = setting != SETTING_BOOST                 ? value
			   : !strcmp(value, "on") != place.inverted ? "1"
								    : "0";

	err = write(file, text, strlen(text)) < 0 ? -errno : 0;
	close(file);
	if (!err)
		err = os_setting_read(setting, cpu, now);
	return err ? err : strcmp(now, value) ? -EIO : 0;
}

/* ---- counters and features ------------------------------------------------------------------- */

int os_switches(int64_t *voluntary, int64_t *involuntary)
{
	struct rusage usage;

	if (getrusage(RUSAGE_THREAD, &usage))
		return -errno;
	*voluntary = usage.ru_nvcsw;
	*involuntary = usage.ru_nivcsw;
	return 0;
}

uint32_t os_features(void)
{
	return linux_features();
}

/* /sys tells all of it. */
int os_cpu_describe(int cpu, struct cpu_facts *facts)
{
	(void)cpu;
	(void)facts;
	return -ENOTSUP;
}
