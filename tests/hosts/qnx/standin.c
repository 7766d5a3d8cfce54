/*
 * A STAND-IN, not QNX: loaded into every program of the fake QNX host (/etc/ld.so.preload there).
 * It answers uname() as QNX would, and lets /dev/shmem be as flat as QNX's: no directories, no
 * links; with the file /etc/standin-no-rename no renaming either.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
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

/* Without /proc and /sys the C library counts what the calling thread is bound to: remember the
 * beginning. */
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
