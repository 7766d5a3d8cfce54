/* unreached.h: the visits that the time budget cut off in the first round. */
#ifndef FLEET_RUN_UNREACHED_H
#define FLEET_RUN_UNREACHED_H

#include "base/text.h"
#include "emit/report.h"

/* How many visits the first round did not reach. */
size_t unreached_count(const struct run *run);

/* Names them, each point once with the number of its visits. */
void unreached_name(const struct run *run, struct text *text);

#endif
