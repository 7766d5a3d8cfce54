/* build_facts.h: what the build knows of itself. A build writes its own in the place of this one,
 * since not every compiler driver passes a quoted -D on unharmed; make sets both with -D. */
#ifndef FLEET_BASE_BUILD_FACTS_H
#define FLEET_BASE_BUILD_FACTS_H

#ifndef FLEET_BUILD_ID
#define FLEET_BUILD_ID "none"
#endif
#ifndef FLEET_CFLAGS
#define FLEET_CFLAGS "unknown"
#endif

#endif
