/* x86_64_gemm.h: what the files of x86_64's products share. */
#ifndef FLEET_X86_64_GEMM_H
#define FLEET_X86_64_GEMM_H

#include "native.h"

/* On tiles: native/x86_64_amx.c. */
extern const struct gemm x86_64_amx_bf16, x86_64_amx_int8;

#endif
