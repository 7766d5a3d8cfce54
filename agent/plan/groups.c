/* groups.c: CPUs that work at once, chosen by the caches and cores that the OS reports. */
#include "plan/parts.h"

#include "bench/sizes.h"

#include <stdlib.h>
#include <string.h>

/* A CPU of the plan, and the properties that groups are made by; numbers as in struct cpu_facts. */
struct member {
	int cpu;
	int64_t core, package, node, cache, cache_bytes;
	int64_t kind;   /* a number that CPUs of one kind share */
	size_t in_core; /* how many CPUs of its core come before it */
};

/* Returns a number that CPUs of one kind share: they have equal caches and the same capacity. */
static int64_t hash_core_kind(const struct cpu_facts *facts)
{
	uint64_t kind = (uint64_t)facts->capacity;

	for (size_t i = 0; i < facts->cache_count; i++)
		kind = (kind ^ (uint64_t)facts->caches[i].bytes) * 0x100000001b3u;
	return (int64_t)kind;
}

static struct member describe_member(const struct machine *machine, int cpu,
				     const struct member *before, size_t count,
				     struct cpu_facts *facts)
{
	if (machine_get_cpu(machine, cpu, facts))
		facts->cache_count = 0;
	const struct cpu_cache *last = last_data_cache(facts);
	struct member member = {.cpu = cpu,
				.core = facts->core,
				.package = facts->package,
				.node = facts->node,
				.cache = last ? last->group : UNKNOWN,
				.cache_bytes = last ? last->bytes : 0,
				.kind = hash_core_kind(facts)};

	for (size_t i = 0; i < count; i++)
		member.in_core += member.core != UNKNOWN && before[i].core == member.core;
	return member;
}

/* Describes all CPUs of the plan, the first into plan->facts. The caller frees it. */
static struct member *describe_members(struct plan *plan)
{
	struct member *members = calloc(plan->cpu_count, sizeof *members);
	struct cpu_facts facts;

	plan->cores = calloc(plan->cpu_count, sizeof *plan->cores);
	for (size_t i = 0; members && plan->cores && i < plan->cpu_count; i++) {
		members[i] = describe_member(plan->machine, plan->cpus[i], members, i, &facts);
		if (i == 0)
			plan->facts = facts;
		plan->cores[i] = members[i].core;
	}
	if (plan->cores)
		return members;
	free(members);
	return NULL;
}

static uint64_t sum_cache_bytes(const struct member *members, size_t count)
{
	uint64_t total = 0;

	for (size_t i = 0; i < count; i++) {
		bool counted = false;

		for (size_t k = 0; k < i && !counted; k++)
			counted = members[k].cache == members[i].cache;
		total += counted ? 0 : (uint64_t)members[i].cache_bytes;
	}
	return total;
}

static int add_group(struct plan *plan, const int *cpus, size_t count, struct refusal *refusal)
{
	for (size_t i = 0; i < plan->group_count; i++) {
		struct group *group = &plan->groups[i];

		if (group->count == count && group->cpus[0] == cpus[0] &&
		    group->cpus[count - 1] == cpus[count - 1]) {
			group->uses |= plan->group_uses;
			return 0;
		}
	}
	if (plan->group_count == UINT16_MAX)
		return refuse(refusal, EXIT_OPTIONS, "more than %d groups of CPUs", UINT16_MAX);
	struct group *groups = realloc(plan->groups, (plan->group_count + 1) * sizeof *groups);

	if (!groups)
		return refuse(refusal, EXIT_OTHER, "out of memory for groups of CPUs");
	plan->groups = groups;

	struct group *group = &groups[plan->group_count];

	group->cpus = plan_copy_cpus(cpus, count);
	if (!group->cpus)
		return refuse(refusal, EXIT_OTHER, "out of memory for groups of CPUs");
	group->count = count;
	group->uses = plan->group_uses;
	plan->group_count++;
	return 0;
}

/* Adds groups of a single CPU: each CPU; or one of each kind under each last cache, in a plan by
 * nodes at most two of a kind a node. */
static int add_single_cpu_groups(struct plan *plan, const struct member *members, bool each_cpu,
				 struct refusal *refusal)
{
	int err = 0;

	for (size_t i = 0; !err && i < plan->cpu_count; i++) {
		const struct member *member = &members[i], *first = NULL;
		bool alike = false;

		for (size_t k = 0; !each_cpu && k < i && !alike; k++) {
			const struct member *other = &members[k];

			if (other->kind != member->kind ||
			    (plan->node_count && other->node != member->node))
				continue;
			first = first ? first : other;
			alike = other->cache == member->cache ||
				(plan->node_count && other->cache != first->cache);
		}
		if (!alike)
			err = add_group(plan, &member->cpu, 1, refusal);
	}
	return err;
}

static int64_t sharing_domain_number(const struct member *member, const char *word)
{
	return !strcmp(word, "llc")       ? member->cache
	       : !strcmp(word, "package") ? member->package
	       : !strcmp(word, "node")    ? member->node
	       : !strcmp(word, "smt")     ? member->core
	       : !strcmp(word, "cores")   ? (member->package == UNKNOWN ? 0 : member->package)
					  : 0;
}

/* Gathers the CPUs that share the number. first_only: one of each core. */
static size_t gather_sharing_cpus(const struct plan *plan, const struct member *members,
				  const char *word, int64_t shared, bool first_only, int *cpus)
{
	size_t count = 0;

	for (size_t i = 0; i < plan->cpu_count; i++)
		if (sharing_domain_number(&members[i], word) == shared &&
		    !(first_only && members[i].in_core))
			cpus[count++] = members[i].cpu;
	return count;
}

/* Adds a group for each set of CPUs that share what the word names. Of a lone core all CPUs work,
 * as do those of a node whose cores have their first CPUs on another node. */
static int add_sharing_groups(struct plan *plan, const struct member *members, const char *word,
			      int *scratch, struct refusal *refusal)
{
	bool cores = !strcmp(word, "cores") || !strcmp(word, "node");
	int err = 0;

	for (size_t i = 0; !err && i < plan->cpu_count; i++) {
		int64_t shared = sharing_domain_number(&members[i], word);

		if (shared == UNKNOWN)
			return refuse(
				refusal, EXIT_OPTIONS,
				"--threads %s: this machine does not tell which CPUs share it",
				word);
		size_t count = gather_sharing_cpus(plan, members, word, shared, cores, scratch);

		if (cores && count < 2)
			count = gather_sharing_cpus(plan, members, word, shared, false, scratch);
		err = add_group(plan, scratch, count, refusal);
	}
	return err;
}

/* Adds a group of so many CPUs, on as many cores as there are before a second CPU of any core. */
static int add_spread_group(struct plan *plan, const struct member *members, size_t wanted,
			    int *scratch, struct refusal *refusal)
{
	size_t count = 0;

	for (size_t rank = 0; count < wanted; rank++)
		for (size_t i = 0; i < plan->cpu_count && count < wanted; i++)
			if (members[i].in_core == rank)
				scratch[count++] = members[i].cpu;
	qsort(scratch, count, sizeof *scratch, plan_compare_numbers);
	return add_group(plan, scratch, count, refusal);
}

static int add_groups_of_word(struct plan *plan, const struct member *members, const char *word,
			      bool each_cpu, int *scratch, struct refusal *refusal)
{
	char *end;
	unsigned long number = strtoul(word, &end, 10);

	if (options_has_word("threads", word))
		return add_sharing_groups(plan, members, word, scratch, refusal);
	if (*word < '0' || *word > '9' || *end || !number)
		return options_refuse_value("threads", word, refusal);
	if (number > plan->cpu_count)
		return refuse(refusal, EXIT_OPTIONS, "--threads %lu: there are only %zu CPUs",
			      number, plan->cpu_count);
	return number == 1 ? add_single_cpu_groups(plan, members, each_cpu, refusal)
			   : add_spread_group(plan, members, number, scratch, refusal);
}

/* Adds the groups that --threads names, and one CPU of each kind. */
static int add_all_groups(struct plan *plan, const struct options *options,
			  const struct member *members, int *scratch, struct refusal *refusal)
{
	bool each_cpu = options->cpus != NULL;
	char word[WORD_ROOM];
	int err = 0;

	for (size_t i = 0; i < plan->choice_count; i++) {
		const struct benchmark *benchmark = plan->choices[i].benchmark;
		const char *usual = benchmark->threads ? benchmark->threads : "1,all";

		if (plan->node_count && bench_has_nodes(benchmark))
			usual = benchmark->threads ? "node" : "1,node";
		const char *list = options->threads ? options->threads : usual;

		if (benchmark->shape != SHAPE_GROUP ||
		    (i && benchmark == plan->choices[i - 1].benchmark))
			continue;
		plan->group_uses = plan_benchmark_bit(benchmark);
		while (!err && plan_read_word(&list, word))
			err = add_groups_of_word(plan, members, word, each_cpu, scratch, refusal);
	}
	plan->group_uses = 0;
	return err ? err : add_single_cpu_groups(plan, members, each_cpu, refusal);
}

int plan_make_groups(struct plan *plan, const struct options *options, struct refusal *refusal)
{
	bool many = false, grouped = false;
	int err = 0;

	for (size_t i = 0; i < plan->choice_count; i++) {
		grouped |= plan->choices[i].benchmark->shape == SHAPE_GROUP;
		many |= plan->choices[i].benchmark->many_points;
	}
	if (!grouped && !many)
		return 0;
	struct member *members = describe_members(plan);
	int *scratch = calloc(plan->cpu_count, sizeof *scratch);

	if (!members || !scratch)
		err = refuse(refusal, EXIT_OTHER, "out of memory");
	else if (grouped)
		err = add_all_groups(plan, options, members, scratch, refusal);
	if (members && !err)
		plan->cache_bytes = sum_cache_bytes(members, plan->cpu_count);
	free(members);
	free(scratch);
	return err;
}
