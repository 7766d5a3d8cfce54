/* facts.h: the machine that is planned for: this one, or another one that a file describes. */
#ifndef FLEET_MACHINE_FACTS_H
#define FLEET_MACHINE_FACTS_H

#include "base/refuse.h"
#include "native/native.h"

#include <stdbool.h>
#include <stddef.h>

enum { ARCH_ROOM = 32 };

/* A CPU of another machine. */
struct described_cpu {
	int cpu;
	struct cpu_facts facts;
};

struct machine {
	struct described_cpu *others; /* ascending; null: it is this machine */
	char arch[ARCH_ROOM];         /* if not ours, its variants are not known */
	int *cpus;                    /* that may be used, ascending */
	size_t cpu_count;
	uint32_t features;      /* FEATURE_ bits */
	size_t page_bytes;      /* of base pages */
	size_t huge_page_bytes; /* 0: there are none, or nobody has tried yet */
	bool is_huge_known;     /* it has been tried */
	struct limits limits;
	struct node nodes[NODES_MOST];
	size_t node_count;
};

/* Reads what this machine reports of itself. Returns 0 or -errno. */
int machine_read_this(struct machine *machine);

/* Reads another machine from a file, as docs/wire.md describes; returns 0, or -1 and a refusal. */
int machine_read_file(struct machine *machine, const char *path, struct refusal *refusal);

/* Fills in what is known of a CPU, UNKNOWN for the rest; 0, or -errno if nothing is known. */
int machine_get_cpu(const struct machine *machine, int cpu, struct cpu_facts *facts);

/* Reports whether a thread can be bound to this CPU; never on another machine. */
bool machine_can_use_cpu(const struct machine *machine, int cpu);

/* Returns the size of a huge page; 0 where there are none. On this machine it tries once. */
size_t machine_huge_page_size(struct machine *machine);

/* Checks that memory may be placed on this NUMA node. Returns 0, or -errno for why not. */
int machine_check_node(const struct machine *machine, int node);

/* Reports whether the machine has our architecture; else its variants are not known. */
bool machine_has_our_arch(const struct machine *machine);

void machine_free(struct machine *machine);

/* Asks the OS about a CPU, in a thread on it; unknown values are UNKNOWN. Returns 0 or -errno. */
int machine_ask_cpu(int cpu, struct cpu_facts *facts);

/* The bits of os_features() by their names; the last has none. */
extern const struct feature_name {
	uint32_t bit;
	const char *name;
} machine_features[];

/* Calls `work` in a thread on that CPU and returns its result; -errno if it did not begin, -ECHILD
 * if a filter refuses threads. */
int call_on_cpu(int cpu, int (*work)(int cpu, void *context), void *context);

#endif
