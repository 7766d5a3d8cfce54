/* build_facts.h: facts about the build. A build replaces this file with its own, since not every
 * compiler driver passes a quoted -D on unharmed; make sets both with -D. */
#ifndef FLEET_BASE_BUILD_FACTS_H
#define FLEET_BASE_BUILD_FACTS_H

#ifndef FLEET_BUILD_ID
#define FLEET_BUILD_ID "none"
#endif
#ifndef FLEET_CFLAGS
#define FLEET_CFLAGS "unknown"
#endif

#endif
