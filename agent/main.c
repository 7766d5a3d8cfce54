/* main.c: options in, exit code out; the only place that speaks to the person about a refusal. */
#include "base/build.h"
#include "base/stop.h"
#include "emit/emit.h"
#include "machine/lock.h"
#include "machine/tune.h"
#include "options/options.h"
#include "plan/plan.h"
#include "run/run.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int64_t began_ns; /* of now_ns() */

static int print_refusal(const struct refusal *refusal)
{
	fprintf(stderr, "fleet-agent: %s\n", refusal->text);
	return (int)refusal->exit_code;
}

static void print_version(void)
{
	printf("fleet-agent %s\nbuild      %s\ntarget     %s-%s\ncompiler   %s\ncflags     %s\n",
	       FLEET_AGENT_VERSION, FLEET_BUILD_ID, os_name, arch_name, FLEET_COMPILER,
	       FLEET_CFLAGS);
}

static void print_cpus_and_variants(const struct machine *machine, const struct clock_facts *clock)
{
	double rate = (double)clock->clock.ticks_per_second;

	plan_print_list(stdout, machine);
	printf("clock rate %.0f ticks a second, %.1f ns a reading, %.1f ns a step\n", rate,
	       (double)clock->cost_ticks / rate * 1e9,
	       (double)clock->clock.quantum_ticks / rate * 1e9);
	if (clock->clock.note)
		printf("clock note %s\n", clock->clock.note);
}

/* Explains an -errno in words. */
static const char *explain_error(int err)
{
	switch (err) {
	case -EXDEV:
		return "a thread was found on another CPU than it was bound to";
	case -ECHILD:
		return "start a thread: a seccomp filter forbids it, which should allow clone3() "
		       "or refuse it with ENOSYS";
	case -EAGAIN:
	case -ENOMEM:
		return "no thread can be started; raise the limits on address space (ulimit -v) "
		       "and processes (ulimit -u, or pids.max of its control group)";
	case -EPERM:
		return "sched_getaffinity or sched_setaffinity is refused; allow them in the "
		       "seccomp "
		       "profile of the container or sandbox";
	default:
		return strerror(-err);
	}
}

/* Changes to the OS's clock, and notes it, if the plan has benchmark message, which subtracts
 * readings of two CPUs, and the CPUs' counters are apart. Returns 0, or -1 and a refusal. */
static int replace_unsynchronized_clocks(const struct plan *plan, struct clock_facts *clock,
					 struct notes *notes, struct refusal *refusal)
{
	static char why[96];
	bool messages = false;
	int other;

	for (size_t i = 0; i < plan->choice_count; i++)
		messages |= bench_has_name(plan->choices[i].benchmark, "message");
	if (!messages ||
	    !clock_is_unsynchronized(&clock->clock, plan->cpus, plan->cpu_count, &other))
		return 0;
	snprintf(why, sizeof why, "the counters of CPUs %d and %d are apart by more than a message",
		 plan->cpus[0], other);
	if (clock_choose(plan->cpus[0], why, clock))
		return refuse(refusal, EXIT_OTHER, "cannot use the operating system's clock");
	bench_use_clock(&clock->clock);
	notes_add(
		notes,
		"The counters of CPUs %d and %d are further apart than a message takes: all times "
		"are the operating system's clock's, which costs %.0f ns a reading.",
		plan->cpus[0], other,
		(double)clock->cost_ticks * 1e9 / (double)clock->clock.ticks_per_second);
	return 0;
}

static int print_machine(void)
{
	struct refusal refusal = {0};
	struct machine machine;
	int err = machine_read_this(&machine);

	if (!err)
		err = emit_machine(&machine);
	machine_free(&machine);
	if (!err)
		return EXIT_DONE;
	refuse(&refusal, EXIT_OTHER, "cannot describe the machine: %s", explain_error(err));
	return print_refusal(&refusal);
}

/* Takes a realtime priority one above that of the workers, so that they can be stopped. Returns the
 * workers' priority, or 0 if there is none; notes a refusal of one that was asked for. Unasked, it
 * takes one only where bursts are brief: nobody else can use the CPUs meanwhile. */
static int raise_priority(uint64_t asked, const struct plan *plan, struct notes *notes)
{
	bool usual = asked == PRIORITY_USUAL, brief = !plan->iterations;

	for (size_t i = 0; i < plan->choice_count; i++)
		brief &= !plan->choices[i].benchmark->add_points;
	int wanted = !usual ? (int)asked : brief ? os_priority_usual : 0;
	int err = wanted ? os_make_self_realtime(wanted + 1) : 0;

	if (!err)
		return wanted;
	if (!usual)
		notes_add(notes, "Realtime priority %d was refused: %s. Measuring without it.",
			  wanted, strerror(-err));
	return 0;
}

static void add_wrong_rate_note(const struct clock_facts *clock, struct notes *notes)
{
	if (!clock->rate_checked || llabs(clock->rate_error_ppm) <= RATE_ERROR_PPM_MOST)
		return;
	notes_add(notes,
		  "The clock %s should tick %.3f million times a second, but by the OS's clock it "
		  "runs %.2f %% %s: so wrong may every time be.",
		  clock->clock.name, (double)clock->clock.ticks_per_second / 1e6,
		  (double)llabs(clock->rate_error_ppm) / 1e4,
		  clock->rate_error_ppm > 0 ? "faster" : "slower");
}

static int prepare_process(const struct options *options, struct refusal *refusal)
{
	int64_t deadline_ns = options->deadline_ns ? now_ns() + options->deadline_ns : NEVER;
	int err = burst_init();

	if (!err)
		err = stop_begin_watching(options->until_eof, deadline_ns);
	if (err)
		return refuse(refusal, EXIT_OTHER, "cannot prepare: %s", strerror(-err));
	err = options_has_pages(options, "huge") ? lines_try_huge_page() : 0;
	if (err)
		return refuse(refusal, EXIT_OPTIONS, "no huge page is to be had here: %s",
			      strerror(-err));
	return 0;
}

static int measure_plan(const struct options *options, const struct plan *plan,
			const struct clock_facts *clock, struct notes *notes)
{
	static struct counters counters;
	struct refusal refusal = {0};
	const struct tuning tuning = {.governor = options->governor,
				      .boost = options->boost,
				      .cpus = plan->cpus,
				      .cpu_count = plan->cpu_count};
	struct run run = {.plan = plan,
			  .clock = clock,
			  .format = emit_find_format(options->format),
			  .features = plan->machine->features,
			  .governor = options->governor,
			  .boost = options->boost,
			  .stuck_ns = options->stuck_ns,
			  .start_ns = began_ns,
			  .notes = notes};

	if (run_prepare(&run, options->done, &refusal) ||
	    counters_parse(&counters, options->counters, &refusal) ||
	    prepare_process(options, &refusal) || lock_machine(options->lock, notes, &refusal) ||
	    tune_apply(&tuning, notes, &refusal)) {
		run_free(&run);
		return print_refusal(&refusal);
	}
	add_wrong_rate_note(clock, notes);
	counters_try_all(&counters, plan_max_threads(plan), notes);
	run.priority = raise_priority(options->priority, plan, notes);
	run.counters = counters.count ? &counters : NULL;
	enum exit_code code = run_plan(&run);

	run_free(&run);
	if (tune_restore())
		fputs("fleet-agent: not every setting went back to what it was\n", stderr);
	if (code == EXIT_UNFINISHED && !emit_write_error())
		fprintf(stderr, "fleet-agent: ended early: %s\n", stop_reason());
	return (int)code;
}

/* A standard stream that was closed when we started must not become one of our pipes: /dev/null,
 * read-only, takes its number, so that writing to it fails. */
static void occupy_standard_streams(void)
{
	int fd;

	do {
		fd = open("/dev/null", O_RDONLY);
	} while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd >= 0)
		close(fd);
}

static int print_forecast(const struct plan *plan, const struct notes *notes)
{
	const struct forecast forecast = forecast_estimate(plan);
	struct refusal refusal = {0};

	if (forecast_check(&forecast, plan, &refusal))
		return print_refusal(&refusal);
	emit_forecast(plan, &forecast, notes);
	return EXIT_DONE;
}

/* Makes the plan, and forecasts or measures it. The plan and main's clock last as long as the
 * process: threads of a burst that was stopped may still use them. */
static int make_and_use_plan(const struct options *options, struct machine *machine,
			     struct clock_facts *clock)
{
	static struct notes notes;
	static struct plan plan;
	struct refusal refusal = {0};

	if (plan_make(&plan, options, machine, &notes, &refusal) ||
	    emit_check_choices(&plan, options->format, &notes, &refusal))
		return print_refusal(&refusal);
	if (options->forecast)
		return print_forecast(&plan, &notes);
	if (replace_unsynchronized_clocks(&plan, clock, &notes, &refusal))
		return print_refusal(&refusal);
	return measure_plan(options, &plan, clock, &notes);
}

/* Learns about the machine to plan for, and about our own clock. */
static int learn_machine(const struct options *options, struct machine *machine,
			 struct clock_facts *clock, struct refusal *refusal)
{
	struct machine this_machine;
	int err = machine_read_this(&this_machine);

	if (!err)
		err = clock_choose(this_machine.cpus[0], NULL, clock);
	*machine = this_machine;
	if (err)
		return refuse(refusal, EXIT_OTHER, "cannot learn about CPUs and clock: %s",
			      explain_error(err));
	bench_use_clock(&clock->clock);
	if (!options->facts)
		return 0;
	machine_free(&this_machine);
	return machine_read_file(machine, options->facts, refusal);
}

int main(int argc, char **argv)
{
	static struct clock_facts clock;
	struct options options;
	struct refusal refusal = {0};
	struct machine machine = {0};
	int code = EXIT_DONE;

	began_ns = now_ns();
	occupy_standard_streams();
	if (options_parse(&options, argc, argv, &refusal))
		return print_refusal(&refusal);
	if (options.help)
		options_print_help(stdout, bench_add_names, bench_add_words);
	else if (options.version)
		print_version();
	else if (options.build_id)
		puts(FLEET_BUILD_ID);
	else if (options.describe)
		emit_description();
	else if (options.machine)
		code = print_machine();
	else if (learn_machine(&options, &machine, &clock, &refusal))
		code = print_refusal(&refusal);
	else if (options.list)
		print_cpus_and_variants(&machine, &clock);
	else
		code = make_and_use_plan(&options, &machine, &clock);
	machine_free(&machine);
	if (!emit_write_error())
		return code;
	fprintf(stderr, "fleet-agent: cannot write to stdout: %s\n", emit_write_error());
	return code == EXIT_DONE ? EXIT_OTHER : code;
}
