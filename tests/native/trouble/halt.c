/*
 * halt TID SECONDS: keeps one thread of another process from running for a while, as a starved CPU
 * would, by holding it under ptrace. Prints "halted" when it stands.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	pid_t thread = atoi(argv[1]);

	if (ptrace(PTRACE_SEIZE, thread, NULL, NULL) ||
	    ptrace(PTRACE_INTERRUPT, thread, NULL, NULL) ||
	    waitpid(thread, NULL, __WALL) != thread) {
		fprintf(stderr, "halt %d: %s\n", (int)thread, strerror(errno));
		return 1;
	}
	puts("halted");
	fflush(stdout);
	usleep((useconds_t)(atof(argv[2]) * 1e6));
	return ptrace(PTRACE_DETACH, thread, NULL, NULL) ? 1 : 0;
}
