/* counters.h: performance counters of the threads of a burst, where asked for. */
#ifndef FLEET_MACHINE_COUNTERS_H
#define FLEET_MACHINE_COUNTERS_H

#include "base/refuse.h"
#include "native/native.h"

enum { COUNTERS_MAX = 16, COUNTER_NAME_ROOM = 48 };

/* The events counted in every timed thread. */
struct counters {
	size_t count;
	struct counter {
		char name[COUNTER_NAME_ROOM];
		struct event event;
		const char *refused; /* why it is not counted; null: it is */
	} counter[COUNTERS_MAX];
};

/* Reads a list of NAME=TYPE:CONFIG[:k]; null or empty: none. Returns 0, or -1 and a refusal. */
int counters_parse(struct counters *counters, const char *text, struct refusal *refusal);

/* Finds out which can be opened, noting which cannot and why. threads: how many count at once. */
void counters_try_all(struct counters *counters, size_t threads, struct notes *notes);

/* Reports whether any event is counted. */
bool counters_has_any(const struct counters *counters);

/* Opens all of them for the calling thread; one that cannot be opened is negative. */
void counters_open(const struct counters *counters, int opened[COUNTERS_MAX]);

/* Reads them into as many counts, and closes them. */
void counters_read_and_close(const struct counters *counters, const int opened[COUNTERS_MAX],
			     struct event_count counts[COUNTERS_MAX]);

#endif
