/* linux.h: what the files of Linux share. For native/linux*.c only. */
#ifndef FLEET_LINUX_H
#define FLEET_LINUX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Reads the first line of a small file, without its newline. Returns 0 or -errno. */
int linux_read_line(const char *path, char *line, size_t room);

/* Whether a control group limits the pages of the pool of huge pages; set by os_limits_read(). */
extern bool linux_pool_is_limited;

#endif
