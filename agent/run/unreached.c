/* unreached.c: see unreached.h. */
#include "run/unreached.h"

#include "run/history.h"

enum { NAMED_BYTES = 1200 };

/* Is it one of those that no agent has reached, or of those given up? */
static bool is_of(const struct history *history, bool given_up)
{
	return given_up ? history->given_up
			: !history->given_up && history->took_s <= 0 && !history->done;
}

size_t unreached_count(const struct run *run, bool given_up)
{
	size_t count = 0;

	for (size_t i = 0; i < run->plan->visit_count; i++)
		count += is_of(&run->histories[i], given_up);
	return count;
}

void unreached_name(const struct run *run, bool given_up, struct text *text)
{
	const struct plan *plan = run->plan;
	size_t unnamed = 0;

	for (size_t i = 0, next; i < plan->visit_count; i = next) {
		const struct visit *visit = &plan->visits[i];
		const char *name = plan_point(visit)->name;
		size_t count = 0;

		for (next = i; next < plan->visit_count &&
			       plan_point(&plan->visits[next]) == plan_point(visit);
		     next++)
			count += is_of(&run->histories[next], given_up);
		if (count && text->length > NAMED_BYTES) {
			unnamed++;
			continue;
		}
		if (count)
			text_add(text, "%s%s/%s%s%s", text->length ? ", " : "",
				 visit->choice->benchmark->name, visit->choice->variant->name,
				 *name ? " " : "", name);
		if (count > 1)
			text_add(text, " (%zu)", count);
	}
	if (unnamed)
		text_add(text, " and %zu more points", unnamed);
}
