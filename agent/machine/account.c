/* account.c: see account.h. */
#include "machine/account.h"

#include "base/stop.h"
#include "native/native.h"

enum { CLOCKS_APART = 1000 };

/* The readings of CPU time enclose those of the clock, and the two clocks may run at slightly
 * different rates. */
int64_t account_measure_lost_ns(struct account *last)
{
	struct account now = {.at_ns = now_ns()};

	os_thread_cpu_ns(&now.ran_ns);
	int64_t elapsed_ns = now.at_ns - last->at_ns;
	int64_t lost = elapsed_ns - elapsed_ns / CLOCKS_APART - (now.ran_ns - last->ran_ns);

	now.at_ns = now_ns();
	*last = now;
	return lost > 0 ? lost : 0;
}
