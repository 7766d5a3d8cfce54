/* Linux: what /sys reports about a CPU, its caches and its neighbours. See native.h. */
#include "linux.h"
#include "native.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CPU_PATH_ROOM = 128 };

/* Reads the first line of a file in a CPU's folder of /sys; returns false if it cannot. */
static bool read_cpu_file(int cpu, const char *name, char *line, size_t room)
{
	char path[CPU_PATH_ROOM];

	snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/%s", cpu, name);
	return !linux_read_line(path, line, room);
}

/* Returns the number a CPU's file begins with, or UNKNOWN. In a list of CPUs this is the lowest,
 * which names their group. */
static int64_t read_cpu_number(int cpu, const char *name)
{
	char line[256], *end;

	if (!read_cpu_file(cpu, name, line, sizeof line))
		return UNKNOWN;
	int64_t number = strtoll(line, &end, 10);

	return end == line ? UNKNOWN : number;
}

/* Returns the bytes of a size like "48K" or "2048K" (Linux
 * Documentation/ABI/testing/sysfs-devices-system-cpu), or UNKNOWN. */
static int64_t read_cpu_size(int cpu, const char *name)
{
	char line[32];
	int64_t size;
	char unit = 'B';

	if (!read_cpu_file(cpu, name, line, sizeof line) ||
	    sscanf(line, "%" SCNd64 "%c", &size, &unit) < 1)
		return UNKNOWN;
	return unit == 'K' ? size << 10 : unit == 'M' ? size << 20 : size;
}

static const char *read_cache_kind(int cpu, const char *name)
{
	static const char *const kinds[] = {"Data", "Instruction", "Unified"};
	char line[32];

	for (int i = 0; read_cpu_file(cpu, name, line, sizeof line) && i < 3; i++)
		if (!strcmp(line, kinds[i]))
			return kinds[i];
	return NULL;
}

/* Reads the index-th cache of a CPU; returns false if there is none. */
static bool read_cache(int cpu, size_t index, struct cpu_cache *cache)
{
	char name[6][48];
	static const char *const files[] = {"level", "type", "size", "coherency_line_size",
					    "shared_cpu_list"};

	for (int i = 0; i < 5; i++)
		snprintf(name[i], sizeof name[i], "cache/index%zu/%s", index, files[i]);
	*cache = (struct cpu_cache){.level = (int)read_cpu_number(cpu, name[0]),
				    .kind = read_cache_kind(cpu, name[1]),
				    .bytes = read_cpu_size(cpu, name[2]),
				    .line_bytes = read_cpu_number(cpu, name[3]),
				    .group = read_cpu_number(cpu, name[4])};
	return cache->level > 0 && cache->kind;
}

/* Is the CPU in a list like 0-3,8? (Linux Documentation/admin-guide/cputopology.rst) */
static bool has_cpu(const char *list, long cpu)
{
	char *end = NULL;

	for (const char *at = list; *at >= '0' && *at <= '9'; at = end + (*end == ',')) {
		long first = strtol(at, &end, 10), last = first;

		if (*end == '-')
			last = strtol(end + 1, &end, 10);
		if (first <= cpu && cpu <= last)
			return true;
	}
	return false;
}

/* Returns the NUMA node that lists the CPU; UNKNOWN if none does, or several: numa=fake. */
static int64_t read_cpu_node(int cpu)
{
	char path[CPU_PATH_ROOM], list[8192];
	int64_t found = UNKNOWN;

	for (int node = 0; node < NODES_MOST; node++) {
		snprintf(path, sizeof path, "/sys/devices/system/node/node%d/cpulist", node);
		if (linux_read_line(path, list, sizeof list) || !has_cpu(list, cpu))
			continue;
		if (found != UNKNOWN)
			return UNKNOWN;
		found = node;
	}
	return found;
}

/* Returns the model in a line of /proc/cpuinfo, by the key that its architecture has; null if the
 * line has none. "ARMv7 Processor rev 4 (v7l)" names only the instruction set. */
static const char *find_model(const char *line)
{
	static const char *const keys[] = {"model name", "Model Name", "uarch", "cpu\t"};
	const char *words = strchr(line, ':');

	for (size_t i = 0; words && i < sizeof keys / sizeof *keys; i++)
		if (!strncmp(line, keys[i], strlen(keys[i])) && !strstr(words, "rocessor rev "))
			return words + 1 + strspn(words + 1, " ");
	return NULL;
}

/* Writes the model that the CPU reports, else that of its board; nothing if neither is known. */
static void read_cpu_name(char name[CPU_NAME_ROOM])
{
	char line[256];
	FILE *file = fopen("/proc/cpuinfo", "re");

	while (!*name && file && fgets(line, sizeof line, file)) {
		const char *model = find_model(line);

		if (model)
			snprintf(name, CPU_NAME_ROOM, "%.*s", (int)strcspn(model, "\n"), model);
	}
	if (file)
		fclose(file);
	if (!*name && !linux_read_line("/proc/device-tree/model", line, sizeof line))
		snprintf(name, CPU_NAME_ROOM, "%.*s", CPU_NAME_ROOM - 1, line);
}

int os_cpu_describe(int cpu, struct cpu_facts *facts)
{
	struct cpu_cache cache;
	int64_t khz = read_cpu_number(cpu, "cpufreq/cpuinfo_max_freq");

	facts->mhz = khz > 0 ? khz / 1000 : UNKNOWN;
	facts->capacity = read_cpu_number(cpu, "cpu_capacity");
	facts->core = read_cpu_number(cpu, "topology/thread_siblings_list");
	facts->cluster = read_cpu_number(cpu, "topology/cluster_cpus_list");
	facts->die = read_cpu_number(cpu, "topology/die_cpus_list");
	facts->package = read_cpu_number(cpu, "topology/core_siblings_list");
	facts->node = read_cpu_node(cpu);
	read_cpu_name(facts->name);
	for (size_t i = 0; facts->cache_count < CPU_CACHES && read_cache(cpu, i, &cache); i++)
		facts->caches[facts->cache_count++] = cache;
	return facts->cache_count || facts->core >= 0 ? 0 : -ENOTSUP;
}
