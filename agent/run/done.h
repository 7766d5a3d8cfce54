/* done.h: what an earlier agent has measured of this plan. */
#ifndef FLEET_RUN_DONE_H
#define FLEET_RUN_DONE_H

#include "emit/report.h"

/* Takes it over from the file of --done, whose format docs/wire.md has. Nothing is measured yet. */
int done_take(struct run *run, const char *path, struct refusal *refusal);

#endif
