/* Linux: memory, its pages and where they lie. See native.h. */
#define _GNU_SOURCE
#include "linux.h"
#include "native.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

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

int os_pages_unmap(void *start, size_t bytes)
{
	return munmap(start, bytes) ? -errno : 0;
}

enum { POOL_SHIFT = 26 }; /* MAP_HUGE_SHIFT of mmap(2), which a C library need not have */

/* Maps a stretch that begins where a huge page can, for the kernel to put transparent ones there.
 * Returns 0 or -errno. */
static int map_aligned(size_t bytes, size_t page_bytes, void **start)
{
	char *from = mmap(NULL, bytes + page_bytes, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (from == MAP_FAILED)
		return -errno;
	size_t before = (page_bytes - (uintptr_t)from % page_bytes) % page_bytes;

	*start = from + before;
	if ((before && munmap(from, before)) ||
	    munmap(from + before + bytes, page_bytes - before) ||
	    madvise(*start, bytes, MADV_HUGEPAGE))
		return -errno;
	return 0;
}

/* Reports whether the pool has free pages of this size:
 * Documentation/admin-guide/mm/hugetlbpage.rst. */
static bool has_free_huge_pages(size_t bytes)
{
	char path[96], line[32];

	snprintf(path, sizeof path, "/sys/kernel/mm/hugepages/hugepages-%zukB/free_hugepages",
		 bytes >> 10);
	return !linux_pool_is_limited && !linux_read_line(path, line, sizeof line) &&
	       strtoul(line, NULL, 10);
}

/* Returns the size of transparent huge pages; 2 MiB, and *transparent false, if there are none. If
 * they are too large, as the 512 MiB of an arm64 kernel with pages of 64 KiB, returns the largest
 * size of which the pool has free pages, and *transparent false; 0: it has none. */
static size_t huge_page_bytes(bool *transparent)
{
	char line[32];

	*transparent = !linux_read_line("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size", line,
					sizeof line);
	size_t bytes = *transparent ? strtoul(line, NULL, 10) : 2u << 20;

	if (bytes <= HUGE_MOST)
		return bytes;
	*transparent = false;
	for (bytes = HUGE_MOST; bytes > os_page_bytes() && !has_free_huge_pages(bytes);)
		bytes /= 2;
	return bytes > os_page_bytes() ? bytes : 0;
}

size_t os_huge_page_bytes(void)
{
	bool transparent;

	return huge_page_bytes(&transparent);
}

/* Takes pages from the pool if it has enough and no limit, else transparent ones. */
int os_huge_pages_map(void **start, size_t *bytes)
{
	bool transparent;
	size_t page_bytes = huge_page_bytes(&transparent);

	*start = NULL;
	if (!page_bytes)
		return -ENOTSUP;
	*bytes = (*bytes + page_bytes - 1) / page_bytes * page_bytes;
	void *pooled = linux_pool_is_limited
			       ? MAP_FAILED
			       : mmap(NULL, *bytes, PROT_READ | PROT_WRITE,
				      MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB |
					      __builtin_ctzl(page_bytes) << POOL_SHIFT,
				      -1, 0);

	if (pooled == MAP_FAILED)
		return transparent ? map_aligned(*bytes, page_bytes, start) : -ENOTSUP;
	*start = pooled;
	return 0;
}

/* /proc/self/smaps (proc_pid_smaps(5)) counts the touched memory of each mapping, and how much of
 * it is in huge pages; those of the pool are counted apart. */
int os_huge_pages_check(const void *start)
{
	FILE *file = fopen("/proc/self/smaps", "re");
	char line[256];
	bool inside = false;
	unsigned long from, to, kib, touched = 0, huge = 0;

	if (!file)
		return -errno;
	while (fgets(line, sizeof line, file)) {
		if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
			inside = from <= (uintptr_t)start && (uintptr_t)start < to;
		else if (inside && sscanf(line, "Rss: %lu", &kib) == 1)
			touched += kib;
		else if (inside && sscanf(line, "AnonHugePages: %lu", &kib) == 1)
			huge += kib;
		else if (inside && sscanf(line, "Private_Hugetlb: %lu", &kib) == 1 && kib)
			huge = touched = kib;
	}
	fclose(file);
	return huge && huge >= touched ? 0 : -ENOTSUP;
}

/* /proc/self/pagemap holds 64 bits for each page: bit 63 says it is present, bits 0-54 are the
 * number, 0 for processes that may not know it (Linux Documentation/admin-guide/mm/pagemap.rst). */
int os_find_physical_page(const void *page, uint64_t *number)
{
	off_t cursor = (off_t)((uintptr_t)page / os_page_bytes() * sizeof(uint64_t));
	uint64_t entry = 0;
	int file = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);

	if (file < 0)
		return -errno;
	ssize_t got = pread(file, &entry, sizeof entry, cursor);

	close(file);
	*number = entry & ((UINT64_C(1) << 55) - 1);
	return got == sizeof entry && entry >> 63 && *number ? 0 : -ENOTSUP;
}
