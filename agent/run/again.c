/* again.c: see again.h. */
#include "run/again.h"

#include <errno.h>
#include <stdlib.h>

int again_add(struct again *again, struct attempt attempt)
{
	if (again->count == again->room) {
		size_t room = again->room ? 2 * again->room : 16;
		struct attempt *list = realloc(again->list, room * sizeof *list);

		if (!list)
			return -ENOMEM;
		again->list = list;
		again->room = room;
	}
	again->list[again->count++] = attempt;
	return 0;
}

int again_add_next(struct again *again, struct attempt attempt)
{
	attempt.number++;
	return again_add(again, attempt);
}

void again_clear(struct again *again)
{
	free(again->list);
	*again = (struct again){0};
}
