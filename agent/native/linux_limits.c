/* Linux: what control groups and resource limits leave of memory and CPU time. See native.h. */
#define _GNU_SOURCE
#include "linux.h"
#include "native.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { FILE_PATH_ROOM = 1024 };

#define NO_LIMIT (UINT64_C(1) << 60) /* version 1 writes a number near 2^63 */

/* Reads up to two numbers at a file's start; returns how many: 0 for "max", "-1" or no file. */
static int read_numbers(const char *folder, const char *name, uint64_t numbers[2])
{
	char path[FILE_PATH_ROOM + 64], line[64];

	snprintf(path, sizeof path, "%s/%s", folder, name);
	if (linux_read_line(path, line, sizeof line) || line[0] < '0' || line[0] > '9')
		return 0;
	return sscanf(line, "%" SCNu64 " %" SCNu64, &numbers[0], &numbers[1]);
}

/* Returns the number after a file's last key that ends in `word`; UNKNOWN: there is none. */
static int64_t read_keyed_number(const char *folder, const char *name, const char *word)
{
	char path[FILE_PATH_ROOM + 64], line[128], key[64];
	int64_t number, last_number = UNKNOWN;
	size_t end = strlen(word);

	snprintf(path, sizeof path, "%s/%s", folder, name);
	FILE *file = fopen(path, "re");

	while (file && fgets(line, sizeof line, file))
		if (sscanf(line, "%63s %" SCNd64, key, &number) == 2 && strlen(key) >= end &&
		    !strcmp(key + strlen(key) - end, word))
			last_number = number;
	if (file)
		fclose(file);
	return last_number;
}

/* Lowers the limit to `whole` - `used` bytes, and names it `name`, if that is less. */
static void lower_memory_limit(struct limits *limits, uint64_t whole, uint64_t used,
			       const char *name)
{
	uint64_t left = whole > used ? whole - used : 0;

	if (left >= limits->memory_bytes)
		return;
	limits->memory_bytes = left;
	snprintf(limits->memory, sizeof limits->memory, "%s, %.0f MiB", name,
		 (double)whole / (1 << 20));
}

/* Lowers the memory limit to what a group's files leave: cgroup-v2.rst, cgroup-v1/memory.rst. */
static void read_memory_limit(const char *folder, const char *name, struct limits *limits)
{
	static const char *const files[] = {"memory.max", "memory.high", "memory.limit_in_bytes"};
	uint64_t whole = NO_LIMIT, number[2], used[2] = {0};

	for (size_t i = 0; i < 3; i++)
		if (read_numbers(folder, files[i], number) && number[0] < whole)
			whole = number[0];
	if (whole >= NO_LIMIT)
		return;
	if (!read_numbers(folder, "memory.current", used))
		read_numbers(folder, "memory.usage_in_bytes", used);
	/* Memory that the kernel reclaims before it refuses or kills; version 1 has it after
	 * "total_". */
	int64_t back = read_keyed_number(folder, "memory.stat", "inactive_file");

	if (back > 0)
		used[0] -= used[0] < (uint64_t)back ? used[0] : (uint64_t)back;
	lower_memory_limit(limits, whole, used[0], name);
}

/* Lowers the CPU limit to what a group's files allow: cgroup-v2.rst, scheduler/sched-bwc.rst. */
static void read_cpu_time_limit(const char *folder, const char *name, struct limits *limits)
{
	uint64_t quota[2], period[2];

	if (read_numbers(folder, "cpu.max", quota) == 2)
		period[0] = quota[1];
	else if (!read_numbers(folder, "cpu.cfs_quota_us", quota) ||
		 !read_numbers(folder, "cpu.cfs_period_us", period))
		return;
	double cpus = period[0] ? (double)quota[0] / (double)period[0] : 0;

	if (!cpus || (limits->cpus && limits->cpus <= cpus))
		return;
	limits->cpus = cpus;
	snprintf(limits->cpu_time, sizeof limits->cpu_time, "%s, %g CPUs", name, cpus);
}

/* Reports whether a group limits the pool's pages, so that touching more kills: cgroup-v2.rst,
 * cgroup-v1/hugetlb.rst. end: how the names of the limits' files end. */
static bool has_huge_page_limit(const char *folder, const char *end)
{
	uint64_t limit[2];
	char name[48];

	for (unsigned shift = 16; shift < 31; shift++) {
		snprintf(name, sizeof name, "hugetlb.%u%cB.%s", 1u << shift % 10,
			 "KMG"[shift / 10 - 1], end);
		if (read_numbers(folder, name, limit) && limit[0] < NO_LIMIT)
			return true;
	}
	return false;
}

bool linux_pool_is_limited;

/* Reads the limits of our group below a mount, and of all groups above it. pool: how the names of
 * limits on the pool's pages end; NULL: not looked at. */
static void read_limits_upwards(const char *root, const char *point, const char *path,
				const char *pool, struct limits *limits)
{
	size_t skip = strcmp(root, "/") ? strlen(root) : 0, mount = strlen(point);
	char folder[FILE_PATH_ROOM], name[96];

	/* A container's mount begins at its own group, of which only the host's path is told. */
	bool below = !strncmp(path, root, skip) && (path[skip] == '/' || !path[skip]);
	int length = snprintf(folder, sizeof folder, "%s%s", point, below ? path + skip : "");

	if (length >= (int)sizeof folder)
		return;
	if (folder[length - 1] == '/')
		folder[length - 1] = '\0';
	if (access(folder, F_OK))
		folder[mount] = '\0';
	if (limits->kills < 0)
		limits->kills = read_keyed_number(folder, "memory.events", "oom_kill");
	if (limits->kills < 0)
		limits->kills = read_keyed_number(folder, "memory.oom_control", "oom_kill");
	for (char *end = folder; end;) {
		snprintf(name, sizeof name, "control group %.80s",
			 folder[mount] ? folder + mount : "/");
		read_memory_limit(folder, name, limits);
		read_cpu_time_limit(folder, name, limits);
		linux_pool_is_limited |= pool && has_huge_page_limit(folder, pool);
		end = strlen(folder) > mount ? strrchr(folder, '/') : NULL;
		if (end)
			*end = '\0';
	}
}

/* Reads the limits of all mounts of a controller's hierarchy, or of version 2 (proc(5),
 * mountinfo). */
static void read_limits_of_mounts(const char *controller, const char *path, const char *pool,
				  struct limits *limits)
{
	FILE *file = fopen("/proc/self/mountinfo", "re");
	char *line = NULL, root[FILE_PATH_ROOM], point[FILE_PATH_ROOM], type[32],
	     options[258] = ",", word[64];
	size_t room = 0;

	snprintf(word, sizeof word, ",%s,", controller);
	while (file && getline(&line, &room, file) >= 0) {
		const char *rest = strstr(line, " - ");

		if (rest && sscanf(line, "%*s %*s %*s %1023s %1023s", root, point) == 2 &&
		    sscanf(rest, " - %31s %*s %255s", type, options + 1) == 2 &&
		    (*controller ? !strcmp(type, "cgroup") && strstr(strcat(options, ","), word)
				 : !strcmp(type, "cgroup2")))
			read_limits_upwards(root, point, path, pool, limits);
	}
	free(line);
	if (file)
		fclose(file);
}

static void read_group_limits(struct limits *limits)
{
	FILE *file = fopen("/proc/self/cgroup", "re");
	char *line = NULL;
	size_t room = 0;

	while (file && getline(&line, &room, file) >= 0) {
		char *list = strchr(line, ':'), *path = list ? strchr(list + 1, ':') : NULL;

		if (!path)
			continue;
		const char *pool = path == list + 1          ? "max"
				   : strstr(list, "hugetlb") ? "limit_in_bytes"
							     : NULL;

		path[strcspn(path, "\n")] = '\0';
		list[1 + strcspn(list + 1, ",:")] = '\0'; /* one names the mount of all */
		read_limits_of_mounts(list + 1, path + 1, pool, limits);
	}
	free(line);
	if (file)
		fclose(file);
}

/* Takes the kernel's estimate of available memory, and lowers it to each limit that is less. */
int os_limits_read(struct limits *limits)
{
	int64_t kib = read_keyed_number("/proc", "meminfo", "MemAvailable:");
	struct rlimit space[2];
	int64_t used[] = {read_keyed_number("/proc/self", "status", "VmSize:"),
			  read_keyed_number("/proc/self", "status", "VmData:")};

	if (kib >= 0)
		limits->memory_bytes = (uint64_t)kib * 1024;
	read_group_limits(limits);
	getrlimit(RLIMIT_AS, &space[0]);
	getrlimit(RLIMIT_DATA, &space[1]);
	for (int i = 0; i < 2; i++)
		if (space[i].rlim_cur != RLIM_INFINITY && used[i] >= 0)
			lower_memory_limit(limits, space[i].rlim_cur, (uint64_t)used[i] * 1024,
					   i ? "ulimit -d" : "ulimit -v");
	/* A kernel that does not count in groups counts for the machine. */
	if (limits->kills < 0)
		limits->kills = read_keyed_number("/proc", "vmstat", "oom_kill");
	return 0;
}
