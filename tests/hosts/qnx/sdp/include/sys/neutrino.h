/*
 * A STAND-IN, not QNX: our own declarations, after the prototypes the product's
 * documentation publishes (C library reference: ThreadCtl(), ClockCycles(),
 * SchedGetCpuNum()), as far as the agent uses them. What compiles and runs with
 * it proves our code; it proves nothing about QNX.
 */
#ifndef STANDIN_SYS_NEUTRINO_H
#define STANDIN_SYS_NEUTRINO_H

#include <stdint.h>

#define FLEET_QNX_STANDIN 1 /* so the agent calls its OS qnx-standin */

enum {
	_NTO_TCTL_RUNMASK = 4,
	_NTO_TCTL_RUNMASK_GET_AND_SET = 6,
	_NTO_TCTL_RUNMASK_GET_AND_SET_INHERIT = 10,
};

/* As public headers have them, with an int of one bit. */
#define STANDIN_WORD(cpu)      ((cpu) / 32)
#define STANDIN_BIT(cpu)       (1 << ((cpu) % 32))
#define RMSK_SIZE(count)       (((count)-1) / 32 + 1)
#define RMSK_SET(cpu, words)   ((words)[STANDIN_WORD(cpu)] |= STANDIN_BIT(cpu))
#define RMSK_CLR(cpu, words)   ((words)[STANDIN_WORD(cpu)] &= ~STANDIN_BIT(cpu))
#define RMSK_ISSET(cpu, words) ((words)[STANDIN_WORD(cpu)] & STANDIN_BIT(cpu))

int ThreadCtl(int command, void *data);
unsigned SchedGetCpuNum(void);
uint64_t ClockCycles(void);

#endif
