/* unreached.h: the visits that the time budget cut off in the first round, and those given up. */
#ifndef FLEET_RUN_UNREACHED_H
#define FLEET_RUN_UNREACHED_H

#include "base/text.h"
#include "emit/report.h"

/* How many visits the first round did not reach, or are given up. */
size_t unreached_count(const struct run *run, bool given_up);

/* Names them, each point once with the number of its visits. */
void unreached_name(const struct run *run, bool given_up, struct text *text);

#endif
