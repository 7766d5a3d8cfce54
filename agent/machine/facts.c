/* facts.c: see facts.h. */
#include "machine/facts.h"

#include "machine/arena.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct feature_name machine_features[] = {
	{FEATURE_LSE, "lse"},
	{FEATURE_ZACAS, "zacas"},
	{FEATURE_LAM_CAS, "lam_cas"},
	{FEATURE_AVX, "avx"},
	{FEATURE_AVX512, "avx512"},
	{FEATURE_CLZERO, "clzero"},
	{FEATURE_SVE, "sve"},
	{FEATURE_ZVA, "zva"},
	{FEATURE_SSE2, "sse2"},
	{FEATURE_NEON, "neon"},
	{FEATURE_RVV, "rvv"},
	{FEATURE_CBO_ZERO, "cbo_zero"},
	{FEATURE_POWER9, "power9"},
	{FEATURE_DCBZ, "dcbz"},
	{FEATURE_VX, "vx"},
	{FEATURE_LSX, "lsx"},
	{FEATURE_LASX, "lasx"},
	{FEATURE_FMA, "fma"},
	{FEATURE_AVX512_VNNI, "avx512_vnni"},
	{FEATURE_AVX512_BF16, "avx512_bf16"},
	{FEATURE_AMX_TILE, "amx_tile"},
	{FEATURE_AMX_BF16, "amx_bf16"},
	{FEATURE_AMX_INT8, "amx_int8"},
	{FEATURE_FLUSH, "flush"},
	{FEATURE_BF16, "bf16"},
	{FEATURE_I8MM, "i8mm"},
	{FEATURE_LRCPC, "lrcpc"},
	{0, NULL},
};

struct task {
	int cpu, result;
	int (*work)(int cpu, void *context);
	void *context;
};

static void *run_task(void *arg)
{
	struct task *task = arg;

	task->result = os_pin_self(task->cpu);
	if (!task->result)
		task->result = task->work(task->cpu, task->context);
	return NULL;
}

int call_on_cpu(int cpu, int (*work)(int cpu, void *context), void *context)
{
	struct task task = {.cpu = cpu, .work = work, .context = context};
	pthread_t thread;
	int err = pthread_create(&thread, NULL, run_task, &task);

	if (err)
		return err == EPERM || err == EACCES ? -ECHILD : -err;
	pthread_join(thread, NULL);
	return task.result;
}

static int describe_cpu(int cpu, void *facts)
{
	return os_cpu_describe(cpu, facts);
}

int machine_ask_cpu(int cpu, struct cpu_facts *facts)
{
	*facts = (struct cpu_facts){.mhz = UNKNOWN,
				    .hardware_id = UNKNOWN,
				    .capacity = UNKNOWN,
				    .core = UNKNOWN,
				    .cluster = UNKNOWN,
				    .die = UNKNOWN,
				    .package = UNKNOWN,
				    .node = UNKNOWN};
	return call_on_cpu(cpu, describe_cpu, facts);
}

int machine_read_this(struct machine *machine)
{
	*machine = (struct machine){.features = os_features(),
				    .page_bytes = os_page_bytes(),
				    .limits = {.memory_bytes = UINT64_MAX, .kills = UNKNOWN}};
	strcpy(machine->arch, arch_name);
	if (!arch_flush)
		machine->features &= ~(uint32_t)FEATURE_FLUSH;
	os_limits_read(&machine->limits);
	machine->node_count = os_list_nodes(machine->nodes);
	int err = os_list_cpus(&machine->cpus, &machine->cpu_count);

	return err ? err : machine->cpu_count ? 0 : -ENODEV;
}

size_t machine_huge_page_size(struct machine *machine)
{
	if (!machine->is_huge_known)
		machine->huge_page_bytes = arena_has_huge_pages() ? os_huge_page_bytes() : 0;
	machine->is_huge_known = true;
	return machine->huge_page_bytes;
}

int machine_get_cpu(const struct machine *machine, int cpu, struct cpu_facts *facts)
{
	if (!machine->others)
		return machine_ask_cpu(cpu, facts);
	for (size_t i = 0; i < machine->cpu_count; i++)
		if (machine->others[i].cpu == cpu) {
			*facts = machine->others[i].facts;
			return 0;
		}
	return -ENODEV;
}

static int do_nothing(int cpu, void *context)
{
	(void)cpu;
	(void)context;
	return 0;
}

bool machine_can_use_cpu(const struct machine *machine, int cpu)
{
	return !machine->others && !call_on_cpu(cpu, do_nothing, NULL);
}

int machine_check_node(const struct machine *machine, int node)
{
	for (size_t i = 0; i < machine->node_count; i++)
		if (machine->nodes[i].number == node && machine->nodes[i].allowed)
			return 0;
	return machine->node_count ? -ENODEV : machine->others ? 0 : -ENOTSUP;
}

bool machine_has_our_arch(const struct machine *machine)
{
	return !strcmp(machine->arch, arch_name);
}

void machine_free(struct machine *machine)
{
	free(machine->cpus);
	free(machine->others);
	*machine = (struct machine){0};
}

enum { CPUS_MOST = 1 << 16 };

static const char blanks[] = " \n";

/* Reads the next word, a number from 0 on, or `-` for UNKNOWN; returns false if it is neither. */
static bool parse_number_field(char **rest, int64_t *number)
{
	char *end, *word = strtok_r(NULL, blanks, rest);

	*number = UNKNOWN;
	if (!word || !strcmp(word, "-"))
		return word;
	if (*word < '0' || *word > '9')
		return false;
	errno = 0;
	*number = strtoll(word, &end, 10);
	return !*end && !errno;
}

static bool parse_size_field(char **rest, uint64_t *bytes)
{
	int64_t number;

	if (!parse_number_field(rest, &number) || number == UNKNOWN)
		return false;
	*bytes = (uint64_t)number;
	return true;
}

static bool copy_words(const char *rest, char words[LIMIT_ROOM])
{
	snprintf(words, LIMIT_ROOM, "%.*s", (int)strcspn(rest, "\n"), rest);
	return true;
}

/* Reads feature names. Names that this agent does not know belong to later agents, and none of its
 * variants needs them. */
static bool parse_features_line(char **rest, struct machine *machine)
{
	const char *word;

	while ((word = strtok_r(NULL, blanks, rest)))
		for (const struct feature_name *feature = machine_features; feature->name;
		     feature++)
			if (!strcmp(word, feature->name))
				machine->features |= feature->bit;
	return true;
}

static bool parse_cpu_line(char **rest, struct machine *machine)
{
	struct cpu_facts facts = {.mhz = UNKNOWN, .hardware_id = UNKNOWN};
	struct described_cpu *last = machine->others + machine->cpu_count;
	int64_t number;

	if (machine->cpu_count == CPUS_MOST || !parse_number_field(rest, &number) ||
	    !parse_number_field(rest, &facts.core) || !parse_number_field(rest, &facts.cluster) ||
	    !parse_number_field(rest, &facts.die) || !parse_number_field(rest, &facts.package) ||
	    !parse_number_field(rest, &facts.node) || !parse_number_field(rest, &facts.capacity) ||
	    number < 0 || number > INT32_MAX || (machine->cpu_count && last[-1].cpu >= number))
		return false;
	*last = (struct described_cpu){.cpu = (int)number, .facts = facts};
	machine->cpus[machine->cpu_count++] = (int)number;
	return true;
}

/* Adds a node: its number and free bytes, then `-` if pages may not be placed there. */
static bool parse_node_line(char **rest, struct machine *machine)
{
	int64_t number, bytes, allowed;

	if (machine->node_count == NODES_MOST || !parse_number_field(rest, &number) || number < 0 ||
	    number >= NODE_NUMBERS || !parse_number_field(rest, &bytes) ||
	    !parse_number_field(rest, &allowed))
		return false;
	machine->nodes[machine->node_count++] =
		(struct node){(int)number, allowed != UNKNOWN, bytes, 0};
	return true;
}

/* Adds a cache of the CPU before it. */
static bool parse_cache_line(char **rest, struct machine *machine)
{
	static const char *const kinds[] = {"Data", "Instruction", "Unified"};
	struct cpu_facts *facts = &machine->others[machine->cpu_count - 1].facts;
	struct cpu_cache cache = {.kind = NULL};
	int64_t level;
	const char *kind;

	if (!machine->cpu_count || facts->cache_count == CPU_CACHES ||
	    !parse_number_field(rest, &level) || !(kind = strtok_r(NULL, blanks, rest)) ||
	    !parse_number_field(rest, &cache.bytes) ||
	    !parse_number_field(rest, &cache.line_bytes) || !parse_number_field(rest, &cache.group))
		return false;
	cache.level = (int)level;
	for (size_t i = 0; i < 3; i++)
		if (!strcmp(kinds[i], kind))
			cache.kind = kinds[i];
	facts->caches[facts->cache_count++] = cache;
	return cache.kind && level > 0;
}

static bool read_facts_line(char *line, void *context)
{
	struct machine *machine = context;
	char *rest;
	const char *word = strtok_r(line, blanks, &rest), *text;
	uint64_t bytes;

	if (!word)
		return false;
	if (!strcmp(word, "cpu"))
		return parse_cpu_line(&rest, machine);
	if (!strcmp(word, "node"))
		return parse_node_line(&rest, machine);
	if (!strcmp(word, "cache"))
		return parse_cache_line(&rest, machine);
	if (!strcmp(word, "features"))
		return parse_features_line(&rest, machine);
	if (!strcmp(word, "arch")) {
		text = strtok_r(NULL, blanks, &rest);
		snprintf(machine->arch, sizeof machine->arch, "%s", text ? text : "");
		return text;
	}
	if (!strcmp(word, "memory_limit"))
		return copy_words(rest, machine->limits.memory);
	if (!strcmp(word, "cpu_limit")) {
		machine->limits.cpus = strtod(rest, &rest);
		return copy_words(rest + strspn(rest, blanks), machine->limits.cpu_time) &&
		       machine->limits.cpus > 0;
	}
	if (!parse_size_field(&rest, &bytes))
		return false;
	if (!strcmp(word, "memory_bytes"))
		machine->limits.memory_bytes = bytes;
	else if (!strcmp(word, "page_bytes") && bytes)
		machine->page_bytes = bytes;
	else if (!strcmp(word, "huge_page_bytes"))
		machine->huge_page_bytes = bytes <= HUGE_MOST ? bytes : 0;
	else
		return false;
	return true;
}

int machine_read_file(struct machine *machine, const char *path, struct refusal *refusal)
{
	*machine = (struct machine){.is_huge_known = true,
				    .page_bytes = 4096,
				    .limits.memory_bytes = UINT64_MAX,
				    .others = calloc(CPUS_MOST, sizeof *machine->others),
				    .cpus = calloc(CPUS_MOST, sizeof *machine->cpus)};
	strcpy(machine->arch, arch_name);
	if (!machine->others || !machine->cpus)
		return refuse(refusal, EXIT_OTHER, "out of memory");
	if (read_option_lines(refusal, "--facts", path, read_facts_line, machine))
		return -1;
	if (!machine->cpu_count)
		return refuse(refusal, EXIT_OPTIONS, "--facts: %s has no CPU", path);
	return 0;
}
