/* history.c: what the agent knows of each visit. */
#include "run/history.h"

#include "base/level.h"
#include "base/stop.h"
#include "plan/plan.h"

#include <stdlib.h>

uint64_t history_sample_units(const struct history *history)
{
	const struct visit *visit = history->visit;

	return history->iterations *
	       bench_units_in_grain(visit->choice->benchmark, plan_visit_point(visit));
}

bool history_extend(struct history *history, uint32_t rounds)
{
	if (rounds <= history->rounds)
		return true;
	float *ns = realloc(history->ns, rounds * sizeof *ns);

	if (!ns) {
		stop_record_reason("out of memory");
		return false;
	}
	history->ns = ns;
	while (history->rounds < rounds)
		ns[history->rounds++] = NO_VALUE;
	return true;
}

void history_note_burst(struct history *history, uint32_t round, double ns)
{
	if (history_extend(history, round + 1))
		history->ns[round] = (float)ns;
}
