/* Linux: what the kernel and a C library (glibc, musl) give. See native.h. */
#define _GNU_SOURCE
#include "linux.h"
#include "linux_cpu.h"
#include "native.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

const char os_name[] = "linux";

enum { CPU_ROOM_FIRST = 1024, CPU_ROOM_LAST = 1 << 20 };

/* Reads the affinity of a thread, 0 for the calling one, into a fresh mask, which the caller frees
 * with CPU_FREE. Returns 0 or -errno. The kernel says EINVAL while the mask is smaller than its
 * own, so it grows until it fits: no ceiling of 1,024 CPUs. */
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

int os_list_cpus(int **cpus, size_t *count)
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

/* Returns 0 if the thread may run on this CPU and nowhere else, -EXDEV or another -errno if not. */
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

void os_describe_current_cpu(char place[PLACE_ROOM])
{
	snprintf(place, PLACE_ROOM, "on CPU %d", sched_getcpu());
}

int64_t os_thread_id(void)
{
	return syscall(SYS_gettid);
}

int os_check_binding(int64_t thread, int cpu)
{
	return check_affinity((pid_t)thread, cpu) == -EXDEV ? -EXDEV : 0;
}

int os_thread_cpu_ns(int64_t *ns)
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

int os_make_self_realtime(int priority)
{
	struct sched_param param = {.sched_priority = priority};

	return -pthread_setschedparam(pthread_self(), SCHED_FIFO, &param);
}

void os_make_self_ordinary(void)
{
	struct sched_param param = {0};

	pthread_setschedparam(pthread_self(), SCHED_OTHER, &param);
}

const int os_priority_usual = 1;

static uint64_t ticks_monotonic_raw(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_RAW, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void os_get_clock(struct clock *clock)
{
	*clock = (struct clock){.name = "monotonic_raw",
				.ticks_per_second = 1000000000u,
				.ticks = ticks_monotonic_raw};
}

int linux_read_line(const char *path, char *line, size_t room)
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

/* The file that holds a setting; inverted: it holds the opposite of boost. */
struct place {
	char path[96];
	bool inverted;
};

#define CPUS "/sys/devices/system/cpu/"

/* Finds the file of a setting; -ENOTSUP if the machine has none. */
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
		err = linux_read_line(place.path, value, SETTING_ROOM);
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

int os_count_switches(int64_t *voluntary, int64_t *involuntary)
{
	struct rusage usage;

	if (getrusage(RUSAGE_THREAD, &usage))
		return -errno;
	*voluntary = usage.ru_nvcsw;
	*involuntary = usage.ru_nivcsw;
	return 0;
}

/* Steal time is the eighth number of the first line of /proc/stat (Linux
 * Documentation/filesystems/proc.rst). It stands still without CONFIG_PARAVIRT_TIME_ACCOUNTING, as
 * does the scheduler's clock of CPU time. */
bool os_has_steal_time(void)
{
	char line[256];
	uint64_t steal = 0;

	return !linux_read_line("/proc/stat", line, sizeof line) &&
	       sscanf(line, "cpu %*s %*s %*s %*s %*s %*s %*s %" SCNu64, &steal) == 1 && steal;
}

int os_wait_time_open(void)
{
	int file = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);

	return file < 0 ? -errno : file;
}

/* Reads "RAN WAITED SLICES", times in ns (Linux Documentation/scheduler/sched-stats.rst). */
int os_wait_time_read(int account, int64_t *ns)
{
	char text[96];
	ssize_t length = pread(account, text, sizeof text - 1, 0);

	if (length < 0)
		return -errno;
	text[length] = '\0';
	return sscanf(text, "%*s %" SCNd64, ns) == 1 ? 0 : -EIO;
}

void os_wait_time_close(int account)
{
	close(account);
}
