/* linux.h: what the files of Linux share. For native/linux*.c only. */
#ifndef FLEET_LINUX_H
#define FLEET_LINUX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* First line of a small file, without its end. */
int linux_read_line(const char *path, char *line, size_t room);

/* A control group has a limit on pages of the pool of huge pages: os_limits_read(). */
extern bool linux_pool_is_limited;

#endif
