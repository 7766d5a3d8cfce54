/*
 * Preloaded into the agent: to touch more than LETHAL_BYTES of a mapping of its own kills it by the
 * signal LETHAL_SIGNAL.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static size_t most;

static void die(int number)
{
	signal(SIGSEGV, SIG_DFL);
	(void)number;
	kill(getpid(), atoi(getenv("LETHAL_SIGNAL")));
}

__attribute__((constructor)) static void begin(void)
{
	if (!strstr(program_invocation_short_name, "fleet-"))
		return;
	most = strtoul(getenv("LETHAL_BYTES"), NULL, 10);
	signal(SIGSEGV, die);
}

void *mmap(void *at, size_t bytes, int access, int flags, int file, off_t from)
{
	char *start = (char *)syscall(SYS_mmap, at, bytes, access, flags, file, from);

	if (most && start != MAP_FAILED && bytes > most)
		mprotect(start + most, bytes - most, PROT_NONE);
	return start;
}
