/* on_cpu.h: asking something in a thread on one CPU. */
#ifndef FLEET_MACHINE_ON_CPU_H
#define FLEET_MACHINE_ON_CPU_H

/* What `work` returns there; -errno if it did not begin, -ECHILD if a filter refuses threads. */
int on_cpu(int cpu, int (*work)(int cpu, void *of), void *of);

#endif
