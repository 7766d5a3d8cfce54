/* x86_64_amx.h: what native/x86_64_amx.c does on tiles. */
#ifndef FLEET_X86_64_AMX_H
#define FLEET_X86_64_AMX_H

#include "native.h"

extern const struct gemm x86_64_amx_bf16, x86_64_amx_int8;

/* Reads rows that lie apart, or the rows of each tile one behind the other. */
extern const struct tiles x86_64_tile, x86_64_tileblock;

#endif
