/*
 * A STAND-IN, not QNX: our own declarations of the parts of the system page
 * that the product's documentation describes (Building Embedded Systems,
 * "System Page") and the agent reads. Sizes are those of a system page of 8.0.0
 * that was published (tests/recordings/qnx); order and the sections' own
 * records are guesses. The agent must work with any.
 */
#ifndef STANDIN_SYS_SYSPAGE_H
#define STANDIN_SYS_SYSPAGE_H

#include <stddef.h>
#include <stdint.h>

enum {
	CACHE_FLAG_INSTR = 0x01,
	CACHE_FLAG_DATA = 0x02,
	CACHE_FLAG_UNIFIED = 0x03,
	CACHE_FLAG_SHARED = 0x04,
	CACHE_LIST_END = 0xff,
};

#define AARCH64_CPU_FLAG_LSE 0x8000u

struct cpuinfo_entry {
	uint32_t cpu;   /* MIDR on Arm */
	uint32_t speed; /* MHz; may be 0 */
	uint32_t flags;
	uint32_t smp_hwcoreid; /* MPIDR on Arm, APIC id on x86 */
	uint64_t idle_history;
	uint32_t spare;
	uint16_t name; /* offset in strings */
	uint8_t ins_cache, data_cache;
};

struct cacheattr_entry {
	uint32_t next, line_size, num_lines, flags;
};

struct qtime_entry {
	uint64_t cycles_per_sec;
};

struct strings_entry {
	char data[1];
};

typedef struct {
	uint16_t entry_off, entry_size;
} syspage_entry_info;

typedef struct {
	uint16_t entry_off, entry_size, element_size;
} syspage_array_info;

struct syspage_entry {
	uint16_t num_cpu;
	syspage_array_info cpuinfo, cacheattr;
	syspage_entry_info qtime, strings;
};

extern struct syspage_entry *_syspage_ptr;

#define SYSPAGE_ENTRY(name)                                                                        \
	((struct name##_entry *)(void *)((char *)_syspage_ptr + _syspage_ptr->name.entry_off))
#define SYSPAGE_ENTRY_SIZE(name)   (_syspage_ptr->name.entry_size)
#define SYSPAGE_ELEMENT_SIZE(name) (_syspage_ptr->name.element_size)
#define SYSPAGE_ARRAY_ADJ_OFFSET(name, element, bytes)                                             \
	((struct name##_entry *)(void *)((char *)(element) + (bytes)))
#define SYSPAGE_ARRAY_IDX(name, index)                                                             \
	SYSPAGE_ARRAY_ADJ_OFFSET(name, SYSPAGE_ENTRY(name), (index)*SYSPAGE_ELEMENT_SIZE(name))

#endif
