/* run.h: carrying out a plan. */
#ifndef FLEET_RUN_H
#define FLEET_RUN_H

#include "base/refuse.h"
#include "emit/report.h"

/* Makes room for what will be learnt of the plan's visits, and takes over from a file what an
 * earlier agent has measured of them; null: from none. */
int run_prepare(struct run *run, const char *done, struct refusal *refusal);

/* Takes over what an earlier agent measured from the file of --done, whose format docs/wire.md has.
 * Nothing is measured yet. */
int done_read_file(struct run *run, const char *path, struct refusal *refusal);

void run_free(struct run *run);

/* Measures the whole plan, or until an order to end comes, and emits what it finds. */
enum exit_code run_plan(struct run *run);

#endif
