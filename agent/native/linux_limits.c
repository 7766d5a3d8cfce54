/* Linux: what control groups and resource limits leave of memory. See native.h. */
#define _GNU_SOURCE
#include "linux.h"
#include "native.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { PATH_ROOM = 1024 };

#define NO_LIMIT (UINT64_C(1) << 60) /* version 1 writes a number near 2^63 */

struct limit {
	uint64_t left, bytes; /* bytes: of the whole limit */
	char name[96];
	int64_t kills; /* in our own group */
};

/* The names of the same things in both versions: cgroup-v2.rst, cgroup-v1/memory.rst. */
static const struct version {
	const char *type, *limits[2], *used, *given_back, *kills;
} versions[] = {
	{"cgroup2",
	 {"memory.max", "memory.high"},
	 "memory.current",
	 "inactive_file",
	 "memory.events"},
	{"cgroup",
	 {"memory.limit_in_bytes"},
	 "memory.usage_in_bytes",
	 "total_inactive_file",
	 "memory.oom_control"},
};

static uint64_t number_in(const char *folder, const char *name)
{
	char path[PATH_ROOM + 64], line[32];
	uint64_t number = NO_LIMIT;

	if (name && snprintf(path, sizeof path, "%s/%s", folder, name) < (int)sizeof path &&
	    !linux_read_line(path, line, sizeof line) && line[0] >= '0' && line[0] <= '9')
		number = strtoull(line, NULL, 10);
	return number;
}

/* The number behind a word in a file of such lines; UNKNOWN: there is none. */
static int64_t number_of(const char *folder, const char *name, const char *word)
{
	char path[PATH_ROOM + 64], line[128], key[64];
	int64_t number, found = UNKNOWN;

	snprintf(path, sizeof path, "%s/%s", folder, name);
	FILE *file = fopen(path, "re");

	while (file && fgets(line, sizeof line, file))
		if (sscanf(line, "%63s %" SCNd64, key, &number) == 2 && !strcmp(key, word))
			found = number;
	if (file)
		fclose(file);
	return found;
}

static void take_least(struct limit *least, uint64_t left, uint64_t bytes, const char *name)
{
	if (left >= least->left)
		return;
	least->left = left;
	least->bytes = bytes;
	snprintf(least->name, sizeof least->name, "%s", name);
}

/* What one group leaves; it is named by its path below the mount. */
static void look_at(const struct version *version, const char *folder, size_t mount,
		    struct limit *least)
{
	uint64_t limit = number_in(folder, version->limits[0]);
	uint64_t high = number_in(folder, version->limits[1]);
	uint64_t used = number_in(folder, version->used);
	int64_t stat = number_of(folder, "memory.stat", version->given_back);
	uint64_t back =
		stat < 0 ? 0 : (uint64_t)stat; /* by the kernel before it refuses or kills */
	char name[sizeof least->name];

	limit = high < limit ? high : limit;
	if (limit >= NO_LIMIT)
		return;
	used = used >= NO_LIMIT ? 0 : used > back ? used - back : 0;
	snprintf(name, sizeof name, "control group %.*s", (int)sizeof name - 16,
		 folder[mount] ? folder + mount : "/");
	take_least(least, limit > used ? limit - used : 0, limit, name);
}

/* Our group below this mount, and all above it up to the mount. */
static void look_up(const struct version *version, const char *root, const char *point,
		    const char *path, struct limit *least)
{
	size_t skip = strcmp(root, "/") ? strlen(root) : 0, mount = strlen(point);
	char folder[PATH_ROOM];

	/* A container's mount begins at its own group, of which only the host's path is told. */
	bool below = !strncmp(path, root, skip) && (path[skip] == '/' || !path[skip]);
	int length = snprintf(folder, sizeof folder, "%s%s", point, below ? path + skip : "");

	if (length >= (int)sizeof folder)
		return;
	if (folder[length - 1] == '/')
		folder[length - 1] = '\0';
	if (access(folder, F_OK))
		folder[mount] = '\0';
	if (least->kills < 0)
		least->kills = number_of(folder, version->kills, "oom_kill");
	for (char *end = folder; end;) {
		look_at(version, folder, mount, least);
		end = strlen(folder) > mount ? strrchr(folder, '/') : NULL;
		if (end)
			*end = '\0';
	}
}

/* Is the word among those of a list with commas? */
static bool is_among(const char *list, const char *word)
{
	size_t length = strlen(word);

	for (const char *at = list; (at = strstr(at, word)); at += length)
		if ((at == list || at[-1] == ',') && (!at[length] || at[length] == ','))
			return true;
	return false;
}

/* Where a hierarchy with the memory of groups is mounted: proc(5), mountinfo. */
static void look_below_mounts(const struct version *version, const char *path, struct limit *least)
{
	FILE *file = fopen("/proc/self/mountinfo", "re");
	char *line = NULL, root[PATH_ROOM], point[PATH_ROOM], type[32], options[256];
	size_t room = 0;

	while (file && getline(&line, &room, file) >= 0) {
		const char *rest = strstr(line, " - ");

		if (rest && sscanf(line, "%*s %*s %*s %1023s %1023s", root, point) == 2 &&
		    sscanf(rest, " - %31s %*s %255s", type, options) == 2 &&
		    !strcmp(type, version->type) &&
		    (version == versions || is_among(options, "memory")))
			look_up(version, root, point, path, least);
	}
	free(line);
	if (file)
		fclose(file);
}

static void look_at_groups(struct limit *least)
{
	FILE *file = fopen("/proc/self/cgroup", "re");
	char *line = NULL;
	size_t room = 0;

	while (file && getline(&line, &room, file) >= 0) {
		char *list = strchr(line, ':'), *path = list ? strchr(list + 1, ':') : NULL;

		if (!path)
			continue;
		*path++ = '\0';
		path[strcspn(path, "\n")] = '\0';
		if (!list[1])
			look_below_mounts(&versions[0], path, least);
		else if (is_among(list + 1, "memory"))
			look_below_mounts(&versions[1], path, least);
	}
	free(line);
	if (file)
		fclose(file);
}

void linux_limit_memory(struct memory *memory)
{
	struct limit least = {.left = memory->bytes, .kills = UNKNOWN};
	struct rlimit space;
	char line[64];
	uint64_t pages;

	look_at_groups(&least);
	if (!getrlimit(RLIMIT_AS, &space) && space.rlim_cur != RLIM_INFINITY &&
	    !linux_read_line("/proc/self/statm", line, sizeof line) &&
	    sscanf(line, "%" SCNu64, &pages) == 1) {
		uint64_t used = pages * (uint64_t)sysconf(_SC_PAGESIZE);

		take_least(&least, space.rlim_cur > used ? space.rlim_cur - used : 0,
			   space.rlim_cur, "ulimit -v");
	}
	memory->bytes = least.left;
	if (*least.name)
		snprintf(memory->limit, sizeof memory->limit, "%s, %.0f MiB", least.name,
			 (double)least.bytes / (1 << 20));
	/* A kernel that does not count in groups counts for the machine. */
	memory->kills = least.kills < 0 ? number_of("/proc", "vmstat", "oom_kill") : least.kills;
}
