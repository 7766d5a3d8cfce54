/* choices.c: from names to benchmarks and their variants. */
#include "plan/parts.h"

#include "bench/sizes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ATTEMPT_S = 10 };

bool plan_read_word(const char **next, char word[WORD_ROOM])
{
	if (!*next)
		return false;
	size_t span = strcspn(*next, ",");

	snprintf(word, WORD_ROOM, "%.*s", (int)span, *next);
	*next = (*next)[span] ? *next + span + 1 : NULL;
	return true;
}

static const char *benchmark_name(unsigned i)
{
	return bench_all[i]->name;
}

/* Reads names into a mask of indexes into bench_all. */
static int read_benchmarks(const char *list, uint32_t *mask, struct refusal *refusal)
{
	unsigned count = 0;

	while (bench_all[count])
		count++;
	return read_words_as_mask("benchmark", list, benchmark_name, count, mask, refusal);
}

/* Chooses the variant named for a benchmark: a single word is for all; one not listed takes
 * auto. */
static void choose_variant_name(const struct benchmark *benchmark, const char *list,
				char name[WORD_ROOM])
{
	size_t length = strlen(benchmark->name);
	char word[WORD_ROOM];

	snprintf(name, WORD_ROOM, "%s", strchr(list, '=') ? "auto" : list);
	while (plan_read_word(&list, word))
		if (!strncmp(word, benchmark->name, length) && word[length] == '=')
			snprintf(name, WORD_ROOM, "%s", word + length + 1);
}

/* Reports whether the table has the variant's name before; it may have one for each kind of CPU. */
static bool is_repeated(const struct benchmark *benchmark, size_t i)
{
	const char *name = bench_variant(benchmark, i)->name;

	while (i--)
		if (!strcmp(bench_variant(benchmark, i)->name, name))
			return true;
	return false;
}

void plan_add_variants(struct text *text, const struct benchmark *benchmark, uint32_t features)
{
	const struct variant *variant;
	const char *separator = "";

	for (size_t i = 0; (variant = bench_variant(benchmark, i)); i++) {
		bool usable = !(variant->needs & ~features);

		if (is_repeated(benchmark, i))
			continue;
		text_add(text, "%s%s%s", separator, variant->name,
			 usable ? "" : " (not on this CPU)");
		separator = ", ";
	}
}

static int refuse_variant(const struct machine *machine, const struct benchmark *benchmark,
			  const char *name, struct refusal *refusal)
{
	const struct variant *variant;
	struct text available = {0};
	const char *why = NULL;
	bool withheld;

	plan_add_variants(&available, benchmark, machine->features);
	for (size_t i = 0; (variant = bench_variant(benchmark, i)); i++)
		if (!strcmp(variant->name, name) && !why && !machine->others)
			why = os_explain_missing(variant->needs & ~machine->features, &withheld);
	if (why)
		text_add(&available, "; %s: %s", name, why);
	refuse(refusal, EXIT_VARIANT, "%s has no variant '%s' here; there is: %s", benchmark->name,
	       name, available.data);
	text_free(&available);
	return -1;
}

/* Runs the variant once in a child process: it dies of instructions that an emulator or a
 * hypervisor lacks although it reports them. Called while there is no other thread. Returns true if
 * no child can be made. */
static bool has_survived_trial(const struct benchmark *benchmark, const struct variant *variant)
{
	const struct rlimit none = {0, 0};
	int status;
	pid_t child = fork();

	if (child < 0)
		return true;
	if (child == 0) {
		setrlimit(RLIMIT_CORE, &none);
		alarm(ATTEMPT_S);
		benchmark->run_loops_once(variant);
		_exit(0);
	}
	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			return true;
	return status == 0;
}

/* Reports whether the variant can run here. Notes one that this CPU should have but that dies. */
static bool is_usable(const struct machine *machine, const struct benchmark *benchmark,
		      const struct variant *variant, struct notes *notes)
{
	uint32_t lacking = variant->needs & ~machine->features;
	bool withheld;
	if (machine->others)
		return !lacking;
	const char *why = lacking ? os_explain_missing(lacking, &withheld) : NULL;

	if (why && withheld)
		notes_add(notes, "%s/%s is left out: %s.", benchmark->name, variant->name, why);
	if (lacking)
		return false;
	if (!benchmark->run_loops_once || has_survived_trial(benchmark, variant))
		return true;
	notes_add(notes, "%s/%s is left out: it died when it was tried.", benchmark->name,
		  variant->name);
	return false;
}

const struct variant *plan_best_variant(const struct machine *machine,
					const struct benchmark *benchmark, enum operation operation,
					struct notes *notes)
{
	const struct variant *variant;

	for (size_t i = 0; (variant = bench_variant(benchmark, i)); i++)
		if (variant->stream[operation] && is_usable(machine, benchmark, variant, notes))
			return variant;
	return NULL;
}

static bool is_chosen(const struct plan *plan, const struct benchmark *benchmark, const char *name)
{
	for (size_t i = 0; i < plan->choice_count; i++)
		if (plan->choices[i].benchmark == benchmark &&
		    !strcmp(plan->choices[i].variant->name, name))
			return true;
	return false;
}

/* Adds the variants of one benchmark that `name` means: that one; for "all" each that this CPU has;
 * for "auto" the best, or, where a variant may lack points, each, and the best that has a point
 * does it. For another architecture, whose variants are not known, a name means "auto". */
static int choose_variants(struct plan *plan, const struct benchmark *benchmark, const char *name,
			   struct notes *notes, struct refusal *refusal)
{
	bool all = !strcmp(name, "all"), automatic = !strcmp(name, "auto");
	size_t before = plan->choice_count;
	const struct variant *variant;

	for (size_t i = 0; (variant = bench_variant(benchmark, i)); i++) {
		if ((!all && !automatic && strcmp(name, variant->name)) ||
		    is_chosen(plan, benchmark, variant->name) ||
		    !is_usable(plan->machine, benchmark, variant, notes))
			continue;
		plan->choices[plan->choice_count++] = (struct choice){
			.benchmark = benchmark, .variant = variant, .automatic = automatic};
		if (!all && !(automatic && benchmark->is_supported))
			break;
	}
	if (plan->choice_count > before)
		return 0;
	if (!automatic && !machine_has_our_arch(plan->machine))
		return choose_variants(plan, benchmark, "auto", notes, refusal);
	return refuse_variant(plan->machine, benchmark, name, refusal);
}

/* Checks a list of variants: each word is benchmark=variant, of a benchmark that is measured. */
static int check_variants(const struct options *options, uint32_t benchmarks,
			  struct refusal *refusal)
{
	const char *list = options->variant;
	char word[WORD_ROOM];
	uint32_t named;

	if (!strpbrk(list, "=,"))
		return 0;
	while (plan_read_word(&list, word)) {
		size_t span = strcspn(word, "=");

		if (!word[span] || !word[span + 1])
			return refuse(
				refusal, EXIT_OPTIONS,
				"--variant wants a name or a list like cas=c11,readwrite=all, "
				"not '%s'",
				options->variant);
		word[span] = '\0';
		if (read_benchmarks(word, &named, refusal) || named & ~benchmarks)
			return refuse(refusal, EXIT_OPTIONS,
				      "--variant names '%s', which is not measured", word);
	}
	return 0;
}

/* Leaves out the benchmarks that one CPU cannot measure; refuses if nothing is left. */
static int leave_out_unmeasurable(const struct plan *plan, struct text *lacking,
				  struct notes *notes, struct refusal *refusal)
{
	int err = 0;

	text_add(lacking, " need%s two CPUs, and the affinity mask or --cpus has only CPU %d",
		 strchr(lacking->data, ',') ? "" : "s", plan->cpus[0]);
	if (plan->choice_count)
		notes_add(notes, "Left out: %s.", lacking->data);
	else
		err = refuse(refusal, EXIT_TOO_FEW_CPUS, "%s", lacking->data);
	text_free(lacking);
	return err;
}

int plan_choose_benchmarks(struct plan *plan, const struct options *options, struct notes *notes,
			   struct refusal *refusal)
{
	char variant[WORD_ROOM];
	struct text lacking = {0};
	size_t room = 0;
	uint32_t wanted = UINT32_MAX;

	if ((strcmp(options->benchmarks, "all") &&
	     read_benchmarks(options->benchmarks, &wanted, refusal)) ||
	    check_variants(options, wanted, refusal))
		return -1;
	for (size_t b = 0; bench_all[b]; b++)
		for (size_t i = 0; bench_variant(bench_all[b], i); i++)
			room++;
	plan->choices = calloc(room, sizeof *plan->choices);
	if (!plan->choices)
		return refuse(refusal, EXIT_OTHER, "out of memory");
	for (size_t b = 0; bench_all[b]; b++) {
		const struct benchmark *benchmark = bench_all[b];

		if (!(wanted >> b & 1))
			continue;
		if (plan->cpu_count < 2 &&
		    (benchmark->shape == SHAPE_PAIR || benchmark->all_counted)) {
			text_add(&lacking, "%s%s", lacking.length ? ", " : "", benchmark->name);
			continue;
		}
		choose_variant_name(benchmark, options->variant, variant);
		if (choose_variants(plan, benchmark, variant, notes, refusal))
			return -1;
	}
	return lacking.length ? leave_out_unmeasurable(plan, &lacking, notes, refusal) : 0;
}
