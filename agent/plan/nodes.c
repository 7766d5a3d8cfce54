/* nodes.c: the NUMA nodes of --nodes, on which memory is placed by turns. */
#include "plan/parts.h"

#include "machine/arena.h"

#include <inttypes.h>
#include <string.h>

static size_t count_words(const char *list)
{
	char word[WORD_ROOM];
	size_t count = 0;

	while (plan_read_word(&list, word))
		count++;
	return count;
}

static bool has_word(const char *list, const char *wanted)
{
	char word[WORD_ROOM];

	if (!strcmp(list, "all"))
		return true;
	while (plan_read_word(&list, word))
		if (!strcmp(word, wanted))
			return true;
	return false;
}

int plan_refuse_policies(const struct machine *machine, const char *option, struct refusal *refusal)
{
	if (!machine->node_count || !machine->nodes[0].error)
		return 0;
	return refuse(
		refusal, EXIT_CPU,
		"--%s: memory policies are refused here (get_mempolicy or mbind: %s). Allow both "
		"in the seccomp profile (a container: CAP_SYS_NICE), or leave --%s out",
		option, strerror(-machine->nodes[0].error), option);
}

static int refuse_list(const struct machine *machine, const char *list, struct refusal *refusal)
{
	struct text available = {0};

	if (plan_refuse_policies(machine, "nodes", refusal))
		return -1;
	for (size_t i = 0; i < machine->node_count; i++)
		text_add(&available, "%s%d%s", i ? ", " : "", machine->nodes[i].number,
			 machine->nodes[i].allowed ? "" : " (not allowed here)");
	refuse(refusal, EXIT_CPU,
	       "--nodes %s: name NUMA nodes with memory, each once, or all; there is %s", list,
	       available.length ? available.data : "none, as far as the OS tells");
	text_free(&available);
	return -1;
}

/* Refuses --nodes where nothing of the plan can be placed, or is placed already. */
static int check_what_is_placed(const struct plan *plan, struct refusal *refusal)
{
	bool any_memory = false, any_line = false;

	for (size_t i = 0; i < plan->choice_count; i++) {
		any_memory |= bench_has_nodes(plan->choices[i].benchmark);
		any_line |= plan->choices[i].benchmark->lines > 0;
	}
	if (any_line && plan->placement.fixed)
		return refuse(refusal, EXIT_OPTIONS,
			      "--nodes puts lines on each node, --line fixed keeps them on one: "
			      "leave one of them out");
	if (!any_memory)
		return refuse(refusal, EXIT_OPTIONS,
			      "--nodes: no benchmark of this plan can place its memory");
	return 0;
}

/* Adds the machine's nodes that the list names and that may be used. */
static void add_listed_nodes(struct plan *plan, const char *list)
{
	char name[WORD_ROOM];

	for (size_t i = 0; i < plan->machine->node_count; i++) {
		const struct node *node = &plan->machine->nodes[i];

		snprintf(name, sizeof name, "%d", node->number);
		if (node->allowed && has_word(list, name))
			plan->nodes[plan->node_count++] = node->number;
	}
}

static void note_nodes_left_out(const struct plan *plan, struct notes *notes)
{
	for (size_t i = 0; i < plan->machine->node_count; i++)
		if (!plan->machine->nodes[i].allowed)
			notes_add(notes,
				  "NUMA node %d is not allowed here: its memory is left out.",
				  plan->machine->nodes[i].number);
	if (plan->node_count == 1)
		notes_add(notes, "Of NUMA nodes only %d can be used: matrices have one column.",
			  plan->nodes[0]);
}

int plan_choose_nodes(struct plan *plan, const struct options *options, struct notes *notes,
		      struct refusal *refusal)
{
	const char *list = options->nodes;

	if (!list)
		return 0;
	if (check_what_is_placed(plan, refusal))
		return -1;
	add_listed_nodes(plan, list);
	if (!strcmp(list, "all")) {
		note_nodes_left_out(plan, notes);
		return plan->node_count ? 0 : refuse_list(plan->machine, list, refusal);
	}
	if (plan->node_count != count_words(list))
		return refuse_list(plan->machine, list, refusal);
	return 0;
}

int plan_check_nodes(struct plan *plan, struct refusal *refusal)
{
	const struct machine *machine = plan->machine;

	for (size_t i = 0, n = 0; n < plan->node_count; i++) {
		const struct node *node = &machine->nodes[i];
		uint64_t bytes = arena_total_bytes(machine->page_bytes, machine->huge_page_bytes,
						   node->number);

		if (node->number != plan->nodes[n])
			continue;
		plan->node_bytes[n++] = bytes;
		if (node->free_bytes != UNKNOWN && 2 * bytes > (uint64_t)node->free_bytes)
			return refuse(refusal, EXIT_OPTIONS,
				      "NUMA node %d has %" PRIi64 " MiB free, and the points take "
				      "%" PRIu64 " MiB there, of which twice as much must be free: "
				      "--sizes, --threads and --nodes reduce it",
				      node->number, node->free_bytes >> 20, bytes >> 20);
	}
	return 0;
}
