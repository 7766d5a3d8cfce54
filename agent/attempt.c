/* attempt.c: see attempt.h. */
#include "attempt.h"

#include <errno.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ATTEMPT_S = 10 };

/* Where no child can be made nothing is known, and the variant is taken at its word. */
bool attempt_survives(const struct benchmark *benchmark, const struct variant *variant)
{
	const struct rlimit none = {0, 0};
	int status;
	pid_t child = fork();

	if (child < 0)
		return true;
	if (child == 0) {
		setrlimit(RLIMIT_CORE, &none);
		alarm(ATTEMPT_S);
		benchmark->attempt(variant);
		_exit(0);
	}
	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			return true;
	return status == 0;
}
