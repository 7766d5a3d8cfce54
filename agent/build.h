/* build.h: what this binary was made of; the build sets FLEET_BUILD_ID and FLEET_CFLAGS. */
#ifndef FLEET_BUILD_H
#define FLEET_BUILD_H

#define FLEET_AGENT_VERSION "0.1.0"

#ifndef FLEET_BUILD_ID
#define FLEET_BUILD_ID "none"
#endif
#ifndef FLEET_CFLAGS
#define FLEET_CFLAGS "unknown"
#endif

#ifdef __clang__
#define FLEET_COMPILER __VERSION__
#else
#define FLEET_COMPILER "gcc " __VERSION__
#endif

#endif
