/*
 * A STAND-IN, not QNX: loaded into every program of the fake QNX host
 * (/etc/ld.so.preload there). It answers uname() as QNX would, and lets
 * /dev/shmem be as QNX documents it: no directories, no links, files that are
 * names (S_IFNAM) and not regular, no record locks; with the file
 * /etc/standin-no-rename no renaming either. A shell that looks for S_ISREG
 * before it starts a program, as mksh does, is not shown the names unless
 * /etc/standin-strict-shell is there: whether QNX's own ksh looks is not known.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#define NEXT(name, ...) ((int (*)(__VA_ARGS__))dlsym(RTLD_NEXT, name))

static int is_flat(const char *path)
{
	char folder[4096], real[4096];
	char *slash;

	if (strlen(path) >= sizeof folder)
		return 0;
	strcpy(folder, path);
	slash = strrchr(folder, '/');
	if (slash == NULL)
		strcpy(folder, ".");
	else
		slash[slash == folder] = '\0';
	return realpath(folder, real) != NULL && strncmp(real, "/dev/shmem", 10) == 0;
}

static int refuse(int error)
{
	errno = error;
	return -1;
}

enum { NAME_FILE = 0x5000, FDS_MOST = 1024 };

static int shows_names;
static char of_shmem[FDS_MOST];

__attribute__((constructor)) static void choose_view(void)
{
	const char *name = program_invocation_short_name;

	shows_names = (strcmp(name, "sh") && strcmp(name, "ksh")) ||
		      access("/etc/standin-strict-shell", F_OK) == 0;
}

static int as_name(int result, int flat, struct stat *found)
{
	if (result == 0 && flat && shows_names && S_ISREG(found->st_mode))
		found->st_mode = (found->st_mode & ~(mode_t)S_IFMT) | NAME_FILE;
	return result;
}

int stat(const char *path, struct stat *found)
{
	return as_name(NEXT("stat", const char *, struct stat *)(path, found), is_flat(path),
		       found);
}

int lstat(const char *path, struct stat *found)
{
	return as_name(NEXT("lstat", const char *, struct stat *)(path, found), is_flat(path),
		       found);
}

int fstat(int fd, struct stat *found)
{
	return as_name(NEXT("fstat", int, struct stat *)(fd, found),
		       fd >= 0 && fd < FDS_MOST && of_shmem[fd], found);
}

int open(const char *path, int flags, ...)
{
	va_list rest;

	va_start(rest, flags);
	int fd = NEXT("open", const char *, int, ...)(path, flags, va_arg(rest, unsigned));
	va_end(rest);
	if (fd >= 0 && fd < FDS_MOST)
		of_shmem[fd] = (char)is_flat(path);
	return fd;
}

int fcntl(int fd, int command, ...)
{
	va_list rest;

	va_start(rest, command);
	void *argument = va_arg(rest, void *);
	va_end(rest);
	if ((command == F_SETLK || command == F_SETLKW || command == F_GETLK) && fd >= 0 &&
	    fd < FDS_MOST && of_shmem[fd])
		return refuse(ENOSYS);
	return NEXT("fcntl", int, int, ...)(fd, command, argument);
}

/* The names under which programs built for large files call the same. */
int stat64(const char *path, struct stat64 *found)
{
	return stat(path, (struct stat *)found);
}

int lstat64(const char *path, struct stat64 *found)
{
	return lstat(path, (struct stat *)found);
}

int fstat64(int fd, struct stat64 *found)
{
	return fstat(fd, (struct stat *)found);
}

int open64(const char *path, int flags, ...)
{
	va_list rest;

	va_start(rest, flags);
	int fd = open(path, flags, va_arg(rest, unsigned));
	va_end(rest);
	return fd;
}

int mkdir(const char *path, mode_t mode)
{
	return is_flat(path) ? refuse(ENOTSUP) : NEXT("mkdir", const char *, mode_t)(path, mode);
}

int mkdirat(int at, const char *path, mode_t mode)
{
	return is_flat(path) ? refuse(ENOTSUP)
			     : NEXT("mkdirat", int, const char *, mode_t)(at, path, mode);
}

int link(const char *old, const char *new)
{
	return is_flat(new) ? refuse(ENOTSUP) : NEXT("link", const char *, const char *)(old, new);
}

int symlink(const char *old, const char *new)
{
	return is_flat(new) ? refuse(ENOTSUP)
			    : NEXT("symlink", const char *, const char *)(old, new);
}

int rename(const char *old, const char *new)
{
	if (is_flat(new) && access("/etc/standin-no-rename", F_OK) == 0)
		return refuse(ENOTSUP);
	return NEXT("rename", const char *, const char *)(old, new);
}

/* Without /proc and /sys the C library counts what the calling thread is bound
 * to: remember the beginning. */
static long cpus;

__attribute__((constructor)) static void count_cpus(void)
{
	cpus = ((long (*)(int))dlsym(RTLD_NEXT, "sysconf"))(_SC_NPROCESSORS_ONLN);
}

long sysconf(int name)
{
	if (name == _SC_NPROCESSORS_ONLN && cpus > 0)
		return cpus;
	return ((long (*)(int))dlsym(RTLD_NEXT, "sysconf"))(name);
}

int uname(struct utsname *name)
{
	memset(name, 0, sizeof *name);
	strcpy(name->sysname, "QNX");
	strcpy(name->nodename, "standin");
	strcpy(name->release, "8.0.0");
	strcpy(name->version, "2026/02/27-11:02:56EST");
	strcpy(name->machine, "x86pc");
	return 0;
}
