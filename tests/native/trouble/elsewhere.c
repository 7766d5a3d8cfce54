/* Preloaded into the agent: a kernel that places every page on NUMA node ELSEWHERE, whatever was asked. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/syscall.h>

long syscall(long number, ...)
{
	long (*real)(long, ...) = dlsym(RTLD_NEXT, "syscall");
	long a[6];
	va_list args;

	va_start(args, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(args, long);
	va_end(args);
	long result = real(number, a[0], a[1], a[2], a[3], a[4], a[5]);

	if (number == SYS_move_pages && result == 0)
		*(int *)a[4] = atoi(getenv("ELSEWHERE"));
	return result;
}
