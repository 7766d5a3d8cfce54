/* native.h: THE CONTRACT. All that a machine must give, and nothing else knows the machine.
 *
 * `os_...` comes from native/<os>.c and native/<os>_*.c, `arch_...` from native/<arch>.c and
 * native/<arch>_*.c, `generic_...` from native/generic.c; the build picks the files by name. To add
 * an architecture or an OS: one file here, and what docs/porting.md lists elsewhere.
 *
 * Functions return 0 (or a count, or a number asked for) or -errno. Beyond this page the agent uses
 * POSIX only: threads, signals, poll, pipe, clock_gettime. */
#ifndef FLEET_NATIVE_H
#define FLEET_NATIVE_H

#include "operations.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Marks a timed loop: it is not inlined, so that it keeps a name of its own in the binary. */
#define TIMED static __attribute__((noinline))

/* Spacing of the lines we place: the largest coherence line of any target (s390x: 256 bytes). */
#define LINE_BYTES 256

/* Features of a CPU beyond its architecture's baseline: found by os_features(), needed by
 * variants. */
enum feature {
	FEATURE_LSE = 1u << 0,       /* aarch64: atomic instructions of Armv8.1 */
	FEATURE_ZACAS = 1u << 1,     /* riscv64: atomic compare-and-swap, extension Zacas */
	FEATURE_LAM_CAS = 1u << 2,   /* loongarch64: atomic compare-and-swap of version 1.1 */
	FEATURE_AVX = 1u << 3,       /* x86_64: vectors of 256 bits, saved by the OS */
	FEATURE_AVX512 = 1u << 4,    /* x86_64: AVX-512F, saved by the OS */
	FEATURE_CLZERO = 1u << 5,    /* x86_64: an instruction that clears a line */
	FEATURE_SVE = 1u << 6,       /* aarch64: scalable vectors */
	FEATURE_ZVA = 1u << 7,       /* aarch64: user code may clear blocks */
	FEATURE_SSE2 = 1u << 8,      /* i386: vectors of 128 bits */
	FEATURE_NEON = 1u << 9,      /* armv7: Advanced SIMD */
	FEATURE_RVV = 1u << 10,      /* riscv64: vectors, extension V */
	FEATURE_CBO_ZERO = 1u << 11, /* riscv64: user code may clear blocks, of 64 bytes */
	FEATURE_POWER9 = 1u << 12,   /* ppc64le: instructions of version 3.0, with vectors */
	FEATURE_DCBZ = 1u << 13,     /* ppc64le: a block that dcbz clears has 128 bytes */
	FEATURE_VX = 1u << 14,       /* s390x: vectors */
	FEATURE_LSX = 1u << 15,      /* loongarch64: vectors of 128 bits */
	FEATURE_LASX = 1u << 16,     /* loongarch64: vectors of 256 bits */
	FEATURE_FMA = 1u << 17,      /* x86_64: AVX2 and fused multiply-add */
	FEATURE_AVX512_VNNI = 1u << 18,
	FEATURE_AVX512_BF16 = 1u << 19,
	FEATURE_AMX_BF16 = 1u << 20, /* x86_64: tiles, which the OS saves and permits */
	FEATURE_AMX_INT8 = 1u << 21,
	FEATURE_FLUSH = 1u << 22,    /* user code may flush lines out of all caches */
	FEATURE_BF16 = 1u << 23,     /* aarch64: products of bf16, bfmmla */
	FEATURE_I8MM = 1u << 24,     /* aarch64: products of bytes, smmla */
	FEATURE_AMX_TILE = 1u << 25, /* x86_64: tiles, whatever they multiply */
	FEATURE_LRCPC = 1u << 26,    /* aarch64: loads that acquire, but may pass a release */
};

/* Waits until *line is `from`, then stores `to` in the same atomic step; n times, n >= 1.
 * No fences and no pre-read: we measure the line. */
typedef void cas_fn(uint32_t *line, uint32_t from, uint32_t to, uint32_t n);

/* Waits until *watched is `from`, then stores `to` in *written; n times, n >= 1. `from` and `to`
 * are 0 or 1, and both change to the other value after each store. The store is not seen before the
 * load that ended the wait. */
typedef void readwrite_fn(uint32_t *watched, uint32_t *written, uint32_t from, uint32_t to,
			  uint32_t n);

/* Loads from a line the address of the next, n x LOADS times; returns the line where it ended. */
enum { LOADS = 16 };
typedef void *chase_fn(void *line, uint32_t n);

/* Waits until the word no longer holds `old`; returns what it holds then. Orders nothing: what
 * follows may be done before that load unless a barrier forbids it. */
typedef uintptr_t receive_fn(const uintptr_t *word, uintptr_t old);

/* Goes once through `bytes` bytes from `cursor` on, a multiple of 2 KiB; returns where it ended. A
 * copy reads as many from `from`, which does not overlap. What is stored is not zero, except by
 * OPERATION_ZERO, and not the same everywhere. */
typedef char *stream_fn(char *cursor, const char *from, size_t bytes);

enum { TILE_ROWS = 16, TILE_ROW_BYTES = 64, TILE_BYTES = TILE_ROWS * TILE_ROW_BYTES };

/* Loads `count` tiles of a matrix whose rows are `stride` bytes apart: those of 16 rows from left
 * to right, then those of the next 16. Begins with the tile at `cursor`, from which on `left` tiles
 * remain in its rows. Returns where the tile after the last one lies. */
typedef const char *tiles_fn(const char *cursor, size_t stride, size_t left, size_t count);

struct tiles {
	uint32_t stride; /* bytes from row to row, unless the user asks for others */
	bool is_fixed;   /* the user cannot choose others */
	tiles_fn *read;
	void (*begin)(void), (*end)(void); /* around all use by a thread */
};

/* The values of matrices; products of bytes add up to int32, all others to fp32. */
enum gemm_value {
	GEMM_FP32,
	GEMM_BF16,
	GEMM_INT8,
	GEMM_UINT8, /* A is unsigned, B signed */
};

/* The operands of a call: strips of A, of gemm.rows rows each, times a panel of B give a part of C.
 * A step takes gemm.depth values of k. In A those of a row lie together. In B those of a block of
 * columns do: gemm.pack values of the first column, of the second, ...; then the next gemm.pack
 * values of the first. */
struct gemm_tile {
	const char *a;        /* the first row; aligned as its values are */
	size_t a_row, a_step; /* bytes from row to row, and from step to step */
	size_t a_strip;       /* and from strip to strip */
	const char *b;        /* 64-byte aligned; the values of the steps follow one another */
	char *c;              /* 64-byte aligned, as each row is */
	size_t c_row;
	uint64_t strips, steps; /* not 0; strips is 1 where gemm.strips is false */
	uint64_t add;           /* 0: replaces what C holds; 1: adds to it */
	const char *ahead;
	size_t ahead_step; /* bytes from `ahead` on that a prefetching loop takes in a step */
};

typedef void gemm_fn(const struct gemm_tile *tile);

/* Loads registers from 2 KiB of values, and multiplies them with each other `turns` times. */
typedef void gemm_peak_fn(const void *values, uint64_t turns);

struct gemm {
	enum gemm_value value;
	uint8_t rows, columns; /* rows and columns of C that one call computes */
	uint8_t depth,
		pack;  /* values of k in a step, and side by side in B: see struct gemm_tile */
	uint8_t block; /* columns of B in a block; B has any number of blocks */
	bool strips;   /* a call can do more than one */
	uint32_t peak_operations;           /* in a turn of `peak`; a multiply-add is two */
	gemm_fn *multiply, *multiply_ahead; /* the second prefetches */
	gemm_peak_fn *peak;
	void (*begin)(void), (*end)(void); /* around all use by a thread; null: not needed */
};

/* Initializes a struct gemm whose loops have related names: strips of m rows, blocks of n columns,
 * steps of k values, of which `side` lie side by side in B. */
#define GEMM_OF(arch, name, type, m, n, k, side, many, operations)                                 \
	{                                                                                          \
		.value = type, .rows = m, .columns = n, .depth = k, .pack = side, .block = n,      \
		.strips = many, .peak_operations = operations, .multiply = arch##_gemm_##name,     \
		.multiply_ahead = arch##_gemm_ahead_##name, .peak = arch##_peak_##name             \
	}

/* Follows a chain of n lines as chase_fn does, but by an atomic operation that takes each line for
 * writing and changes nothing. Returns the line at which it ended. */
typedef void *swap_fn(void *line, uint32_t n);

enum { LINE_PAGE = 4096 };

/* Loads from, or stores to, one word of a line every `stride` bytes, in rising order from `cursor`
 * up to `end`: whole pages of LINE_PAGE bytes, without the first line of each. Stores never to a
 * line's first word. Returns where it ended, once all accesses are done. */
typedef char *lines_fn(char *cursor, size_t stride, const char *end);

/* Writes blocks of `block` bytes, a multiple of 64, each `step` bytes after the one before, from
 * `cursor` on, as long as one begins below `end`. Returns where the next would begin. What is
 * written is different in each line, and not zero. */
typedef char *blocks_fn(char *cursor, size_t block, size_t step, const char *end);

/* Writes back and drops from all caches a line every `step` bytes; returns when all are done. */
typedef void flush_fn(char *cursor, size_t bytes, size_t step);

/* Does n additions, a multiple of 16, of which each needs the one before and takes one cycle. */
typedef void adds_fn(uint32_t n);

/* The instructions a benchmark uses, in a table ordered best first. A line only ever holds 0 or 1,
 * so that flipping it releases a thread that waits in any variant. */
struct variant {
	const char *name;              /* as typed after --variant */
	uint32_t needs;                /* FEATURE_ bits; 0 if always there */
	cas_fn *cas;                   /* in the tables of cas and contend */
	readwrite_fn *readwrite;       /* in the table of readwrite */
	receive_fn *receive;           /* in the table of message */
	chase_fn *chase;               /* in the table of chase */
	stream_fn *stream[OPERATIONS]; /* in the table of bandwidth; null: it has no such loop */
	const struct tiles *tiles;     /* in the table of bandwidth: reads by tiles; or null */
	const struct gemm *gemm;       /* in the table of gemm */
	swap_fn *swap;                 /* in the table of fetch, as are the next two; or null */
	lines_fn *load, *store;
	blocks_fn *blocks, *nt_blocks; /* in that of interleave; nt: past the caches, or null */
	add_fn *add[OPERATIONS];       /* in the table of contend, as are the next two; or null */
	put_fn *put[OPERATIONS];
	lock_fn *lock[OPERATIONS];
};
#define VARIANTS(table, ...) const struct variant table[] = {__VA_ARGS__, {.name = NULL}}
#define NO_VARIANTS(table)   const struct variant table[] = {{.name = NULL}}

/* A counter to time with. Only readings on one CPU are subtracted; benchmark message also subtracts
 * those of two CPUs, in both directions, so that the offset between their counters cancels. */
struct clock {
	const char *name;
	const char *note; /* why this clock and not the usual one; null if nothing to say */
	uint64_t ticks_per_second; /* 0: not known, to be measured */
	uint64_t (*ticks)(void);   /* not reordered with the memory accesses around it */
	bool is_rate_wrong;        /* set by clock_choose(): the OS's clock contradicts the rate */
	uint64_t quantum_ticks; /* set by clock_choose(): greatest common divisor of steps seen */
	uint64_t (*sent)(void); /* reads it too, but later accesses may pass; null: use ticks */
};

/* ---- the operating system -------------------------------------------------------------------- */

extern const char os_name[];

/* Lists the CPUs this process may use, ascending, by the OS's numbers: its affinity, not what is
 * online. Call it before any thread pins itself. The caller frees *cpus. */
int os_list_cpus(int **cpus, size_t *count);

/* Binds the calling thread to one CPU, and checks that it is there and allowed nowhere else; -EXDEV
 * if the OS had no objection but the thread is not there. */
int os_pin_self(int cpu);

/* Writes, after -EXDEV, where the calling thread is and where it may run, for a message. */
enum { PLACE_ROOM = 64 };
void os_describe_current_cpu(char place[PLACE_ROOM]);

/* Returns the CPU that the calling thread is on. */
int os_current_cpu(void);

/* Returns a number for the calling thread, by which another thread can check its binding. */
int64_t os_thread_id(void);

/* Returns -EXDEV if the thread is not bound to just this CPU any more; 0 also if unknown. */
int os_check_binding(int64_t thread, int cpu);

/* Reads the CPU time that the calling thread has had so far. */
int os_thread_cpu_ns(int64_t *ns);

/* Gives the calling thread a realtime priority under which only higher ones preempt it. */
int os_make_self_realtime(int priority);

/* Gives the calling thread an ordinary priority again. */
void os_make_self_ordinary(void);

/* The realtime priority taken where none is asked for and the OS allows it; 0: none. */
extern const int os_priority_usual;

/* Fills in the clock that is always there. */
void os_get_clock(struct clock *clock);

/* Reads the rate of the architecture's counter; -ENOTSUP where the OS does not state it. */
int os_get_counter_rate(uint64_t *ticks_per_second);

size_t os_page_bytes(void);

/* Maps fresh pages that no thread has touched, of the base page size. */
int os_pages_map(size_t pages, void **start);

enum { HUGE_MOST = 32 << 20 }; /* larger pages are not used */

/* Returns the size of a huge page; 0 where there are none. */
size_t os_huge_page_bytes(void);

/* Maps *bytes, rounded up, untouched, for huge pages; os_huge_pages_check() tells if they are. */
int os_huge_pages_map(void **start, size_t *bytes);
int os_pages_unmap(void *start, size_t bytes);

/* Checks that the touched part of a mapping is in huge pages; -ENOTSUP if not all of it is. */
int os_huge_pages_check(const void *start);

/* The memory and CPU time that this process may take. The texts name what sets the limit; they are
 * empty where it is the machine. */
enum { LIMIT_ROOM = 128 };

struct limits {
	uint64_t memory_bytes; /* UINT64_MAX: not known */
	char memory[LIMIT_ROOM];
	int64_t kills; /* processes killed for lack of memory in our group or machine; or UNKNOWN */
	double cpus;   /* CPUs' worth of time; 0: no limit */
	char cpu_time[LIMIT_ROOM];
};

/* Reads the limits; -ENOTSUP if they are not known, and then nothing is filled in. */
int os_limits_read(struct limits *limits);

/* Places pages that are not touched yet on this node. */
int os_pages_bind(void *start, size_t bytes, int node);

/* Finds the nodes of `count` touched pages, `step` bytes apart; count <= PAGES_ASKED. Stores a node
 * for each page, or -errno where it cannot be told. */
enum { PAGES_ASKED = 512 };
int os_pages_find_nodes(char *start, size_t count, size_t step, int *nodes);

/* A NUMA node with memory. */
enum { NODES_MOST = 64, NODE_NUMBERS = 1024 };

struct node {
	int number;
	bool allowed;       /* this process may place pages there */
	int64_t free_bytes; /* UNKNOWN: not told */
	int error;          /* -errno of the call that reports `allowed`, where it was refused */
};

/* Lists the nodes, ascending; returns how many, 0 where the OS reports none. */
size_t os_list_nodes(struct node nodes[NODES_MOST]);

/* Finds the number of the physical page of a touched page; -ENOTSUP where it is hidden. */
int os_find_physical_page(const void *page, uint64_t *number);

/* Settings of the machine that a person may ask us to change for the time of a run. */
enum setting {
	SETTING_GOVERNOR, /* governor of one CPU: a name the OS knows */
	SETTING_BOOST,    /* boost of the machine: "on" or "off"; the CPU is ignored */
};

enum { SETTING_ROOM = 64 };

/* Reads a setting; -ENOTSUP where the machine has no such setting. */
int os_setting_read(enum setting setting, int cpu, char value[SETTING_ROOM]);

/* Writes a setting; succeeds only if the value reads back. */
int os_setting_write(enum setting setting, int cpu, const char *value);

/* Counts the context switches of the calling thread so far; -ENOTSUP where the OS does not. */
int os_count_switches(int64_t *voluntary, int64_t *involuntary);

/* Reports whether the OS learns of time taken by a hypervisor, and leaves it out of threads' CPU
 * time; false also where none has been taken since boot. */
bool os_has_steal_time(void);

/* Opens the OS's account of how long the calling thread waits for its CPU; returns its number, from
 * 0, or -errno. */
int os_wait_time_open(void);

/* Reads how long the thread was ready to run while others had its CPU; the account stays open. */
int os_wait_time_read(int account, int64_t *ns);
void os_wait_time_close(int account);

/* An event that the OS can count, by its numbers: those of perf_event_open(2). */
struct event {
	uint32_t type;
	uint64_t config;
	bool kernel; /* also what the kernel does for the thread */
};

/* The raw count, and how long it was wanted and really counted; enabled_ns 0: never counted. */
struct event_count {
	uint64_t count, enabled_ns, running_ns;
};

/* Opens a counter of the calling thread's events, stopped at 0; returns its number, from 0.
 * -ENOTSUP where the OS has none. */
int os_counter_open(const struct event *event);

/* Starts, or stops, all counters of the calling thread. */
void os_counters_start(void);
void os_counters_stop(void);

/* Reads a counter and closes it. */
int os_counter_read_and_close(int counter, struct event_count *count);

/* Explains why a counter was refused with this error, and what to do about it. */
const char *os_explain_counter_refusal(int err);

/* The facts of a CPU that an OS reports to local programs. CPUs with equal numbers are in one
 * group. hardware_id: the CPU's own number, the APIC id or MPIDR. */
enum { CPU_CACHES = 8, CPU_NAME_ROOM = 80, UNKNOWN = -1 };

struct cpu_cache {
	int level;
	const char *kind; /* "Data", "Instruction" or "Unified" */
	int64_t bytes, line_bytes;
	int64_t group; /* the CPUs that share it */
};

struct cpu_facts {
	char name[CPU_NAME_ROOM]; /* empty if unknown */
	int64_t mhz, hardware_id; /* UNKNOWN, as all below, where it cannot be found */
	int64_t capacity;         /* relative speed of this kind of CPU in the machine */
	int64_t core, cluster, die, package;
	int64_t node;
	struct cpu_cache caches[CPU_CACHES];
	size_t cache_count;
};

/* Adds the known facts of the CPU, which the caller is on, to *facts; -ENOTSUP if nothing is
 * known. */
int os_cpu_describe(int cpu, struct cpu_facts *facts);

/* Returns the FEATURE_ bits of this CPU: the single crossing between OS and architecture. */
uint32_t os_features(void);

/* Explains why features cannot be used; null: the CPU lacks them. Sets *withheld to whether the CPU
 * has them all the same. */
const char *os_explain_missing(uint32_t features, bool *withheld);

/* ---- the architecture ------------------------------------------------------------------------ */

extern const char arch_name[];

/* Fills in the CPU's counter; -ENOTSUP if it cannot be used for timing: clock->note says why. */
int arch_get_clock(struct clock *clock);

extern const struct variant arch_cas[], arch_readwrite[], arch_message[], arch_chase[],
	arch_stream[], arch_fetch[], arch_interleave[], arch_contend[], arch_gemm[];

/* Null where no user code can; where this CPU cannot, os_features() lacks FEATURE_FLUSH. */
extern flush_fn *const arch_flush;

/* Does additions; null where one may take longer than a cycle, or takes none. */
extern adds_fn *const arch_adds;

/* ---- any machine with a C compiler: native/generic.c ----------------------------------------- */

extern const struct variant generic_cas[], generic_readwrite[], generic_message[], generic_chase[],
	generic_stream[], generic_fetch[], generic_interleave[], generic_contend[], generic_gemm[];

#endif
