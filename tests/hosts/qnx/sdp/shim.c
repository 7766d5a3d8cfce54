/*
 * A STAND-IN, not QNX: what the stand-in's qcc links into a program in the
 * place of QNX's C library, built on Linux. It keeps the rules that are
 * documented or seen in public code (docs/qnx.md); its times are Linux's and
 * say nothing about QNX. The program's environment may set
 *
 * QNX_STANDIN_CPUS      how many CPUs there are, which share the real ones
 * QNX_STANDIN_HWIDS     a Jetson Orin's system page, with these hardware ids
 * QNX_STANDIN_HZ        the rate of ClockCycles(); 0 for none told
 * QNX_STANDIN_STUCK     a CPU on which no thread ever arrives
 * QNX_STANDIN_LATE_MS   how long a thread stays once its mask is set
 * QNX_STANDIN_UNTOLD    if set, a question for the masks is answered with none
 * QNX_STANDIN_MASK      the runmask a process begins with, in hexadecimal
 * QNX_STANDIN_PRIORITY  the highest priority, in the place of any above
 */
#define _GNU_SOURCE
#include "include/sys/neutrino.h"
#include "include/sys/syspage.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { CPUS_MOST = 1024, WORDS_MOST = CPUS_MOST / 32, STRIDE = 24, CACHES = 3, NAME_ROOM = 64 };

/* Elements lie further apart than the structures are large, as they may on a
 * newer kernel. */
struct far_cpu {
	struct cpuinfo_entry entry;
	char hidden[STRIDE];
};

struct far_cache {
	struct cacheattr_entry entry;
	char hidden[STRIDE];
};

static struct {
	struct syspage_entry page;
	struct far_cpu cpus[CPUS_MOST];
	struct far_cache caches[CACHES];
	struct qtime_entry qtime;
	char strings[NAME_ROOM];
} system_page;

struct syspage_entry *_syspage_ptr = &system_page.page;

static int real_cpus; /* counted once: without /proc the C library counts what a
			 thread may use */
static __thread unsigned runmask[WORDS_MOST], inherit[WORDS_MOST];
static __thread bool begun;
static __thread uint64_t bound_ns; /* when the thread set its mask */

static long setting(const char *name, long otherwise)
{
	const char *text = getenv(name);

	return text ? strtol(text, NULL, 0) : otherwise;
}

/* ---- the system page
 * ------------------------------------------------------------------------- */

#define SECTION(array)                                                                             \
	(uint16_t)((char *)&system_page.array - (char *)&system_page.page), sizeof system_page.array

static uint64_t raw_counter(void)
{
#ifdef __aarch64__
	uint64_t ticks;

	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
	return ticks;
#else
	return __builtin_ia32_rdtsc();
#endif
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_RAW, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* QNX is told by its startup program; we have to measure. */
static uint64_t raw_rate(void)
{
#ifdef __aarch64__
	uint64_t rate;

	__asm__ volatile("mrs %0, cntfrq_el0" : "=r"(rate));
	return rate;
#else
	uint64_t ns = now_ns(), ticks = raw_counter();

	usleep(50000);
	ticks = raw_counter() - ticks;
	return (uint64_t)((double)ticks * 1e9 / (double)(now_ns() - ns));
#endif
}

/* The values that startup printed on that board: no speed, and caches of level
 * 1 only. */
static void fill_as_orin(const char *ids, long cpus)
{
	strcpy(system_page.strings + 1, "Cortex-A78ae");
	for (long cpu = 0; cpu < cpus; cpu++)
		system_page.cpus[cpu].entry = (struct cpuinfo_entry){
			.cpu = 0x410fd421,
			.flags = 0xc0f08c7a,
			.smp_hwcoreid = (uint32_t)strtoul(ids, (char **)&ids, 16),
			.name = 1,
			.ins_cache = 0,
			.data_cache = 1};
	for (unsigned i = 0; i < 2; i++)
		system_page.caches[i].entry =
			(struct cacheattr_entry){CACHE_LIST_END, 0x40, 0x400, i + 1};
}

__attribute__((constructor)) static void fill_system_page(void)
{
	real_cpus = (int)sysconf(_SC_NPROCESSORS_ONLN);
	long cpus = setting("QNX_STANDIN_CPUS", real_cpus);

	strcpy(system_page.strings, "?Stand-in CPU");
	for (long cpu = 0; cpu < cpus; cpu++)
		system_page.cpus[cpu] = (struct far_cpu){
			.entry = {.speed = (uint32_t)(1000 + cpu),
				  .flags = AARCH64_CPU_FLAG_LSE,
				  /* as an A72 would: clusters of four, numbered in Aff1 */
				  .smp_hwcoreid = 0x80000000u | cpu / 4 << 8 | cpu % 4,
				  .name = 1,
				  .ins_cache = 1,
				  .data_cache = 0}};
	memset(system_page.cpus[0].hidden, 0xee, STRIDE);
	system_page.caches[0].entry = (struct cacheattr_entry){2, 64, 512, CACHE_FLAG_DATA};
	system_page.caches[1].entry = (struct cacheattr_entry){2, 64, 768, CACHE_FLAG_INSTR};
	system_page.caches[2].entry =
		(struct cacheattr_entry){CACHE_LIST_END, 64, 16384, CACHE_FLAG_UNIFIED};
	if (getenv("QNX_STANDIN_HWIDS"))
		fill_as_orin(getenv("QNX_STANDIN_HWIDS"), cpus);
	system_page.qtime.cycles_per_sec = (uint64_t)setting("QNX_STANDIN_HZ", -1) == UINT64_MAX
						   ? raw_rate()
						   : (uint64_t)setting("QNX_STANDIN_HZ", 0);
	system_page.page = (struct syspage_entry){
		.num_cpu = (uint16_t)cpus,
		.cpuinfo = {SECTION(cpus), sizeof(struct far_cpu)},
		.cacheattr = {SECTION(caches), sizeof(struct far_cache)},
		.qtime = {SECTION(qtime)},
		.strings = {SECTION(strings)},
	};
	system_page.page.cpuinfo.entry_size = (uint16_t)((size_t)cpus * sizeof(struct far_cpu));
}

uint64_t ClockCycles(void)
{
	long rate = setting("QNX_STANDIN_HZ", 0);

	return rate ? (uint64_t)((double)now_ns() * (double)rate / 1e9) : raw_counter();
}

/* ---- runmasks
 * --------------------------------------------------------------------------------
 */

static int words(void)
{
	return RMSK_SIZE(system_page.page.num_cpu);
}

static void begin(void)
{
	if (begun)
		return;
	begun = true;
	for (int cpu = 0; cpu < system_page.page.num_cpu; cpu++)
		if (cpu >= 63 || setting("QNX_STANDIN_MASK", -1) >> cpu & 1)
			RMSK_SET(cpu, runmask);
}

static int only_cpu(void)
{
	int found = -1;

	for (int cpu = 0; cpu < system_page.page.num_cpu; cpu++)
		if (RMSK_ISSET(cpu, runmask)) {
			if (found >= 0)
				return -1;
			found = cpu;
		}
	return found;
}

/* A mask of one CPU binds the thread to the real one that stands for it. */
static void follow_mask(void)
{
	cpu_set_t real;
	int cpu = only_cpu();

	CPU_ZERO(&real);
	for (int other = 0; other < real_cpus; other++)
		if (cpu < 0 || other == cpu % real_cpus)
			CPU_SET(other, &real);
	sched_setaffinity(0, sizeof real, &real);
}

static int refuse(int error)
{
	errno = error;
	return -1;
}

static bool any(const unsigned *mask)
{
	unsigned found = 0;

	for (int i = 0; i < words(); i++)
		found |= mask[i];
	return found != 0;
}

/* CPUs that do not exist are left out; a mask without any other is refused. */
static int set(unsigned *mask, const unsigned *wanted, int size)
{
	unsigned cut[WORDS_MOST] = {0};

	for (int cpu = 0; cpu < system_page.page.num_cpu && cpu < size * 32; cpu++)
		if (RMSK_ISSET(cpu, wanted))
			RMSK_SET(cpu, cut);
	if (!any(cut))
		return refuse(EINVAL);
	memcpy(mask, cut, sizeof cut);
	return 0;
}

static int exchange(int *data)
{
	int size = data[0];
	unsigned *run = (unsigned *)data + 1, *children = run + size;
	unsigned before[2 * WORDS_MOST];

	if (size != words())
		return refuse(EINVAL);
	bool asks = true;

	for (int i = 0; i < 2 * size; i++)
		asks &= run[i] == 0;
	if (asks && getenv("QNX_STANDIN_UNTOLD"))
		return 0;
	memcpy(before, runmask, (size_t)size * sizeof *run);
	memcpy(before + size, inherit, (size_t)size * sizeof *run);
	if (!asks && (set(runmask, run, size) || set(inherit, children, size)))
		return -1;
	memcpy(run, before, 2 * (size_t)size * sizeof *run);
	return 0;
}

int ThreadCtl(int command, void *data)
{
	unsigned mask = (unsigned)(uintptr_t)data;
	int err;

	begin();
	switch (command) {
	case _NTO_TCTL_RUNMASK:
		err = system_page.page.num_cpu > 32 ? refuse(EINVAL) : set(runmask, &mask, 1);
		break;
	case _NTO_TCTL_RUNMASK_GET_AND_SET_INHERIT:
		err = exchange(data);
		break;
	default:
		err = refuse(EINVAL);
	}
	if (!err)
		follow_mask();
	if (command == _NTO_TCTL_RUNMASK)
		bound_ns = now_ns();
	return err;
}

unsigned SchedGetCpuNum(void)
{
	begin();
	int cpu = only_cpu();

	bool late = now_ns() - bound_ns < (uint64_t)setting("QNX_STANDIN_LATE_MS", 0) * 1000000;

	if (cpu < 0)
		return (unsigned)(sched_getcpu() % system_page.page.num_cpu);
	if (late || cpu == setting("QNX_STANDIN_STUCK", -1))
		cpu = (cpu + 1) % system_page.page.num_cpu;
	return (unsigned)cpu;
}

/* ---- priorities
 * ------------------------------------------------------------------------------
 */

static __thread int priority = 10;

int pthread_getschedparam(pthread_t thread, int *policy, struct sched_param *param)
{
	(void)thread;
	*policy = priority == 10 ? SCHED_RR : SCHED_FIFO;
	param->sched_priority = priority;
	return 0;
}

/* Nothing real changes: a realtime spinner would stop the machine that runs the
 * tests. */
int pthread_setschedparam(pthread_t thread, int policy, const struct sched_param *param)
{
	long most = setting("QNX_STANDIN_PRIORITY", 63);

	(void)thread;
	(void)policy;
	if (!getenv("QNX_STANDIN_PRIORITY") && param->sched_priority > most)
		return EPERM;
	priority = param->sched_priority > most ? (int)most : param->sched_priority;
	return 0;
}
