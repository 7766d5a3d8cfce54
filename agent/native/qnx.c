/* QNX 7.1 and 8.0, with nothing but its C library. See native.h; the evidence: docs/qnx.md. */
#include "native.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/neutrino.h>
#include <sys/syspage.h>
#include <time.h>
#include <unistd.h>

#include "qnx_cpu.h"

/* Our own stand-in for the SDP defines this: what it measured must never pass for QNX. */
#ifdef FLEET_QNX_STANDIN
const char os_name[] = "qnx-standin";
#else
const char os_name[] = "qnx";
#endif

/* ---- CPUs ------------------------------------------------------------------------------------ */

/* Two masks, of `size` words of 32 CPUs each: a runmask, then the mask that new threads inherit.
 * They have exactly as many words as the machine's CPUs need (ThreadCtl(),
 * _NTO_TCTL_RUNMASK_GET_AND_SET_INHERIT, and struct _thread_runmask of <sys/neutrino.h>). */
enum { WORD_BITS = 32, WORDS_MOST = 32 };

struct masks {
	int size;
	unsigned words[2 * WORDS_MOST];
};

static int count_cpus(void)
{
	return (int)_syspage_ptr->num_cpu;
}

/* Sets both masks to one CPU, or with -1 reads them. Returns 0 or -errno. */
static int exchange_masks(int cpu, struct masks *masks)
{
	int size = RMSK_SIZE(count_cpus());

	if (size > WORDS_MOST || cpu >= size * WORD_BITS)
		return -EINVAL;
	*masks = (struct masks){.size = size};
	if (cpu >= 0) {
		RMSK_SET(cpu, masks->words);
		RMSK_SET(cpu, masks->words + size);
	}
	return ThreadCtl(_NTO_TCTL_RUNMASK_GET_AND_SET_INHERIT, masks) == -1 ? -errno : 0;
}

/* Reads where the thread may run: `on -C` confines a process so. -ENOTSUP if that is not known. */
static int read_masks(struct masks *masks)
{
	int err = exchange_masks(-1, masks);

	for (int i = 0; !err && i < masks->size; i++)
		if (masks->words[i])
			return 0;
	return err ? err : -ENOTSUP;
}

static bool is_allowed(const struct masks *masks, int cpu)
{
	return cpu < masks->size * WORD_BITS && RMSK_ISSET(cpu, masks->words);
}

int os_list_cpus(int **cpus, size_t *count)
{
	struct masks masks;
	bool known = !read_masks(&masks);

	*count = 0;
	*cpus = calloc((size_t)count_cpus(), sizeof **cpus);
	if (!*cpus)
		return -ENOMEM;
	for (int cpu = 0; cpu < count_cpus(); cpu++)
		if (!known || is_allowed(&masks, cpu))
			(*cpus)[(*count)++] = cpu;
	return 0;
}

/* Binds the calling thread to one CPU. The pointer itself is the mask: enough for 32 CPUs, and
 * legal in all versions. */
static int set_runmask(int cpu)
{
	void *mask = (void *)(uintptr_t)(1u << cpu);

	return ThreadCtl(_NTO_TCTL_RUNMASK, mask) == -1 ? -errno : 0;
}

/* Returns -EXDEV unless the thread may run on this CPU and nowhere else; 0 also if unknown. */
static int check_runmask(int cpu)
{
	struct masks masks;
	bool known = !read_masks(&masks);

	for (int other = 0; known && other < count_cpus(); other++)
		if (is_allowed(&masks, other) != (other == cpu))
			return -EXDEV;
	return 0;
}

/* A thread may run on for a moment where it was when its mask was set: seen on 8.0, where public
 * code naps for 1 ms. So it is given twenty. */
enum { PIN_TRIES = 20 };

int os_pin_self(int cpu)
{
	const struct timespec nap = {.tv_nsec = 1000000};
	struct masks masks;

	if (cpu < 0 || cpu >= count_cpus())
		return -EINVAL;
	int err = count_cpus() <= WORD_BITS ? set_runmask(cpu) : exchange_masks(cpu, &masks);

	for (int tries = 0; !err && os_current_cpu() != cpu; tries++) {
		if (tries == PIN_TRIES)
			return -EXDEV;
		nanosleep(&nap, NULL);
	}
	return err ? err : check_runmask(cpu);
}

void os_describe_current_cpu(char place[PLACE_ROOM])
{
	struct masks masks;
	int length = snprintf(place, PLACE_ROOM, "on CPU %d, its runmask ", os_current_cpu());

	if (read_masks(&masks)) {
		snprintf(place + length, PLACE_ROOM - (size_t)length, "unknown");
		return;
	}
	if (masks.size > 1)
		length += snprintf(place + length, PLACE_ROOM - (size_t)length, "%08x ",
				   masks.words[1]);
	snprintf(place + length, PLACE_ROOM - (size_t)length, "%08x", masks.words[0]);
}

int os_current_cpu(void)
{
	return (int)SchedGetCpuNum();
}

int64_t os_thread_id(void)
{
	return (int64_t)pthread_self();
}

/* Always 0: unknown. Reading another thread's mask takes ThreadCtlExt() and an ability we do not
 * ask for. */
int os_check_binding(int64_t thread, int cpu)
{
	(void)thread;
	(void)cpu;
	return 0;
}

bool os_has_steal_time(void)
{
	return false;
}

/* Where procnto's limit saturates (-P with an s) a request succeeds with less than was asked for.
 * Then we go back: a run must not be between two priorities unsaid. */
int os_make_self_realtime(int priority)
{
	struct sched_param before, wanted, reached;
	int policy, reached_policy;

	memset(&wanted, 0, sizeof wanted); /* it is larger than what POSIX names */
	wanted.sched_priority = priority;
	int err = -pthread_getschedparam(pthread_self(), &policy, &before);

	if (!err)
		err = -pthread_setschedparam(pthread_self(), SCHED_FIFO, &wanted);
	if (!err)
		err = -pthread_getschedparam(pthread_self(), &reached_policy, &reached);
	if (err)
		return err;
	if (reached.sched_priority == priority && reached_policy == SCHED_FIFO)
		return 0;
	pthread_setschedparam(pthread_self(), policy, &before);
	return -EPERM;
}

void os_make_self_ordinary(void)
{
	struct sched_param usual;

	memset(&usual, 0, sizeof usual);
	usual.sched_priority = 10;
	pthread_setschedparam(pthread_self(), SCHED_RR, &usual);
}

const int os_priority_usual = 0; /* threads run at 10 anyway, and no one number suits every image */

/* ---- the clock ------------------------------------------------------------------------------- */

int os_get_counter_rate(uint64_t *ticks_per_second)
{
	*ticks_per_second = SYSPAGE_ENTRY(qtime)->cycles_per_sec;
	return *ticks_per_second ? 0 : -ENOTSUP;
}

void os_get_clock(struct clock *clock)
{
	*clock = (struct clock){.name = "clockcycles",
				.ticks_per_second = SYSPAGE_ENTRY(qtime)->cycles_per_sec,
				.ticks = qnx_ticks};
}

/* ---- memory ---------------------------------------------------------------------------------- */

size_t os_page_bytes(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

int os_pages_map(size_t pages, void **start)
{
	size_t size = pages * os_page_bytes();

	*start = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANON, -1, 0);
	return *start == MAP_FAILED ? -errno : 0;
}

int os_pages_unmap(void *start, size_t bytes)
{
	return munmap(start, bytes) ? -errno : 0;
}

size_t os_huge_page_bytes(void)
{
	return 0;
}

size_t os_list_nodes(struct node nodes[NODES_MOST])
{
	(void)nodes;
	return 0;
}

/* ---- the system page ------------------------------------------------------------------------- */

/* Returns a CPU's entry; null if there is none. An element may be larger than the structure our
 * headers know: never index the array. */
static const struct cpuinfo_entry *cpu_entry(int cpu)
{
	size_t step = SYSPAGE_ELEMENT_SIZE(cpuinfo);

	if ((size_t)cpu >= SYSPAGE_ENTRY_SIZE(cpuinfo) / step)
		return NULL;
	return SYSPAGE_ARRAY_ADJ_OFFSET(cpuinfo, SYSPAGE_ENTRY(cpuinfo), (size_t)cpu * step);
}

static const struct cacheattr_entry *cache_entry(unsigned index)
{
	size_t step = SYSPAGE_ELEMENT_SIZE(cacheattr);

	if (index == CACHE_LIST_END || index >= SYSPAGE_ENTRY_SIZE(cacheattr) / step)
		return NULL;
	return SYSPAGE_ARRAY_ADJ_OFFSET(cacheattr, SYSPAGE_ENTRY(cacheattr), index * step);
}

uint32_t os_features(void)
{
	uint32_t features = UINT32_MAX;

	for (int cpu = 0; cpu < count_cpus(); cpu++) {
		const struct cpuinfo_entry *entry = cpu_entry(cpu);

		features &= entry ? qnx_features(entry->flags) : 0;
	}
	return features;
}

const char *os_explain_missing(uint32_t features, bool *withheld)
{
	return qnx_explain_missing(features, withheld);
}

/* Adds the caches from a CPU's first one outward. The chain of instruction caches ends where it
 * meets one that holds data, too. */
static void add_caches(unsigned index, bool data, struct cpu_facts *facts)
{
	const struct cacheattr_entry *entry = cache_entry(index);

	for (int level = 1; entry && facts->cache_count < CPU_CACHES; level++) {
		bool split =
			!(entry->flags & CACHE_FLAG_INSTR) != !(entry->flags & CACHE_FLAG_DATA);

		if (!split && !data)
			return;
		facts->caches[facts->cache_count++] = (struct cpu_cache){
			.level = level,
			.kind = !split ? "Unified"
				: data ? "Data"
				       : "Instruction",
			.bytes = (int64_t)entry->line_size * entry->num_lines,
			.line_bytes = entry->line_size,
			.group = UNKNOWN,
		};
		entry = cache_entry(entry->next);
	}
}

int os_cpu_describe(int cpu, struct cpu_facts *facts)
{
	const struct cpuinfo_entry *entry = cpu_entry(cpu);

	if (!entry)
		return -ENOTSUP;
	const char *name = SYSPAGE_ENTRY(strings)->data + entry->name;
	size_t length = strnlen(name, sizeof facts->name - 1);

	memcpy(facts->name, name, length);
	facts->name[length] = '\0';
	facts->mhz = entry->speed ? (int64_t)entry->speed : UNKNOWN;
	facts->hardware_id = (int64_t)entry->smp_hwcoreid;
	qnx_ask_cpu(facts);
	if (facts->cache_count)
		return 0;
	add_caches(entry->data_cache, true, facts);
	if (entry->ins_cache != entry->data_cache)
		add_caches(entry->ins_cache, false, facts);
	return 0;
}
