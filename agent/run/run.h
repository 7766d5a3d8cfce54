/* run.h: carrying out a plan. */
#ifndef FLEET_RUN_H
#define FLEET_RUN_H

#include "base/refuse.h"
#include "emit/report.h"

/* Allocates the histories of the plan's visits, and reads from a file what an earlier agent
 * measured of them; done null: nothing. Returns 0, or -1 and a refusal. */
int run_prepare(struct run *run, const char *done, struct refusal *refusal);

/* Reads what an earlier agent measured from the file of --done, whose format docs/wire.md has.
 * Called before anything is measured. */
int done_read_file(struct run *run, const char *path, struct refusal *refusal);

void run_free(struct run *run);

/* Measures the whole plan, or until an order to end comes, and emits the results. */
enum exit_code run_plan(struct run *run);

#endif
