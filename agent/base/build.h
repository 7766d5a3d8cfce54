/* build.h: what this binary was made of. */
#ifndef FLEET_BASE_BUILD_H
#define FLEET_BASE_BUILD_H

#include "base/build_facts.h"

#define FLEET_AGENT_VERSION "0.1.0"

#ifdef __clang__
#define FLEET_COMPILER __VERSION__
#else
#define FLEET_COMPILER "gcc " __VERSION__
#endif

#endif
