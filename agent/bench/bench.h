/* bench.h: what a benchmark is. One file per benchmark; all.c lists them. */
#ifndef FLEET_BENCH_H
#define FLEET_BENCH_H

#include "base/random.h"
#include "bench/list.h"
#include "native/native.h"
#include "options/options.h"

#include <stdbool.h>
#include <stddef.h>

/* The CPUs of a visit: each one, each pair, or a group of as many as the point has threads. */
enum shape { SHAPE_CPU, SHAPE_PAIR, SHAPE_GROUP };

/* In which order a chase visits its lines. */
enum order {
	ORDER_NONE,
	ORDER_RANDOM,
	ORDER_WINDOW,
	ORDER_RISING,
	ORDER_CHASE, /* of fetch: each line names the next, in random order */
	ORDER_STREAM
};

/* The state that lines are brought into before they are fetched. */
enum state {
	STATE_NONE,
	STATE_OWN,
	STATE_WRITTEN,
	STATE_CLEAN,
	STATE_BOTH,
	STATE_THIRD,
	STATE_TAKEN,
	STATE_EVICTED,
	STATE_MEMORY,
	STATES
};

/* The memory that a thread works on. */
/* SHARED: blocks of all threads by turns. WORDS: a word of one line for each. */
enum sharing { SHARING_NONE, SHARING_OWN, SHARING_ONE, SHARING_SHARED, SHARING_WORDS, SHARINGS };

/* What gemm multiplies, and where it lies; an operation of a point. */
enum gemm_point {
	GEMM_PEAK,         /* registers */
	GEMM_ROWS,         /* A in rows of an even number of cache lines */
	GEMM_ODD,          /* A in rows of an odd number of lines, as in all below */
	GEMM_BLOCKED,      /* A as the loop reads it */
	GEMM_STREAM,       /* a new B each time */
	GEMM_STREAM_AHEAD, /* a new B, prefetched while the one before is used */
	GEMM_DEEP,         /* a new A and B each time, all added up in C */
	GEMM_POINTS
};

enum { POINT_ROOM = 48, LOAD_FULL = INT32_MAX, NO_NODE = LOAD_FULL };

/* Which points are left out where time or memory is short. */
enum spared {
	SPARED_NEVER,
	SPARED_FIRST,  /* sizes within and between the levels of memory */
	SPARED_MEMORY, /* points outside all caches, left out next */
	SPARED_LARGE,  /* points that take most memory */
};

/* One setting of a benchmark's parameters; 0 where it has no such parameter. */
struct point {
	char name[POINT_ROOM]; /* no blanks; empty if the benchmark has no parameters */
	uint64_t bytes;        /* working set of one thread */
	uint32_t stride_bytes, block_bytes;
	uint32_t threads;
	uint32_t lines;           /* of a message, its flag's included */
	uint32_t m, n, k, copies; /* of gemm */
	uint32_t load_mbps;       /* asked of each thread but ping; LOAD_FULL: as much as goes */
	uint32_t read_percent; /* of the bytes of a load that also writes; 0: two of three parts */
	const struct variant *load_variant; /* the variant of those threads; null: ping's */
	uint32_t memory_node; /* where the memory lies; NO_NODE: where the run has it */
	uint32_t load_node;   /* that of all but ping; NO_NODE: there, too */
	uint64_t grain;       /* units in a grain, where they depend on the variant */
	uint8_t operation, state, order, sharing;
	bool huge_pages;
	uint64_t arena_bytes; /* bytes that a thread uses of its CPU's arena; 0: none */
	uint64_t load_bytes;  /* bytes that each thread but ping uses; 0: arena_bytes */
	uint64_t cycle; /* identifies the cycle in ping's arena; points with the same number reuse
			   it; 0: new */
	uint64_t walk_bytes; /* bytes of each thread's second arena, which drives lines out of its
				caches */
	bool walk_huge;      /* its pages */
	bool walked;         /* nothing can be flushed: other memory drives the lines out */
	bool one_arena;      /* all have the arena of the thread that owns the lines */
	bool by_turns;       /* each thread does as many units as ping */
	uint8_t spared;      /* an enum spared */
	size_t first_visit, visit_count; /* its visits, which stand together in a plan */
};

struct benchmark;

/* Where a table of results has a parameter: in its rows, in its columns, or a table for each. */
enum role { ROLE_NONE, ROLE_ROW, ROLE_COLUMN, ROLE_TABLE };

/* A word that a parameter may be, for people. */
struct word {
	unsigned value;
	const char *meaning; /* null ends a list */
};

/* A member of `struct point` as records have it: a word, or a number, left out where it is 0. */
struct parameter {
	const char *name;   /* null ends a list */
	const char *option; /* that asks for it; null: none */
	enum role role;
	size_t offset, size;                 /* of the member */
	const char *(*word)(unsigned value); /* null: a number; returns null: not a word */
	const char *(*record)(const struct point *point); /* null, or says more than the word */
	const struct word *words;                         /* in the order of a table */
	bool bytes;                                       /* a number of bytes */
	const char *none; /* the word for LOAD_FULL, which leaves the number out */
	bool node;        /* a number of a NUMA node */
};

#define POINT_MEMBER(member)                                                                       \
	.offset = offsetof(struct point, member), .size = sizeof(((struct point *)0)->member)
#define PARAMETER_THREADS                                                                          \
	{                                                                                          \
		.name = "threads", POINT_MEMBER(threads)                                           \
	}
#define PARAMETER_PAGES                                                                            \
	{                                                                                          \
		.name = "pages", .option = "pages", POINT_MEMBER(huge_pages), .word = pages_name,  \
		.words = pages_words                                                               \
	}
#define PARAMETER_NODE                                                                             \
	{                                                                                          \
		.name = "memory_node", .option = "nodes", POINT_MEMBER(memory_node),               \
		.none = "any", .node = true                                                        \
	}
/* The words of a parameter: pairs of a value and what it means. */
#define MEANINGS(list, ...) const struct word list[] = {__VA_ARGS__, {.meaning = NULL}}
extern const struct word pages_words[];

#define PARAMETERS(...) static const struct parameter parameters[] = {__VA_ARGS__, {.name = NULL}}

/* A growing list of points. */
struct points {
	struct point *list;
	size_t count, room;
};

/* The conditions, beside the options, that the points of a plan depend on. */
struct point_context {
	const struct benchmark *benchmark;
	const struct variant *variant;
	const struct cpu_facts *facts; /* of the first CPU; without caches where unknown */
	const uint32_t *threads;       /* sizes of the groups that --threads names, ascending */
	size_t thread_count;
	size_t cpu_count;
	uint64_t cache_bytes;        /* of the last-level caches of all CPUs together; 0: unknown */
	bool automatic;              /* the variant does only what no better one does */
	bool huge_pages;             /* huge pages can be had */
	bool by_node;                /* the points are made on several nodes */
	bool flushes;                /* lines can be flushed */
	bool base_asked, huge_asked; /* --pages */
	uint32_t rows, columns, depth; /* common multiples of these in the plan's gemm variants */
	const struct variant *helpers[OPERATIONS]; /* the best that does it; null: none */
	struct notes *others; /* for a note on a shape that is left out; null: gemm is alone */
};

/* Bytes of gemm's matrices, in a thread's memory: C lies at its start, then A, then B. */
struct gemm_layout {
	size_t c_row, c_bytes;
	size_t a_row, a_step, a_strip; /* from row to row, step to step, strip to strip */
	size_t a_bytes, b_bytes, b_panel;
	size_t a_copy, b_copy; /* from one copy to the next; a_copy 0: there is one A */
	size_t ahead_step; /* bytes of the next B prefetched in a step, to have all of it in time */
	size_t bytes;      /* of all matrices */
	uint64_t steps;
	uint32_t strips;                                /* in a call */
	uint64_t product_operations, column_operations; /* the second of a column of a call */
	uint32_t copies;
};

/* Where a thread is in its products: gemm. */
struct product {
	struct gemm_layout layout;
	const struct gemm_reference *reference;
	uint64_t owed;               /* operations asked for and not done yet */
	uint32_t row, column, calls; /* of the call that comes next, and calls before it */
	uint32_t copy;               /* of B, or of A and B, in use */
	_Alignas(LINE_BYTES) char values[2048]; /* of registers */
};

/* One thread's part in a burst. Each lies on lines of its own. */
struct side {
	_Alignas(LINE_BYTES) const struct variant *variant;
	const struct clock *clock;
	const struct point *point;
	size_t index, count;    /* its index, 0 for ping; how many threads */
	uint32_t *const *lines; /* fresh cache lines, all 0; where the benchmark has any */
	char *arena;            /* memory of its own, or that all have; where the point has any */
	char *walk;             /* memory of its own to drive lines out; where the point has any */
	void **cycle;           /* where the arena's cycle begins; *cycle null: none yet */
	uint64_t first;         /* units done untimed before the first sample */
	uint64_t odd;           /* loops that did not end where they should: the burst fails */
	uint32_t *progress;     /* counted up now and then while it prepares and works */
	union {
		struct {
			uint32_t *watched; /* the line it waits on */
			uint32_t *written; /* the line it stores to; may be the same */
			uint32_t from;     /* what it waits for next */
			uint32_t to;       /* what it then stores */
		} turn;                    /* cas, readwrite */
		struct {
			void *next, *start; /* next line to load; where the chase began */
			uint64_t lines, loads;
			chase_fn *chase;
			struct random random;
		} chain; /* chase, fetch */
		struct {
			char *to;               /* the memory gone through */
			const char *from;       /* the source of a copy */
			size_t bytes, position; /* bytes in one pass, and done of it */
		} sweep;                        /* bandwidth */
		struct {
			char *first; /* its first block */
			size_t step;
			const char *end; /* where the block behind its last would begin */
		} blocks;                /* interleave */
		struct {
			char *sent, *received; /* the lines of either way, in order */
			uintptr_t *last;       /* the value of each received line before */
			int64_t sum;           /* latencies of the last sample, in ticks */
			double lost_share;     /* of the time of receiving them, without the CPU */
			uint32_t *awaited, *partner; /* which message each side awaits */
			uint32_t sent_count, received_count;
			struct random random;
		} mail;                 /* message */
		struct product product; /* gemm */
		struct {
			size_t position[2]; /* in the memory; of a mix the second is what is written
					     */
			uint64_t grains, begun, due;
			uint64_t grain_ticks; /* from a part to the next, in 1/65536 */
			size_t grain;
		} load; /* loaded, of all but ping */
		struct {
			uint32_t *word;
			uint32_t from, to;     /* of a turn */
			uint32_t first, value; /* the first value put there, and the next */
			uint32_t sum;          /* sum of the values exchanged for them */
			uint32_t tries;
		} contest; /* contend */
	};

	_Alignas(LINE_BYTES) uint32_t done; /* units, by a benchmark that counts them all */
};

struct benchmark {
	const char *name;
	const char *question;   /* that it answers */
	const char *unit;       /* one iteration of a sample */
	const char *other_unit; /* what the other threads count, if it is not `unit` */
	bool two_ways;          /* a unit has two latencies, one each way */
	const char *heading;    /* heading of its numbers, for people */
	const char *rate;       /* shown in place of the ns of a unit: units in a ns; null: none */
	const char *view;  /* matrix, ladder, blocks or products; null: a table of its parameters */
	const char *point; /* whose number stands for the pair in a matrix; null: none */
	const struct parameter *parameters; /* null: none */
	enum shape shape;
	const char *threads; /* groups of CPUs, unless --threads names some; null: 1,all */
	const struct benchmark *helper; /* whose variants all but ping have; null: as ping */
	size_t lines;                   /* fresh cache lines in play */
	bool all_timed;                 /* every thread takes times; else ping alone */
	bool huge_pages;  /* its memory lies in huge pages unless others are asked for */
	bool many_points; /* so many that only few pairs are visited */
	bool all_counted; /* ping notes at its stamps what others did, who work until the end */
	bool single;      /* a sample is one grain, whatever is asked for; with `make_ready`, as
			     many as the clock's steps ask for */
	bool clocked;     /* the core's frequency is measured behind each sample, too */
	bool compares;  /* check_results() compares results with a reference, of points with memory
			 */
	uint32_t least; /* grains in a trial, and what their number is a multiple of */
	uint32_t chunk; /* units between two looks at whether to go on; about a ms at most */
	uint32_t sample_us; /* a sample lasts at least so long */
	const struct variant *native_variants, *generic_variants; /* null: none */

	/* Adds the points of a plan; null: the benchmark has no parameters. */
	int (*add_points)(const struct options *options, const struct point_context *context,
			  struct points *points, struct refusal *refusal);

	/* Reports whether the variant has a loop for the point. Null: each has. */
	bool (*is_supported)(const struct variant *variant, const struct point *point);

	/* Returns the units in a grain; a sample has a whole number of grains. Null: as below. */
	uint64_t (*units_in_grain)(const struct point *point);
	uint32_t grain_units; /* at every point; 0: 1 */

	/* Runs each loop of a variant once, so that a loop that dies does so here. Null: not
	 * needed. */
	void (*run_loops_once)(const struct variant *variant);

	/* Fills in the sides of all threads; touches no memory of theirs. */
	void (*set_up)(struct side *sides, size_t count, struct random *random);

	/* Called untimed, by each thread on its CPU, before all meet; calls bench_report_progress()
	 * now and then. -errno fails the burst. Null: not called. */
	int (*prepare)(struct side *side);

	/* Called untimed, by each thread before each grain, once for each phase; all meet after it.
	 * Then ping alone works. Null: samples follow one another. */
	void (*make_ready)(struct side *side, unsigned phase);
	unsigned phases;

	/* Does n units. Finite, or waits for another thread only by the lines. */
	void (*do_units)(struct side *side, uint32_t n);

	/* Returns the ticks of the sample just done. Null: a sample is the time that the work took.
	 */
	int64_t (*sample_ticks)(const struct side *side);
	/* Returns for which share of the sample the thread was without its CPU. */
	double (*sample_lost_share)(const struct side *side);
	/* Called untimed, by each thread after its last sample. Null: not called. */
	void (*finish)(struct side *side);

	/* Checks that each side did what was counted. If not, returns false and says in words what
	 * it did. Null: no check. */
	bool (*check_results)(const struct side *sides, size_t count, char *words, size_t room);

	/* Does one step of the missing partner, so that a waiting thread goes on. Null: no thread
	 * waits, so each works on until all have their times. */
	void (*release_waiting)(struct side *sides, size_t count);
};

#define DECLARE(name) extern const struct benchmark bench_##name;
BENCHMARKS(DECLARE)
#undef DECLARE

/* All benchmarks; ends with a null pointer. */
extern const struct benchmark *const bench_all[];

/* Names the variants of benchmark `clock` after the clock in use. */
void bench_use_clock(const struct clock *clock);

/* Returns a benchmark's i-th variant, the best first; null after the last. */
const struct variant *bench_variant(const struct benchmark *benchmark, size_t i);

/* Reports whether the benchmark has this name. */
bool bench_has_name(const struct benchmark *benchmark, const char *name);

/* Reports whether --nodes can place the benchmark's memory. */
bool bench_has_nodes(const struct benchmark *benchmark);

/* Adds the benchmarks with a parameter that an option sets, or with many points: "chase, loaded: ".
 */
void bench_add_names(struct text *text, const char *option);

/* Adds the meanings of the words that benchmarks take for an option. */
void bench_add_words(struct text *text, const char *option);

/* Tells the supervisor that the thread gets on. */
void bench_report_progress(struct side *side);

/* Returns the bytes that a thread uses of its arena; thread 0 is ping. */
uint64_t point_arena_bytes(const struct point *point, size_t thread);

/* Returns the number that a thread's arena is found by: its CPU. On a node of --nodes it is the
 * thread's place, so that all k-th threads share an arena. */
int point_arena_owner(const struct point *point, const int *cpus, size_t thread);

/* Returns the node of a thread's arena; `usual` where the point does not choose one. */
int point_choose_node(const struct point *point, size_t thread, int usual);

/* Returns the units in a grain of this point. */
uint64_t bench_units_in_grain(const struct benchmark *benchmark, const struct point *point);

/* Return the word that records use; null if there is none. */
const char *order_name(unsigned order);
const char *operation_name(unsigned operation);
const char *sharing_name(unsigned sharing);
const char *pages_name(unsigned huge);
const char *gemm_point_name(unsigned kind);

/* Combines the ticks of one sample of all threads that take times, which lie `apart` values apart.
 * A pair gives their mean; a group the ticks of one thread as fast as all together. */
double bench_combine_ticks(const struct benchmark *benchmark, const uint64_t *ticks, size_t threads,
			   size_t apart);

#endif
