/* option_table.c: every option, how it is checked, and the page of --help made from them. */
#include "options/option_table.h"

#include "options/options.h"

#include <string.h>

#define AT(member) offsetof(struct options, member)
#define MS_MOST    (UINT64_C(1000) * SECONDS_MOST)

/* clang-format off */
const struct option option_table[] = {
	{"What is measured", 'b', "benchmark", TEXT, AT(benchmarks), .value = "LIST",
	 .usual = "cas,readwrite", .help = "What to measure.",
	 .more = "Names of benchmarks as --list prints them, or all."},
	{NULL, 'v', "variant", TEXT, AT(variant), .value = "NAME",
	 .usual = "auto", .help = "Instructions; auto: the best that the CPU has.",
	 .more = "all: each it has; or for each benchmark its own: cas=lse,readwrite=all, where one "
	         "not named takes auto."},
	{NULL, 0, "state", TEXT, AT(states), .value = "LIST", .has_benchmarks = true,
	 .usual_words = "all; third, taken need a third CPU",
	 .help = "what was done to lines before."},
	{NULL, 'c', "cpus", TEXT, AT(cpus), .value = "LIST",
	 .usual_words = "all allowed", .help = "Measure only these CPUs.",
	 .more = "For instance 0-3,8."},
	{NULL, 'p', "pairs", TEXT, AT(pairs), .value = "WHICH",
	 .usual = "half", .help = "Pairs: each once, both ways, or these.",
	 .more = "half: each pair once a round, its sides alternating; ordered: both ways; or a "
	         "list of pairs: 0-1,0-4,2-7."},
	{NULL, 0, "few-pairs", TEXT, AT(few_pairs), .value = "LIST", .has_benchmarks = true,
	 .usual_words = "as --pairs", .help = "pairs.",
	 .more = "They have many points."},

	{"How long", 's', "samples", COUNT, AT(samples), 1, SAMPLES_MAX, .value = "N",
	 .usual = "5", .help = "Samples in a burst.", .more = "Warm-ups are not counted."},
	{NULL, 'w', "warmup", COUNT, AT(warmup), 0, SAMPLES_MAX, .value = "N",
	 .usual = "1", .help = "Warm-up samples in a burst.", .more = "Its first ones."},
	{NULL, 'i', "iterations", COUNT_OR_AUTO, AT(iterations), 1, 1000000000, .value = "N",
	 .usual_words = "chosen for each pair", .help = "Round trips in a sample.",
	 .more = "Of chase 16 loads each, of bandwidth passes, of gemm products; of message and "
	         "fetch the number is fixed. auto: chosen for each pair."},
	{NULL, 'r', "rounds", COUNT, AT(rounds), 1, 1000000, .value = "N",
	 .usual = "10", .usual_words = "fewer if they take over 10s, at least 3",
	 .help = "Measure each pair N times; with --precision, N or more.",
	 .more = "Given alone: exactly N, back to back. Not given: until --time-budget ends, or "
	         "--precision is reached after 10, 20, 40, ... rounds."},
	{NULL, 0, "precision", SHARE_PPM, AT(precision_ppm), 1, 1000000, .value = "SHARE",
	 .usual = "1%", .with_rounds = "off", .usual_words = "off with --rounds",
	 .help = "Add rounds until nine in ten pairs' 95 % intervals are within this, or off.",
	 .more = "The run may end after 10, 20, 40, ... rounds, or N, 2 N, 4 N, ... of --rounds "
	         "N. A pair with less than half of its bursts at one level is not within it. A "
	         "share is 1% or 0.01."},
	{NULL, 0, "time-budget", SECONDS, AT(time_budget_ns), 1, MS_MOST, .value = "S",
	 .usual_words = "10s, or what 3 rounds take",
	 .help = "Begin no burst after this, except for --rounds.",
	 .more = "With --rounds N the default is what 2 N take, if that is more."},
	{NULL, 0, "spread", SECONDS, AT(spread_ns), 0, MS_MOST, .value = "S",
	 .usual = "1", .with_rounds = "0", .usual_words = "0s with --rounds",
	 .help = "Spread the minimum rounds over this.", .more = "By pauses between them."},
	{NULL, 0, "order", WORD, AT(order), .words = "shuffled|sequential", .value = "ORDER",
	 .usual = "shuffled", .help = "Order of the pairs in a round.",
	 .more = "shuffled: anew for each."},
	{NULL, 0, "seed", COUNT, AT(seed), 0, INT64_MAX, .value = "N",
	 .usual_words = "drawn", .help = "Seed of the shuffled order.",
	 .more = "And of the places of the lines."},
	{NULL, 0, "deadline", SECONDS, AT(deadline_ns), 1, MS_MOST, .value = "S",
	 .usual_words = "never", .help = "End after this, finished or not."},
	{NULL, 0, "stuck-timeout", SECONDS, AT(stuck_ns), 1, MS_MOST, .value = "S",
	 .usual = "5", .help = "Give up a burst without progress for this long."},

	{"Where the lines lie", 0, "line", WORD, AT(line), .words = "fresh|fixed", .value = "WHICH",
	 .usual = "fresh", .help = "Cache lines: new for every burst, or the same.",
	 .more = "fresh: new pages for every burst; fixed: the same for the whole run."},
	{NULL, 0, "owner", WORD, AT(owner), .words = "ping|pong", .value = "SIDE",
	 .usual = "ping", .help = "The thread that touches lines first.",
	 .more = "That places them."},
	{NULL, 0, "node", COUNT, AT(node), 0, 1023, .value = "N",
	 .usual_words = "where the owner runs", .help = "NUMA node of the lines.",
	 .more = "A burst whose lines are not there gives no number."},
	{NULL, 0, "sep", COUNT, AT(separation), 4, 1 << 20, 4, .value = "BYTES",
	 .usual_words = "in different pages",
	 .help = "Bytes between the two lines of readwrite.", .more = "A multiple of 4."},

	{"Memory", 0, "sizes", TEXT, AT(sizes), SIZE_STEP, SIZE_MOST, SIZE_STEP, .value = "LIST",
	 .has_benchmarks = true, .allowed = "auto, or a list such as 16K,1M..64M, multiples of 4K",
	 .usual = "auto", .usual_words = "by the caches", .help = "memory of each thread.",
	 .more = "Bytes like 16K,1M..64M, where a range has two steps an octave. auto: 1/4, 1/2, "
	         "3/4, 2 and 4 times each cache. gemm: of the matrices that stream; auto: 4 times "
	         "the last cache, at most 256M."},
	{NULL, 0, "op", TEXT, AT(operations), .value = "LIST", .has_benchmarks = true,
	 .usual_words = "read,write,copy,nt; by benchmark",
	 .help = "what is done; nt: past the caches.",
	 .more = "By default bandwidth does read,write,copy,nt, as far as there are variants, fetch "
	         "read, and swap after both, interleave write, contend and sharing all, loaded "
	         "read,mix."},
	{NULL, 0, "threads", TEXT, AT(threads), .value = "LIST", .has_benchmarks = true,
	 .words = "smt|llc|cores|node|package|all",
	 .allowed = "a list of smt, llc, cores, node, package, all and numbers",
	 .usual_words = "1,all; of contend, sharing 2,all; of loaded cores",
	 .help = "threads at once, or on which CPUs.",
	 .more = "Numbers take cores first; smt, llc, package: those that share a core, a last cache "
	         "or a package; cores, node: one of each core of a package or NUMA node; all. 1 "
	         "takes a CPU of each kind under each last cache, or each of --cpus. With --nodes "
	         "the default is node."},
	{NULL, 0, "nodes", TEXT, AT(nodes), .value = "LIST", .has_benchmarks = true,
	 .usual_words = "not by node", .help = "NUMA nodes of the memory, by turns.",
	 .more = "chase, bandwidth, loaded: from the CPUs of each NUMA node to memory on each of "
	         "these nodes, or all that have memory, outside all caches unless --sizes says "
	         "otherwise; that of loaded's load takes turns, too. The others: with the lines on "
	         "each. A page elsewhere: no number."},
	{NULL, 0, "load", TEXT, AT(load), MBPS_LEAST, MBPS_MOST, .value = "LIST",
	 .has_benchmarks = true,
	 .allowed = "a list such as 0,0.5,16,full: GB/s from 0.1 to 64, or 0",
	 .usual_words = "0,1,2,4,8,16,full", .help = "GB/s asked of each thread beside ping.",
	 .more = "From 0.1 to 64; 0: none; full: as fast as it goes."},
	{NULL, 0, "reads", COUNTS, AT(reads), 1, 100, .value = "LIST",
	 .usual_words = "mix 67, nt 0",
	 .help = "loaded: per cent of its bytes that a load of mix or nt reads.",
	 .more = "1 to 100; the others are written."},
	{NULL, 0, "share", TEXT, AT(share), .value = "LIST", .has_benchmarks = true,
	 .usual_words = "own; of contend all", .help = "own memory for each thread, or one."},
	{NULL, 0, "stride", COUNT, AT(stride), 8, 1 << 20, 8, .value = "BYTES",
	 .usual_words = "256; 64 for window and rising",
	 .help = "chase, fetch: from one line to the next; bandwidth/tile: rows.",
	 .more = "A multiple of 8; from row to row of the matrix whose tiles are read, of 64."},
	{NULL, 0, "shape", TEXT, AT(shape), 1, SIDE_MOST, .value = "MxNxK",
	 .allowed = "auto, or such as 256x256x256, at most 4096 each",
	 .usual = "auto", .usual_words = "rounded up",
	 .help = "gemm: rows, columns and depth of a product.",
	 .more = "Rows of A, columns of B, and what they have in common, each a multiple of what the "
	         "variant multiplies at once. auto: 256x256x256 or the next such."},
	{NULL, 0, "pages", WORD, AT(pages), .words = "huge|base", .value = "KIND",
	 .usual_words = "huge for chase, bandwidth, gemm if there are any",
	 .help = "Pages of the memory timed.", .more = "huge is refused where there are none."},
	{NULL, 0, "blocks", TEXT, AT(blocks), BLOCK_LEAST, BLOCK_MOST, .value = "LIST",
	 .has_benchmarks = true,
	 .allowed = "a list such as 64,256..64K, powers of two from 64 to 64K",
	 .usual = "64..64K", .help = "bytes before the other thread's.",
	 .more = "Powers of two from 64 to 64K, or ranges of them."},
	{NULL, 0, "lines-per-message", COUNTS, AT(message_lines), 1, MESSAGE_LINES_MOST, .value = "LIST",
	 .usual = "1", .help = "message: lines written for each.",
	 .more = "The one that is waited for is one of them: numbers from 1 to 64."},

	{"Performance counters", 0, "counters", TEXT, AT(counters), .value = "LIST",
	 .usual_words = "none", .help = "Count events of the CPU.",
	 .more = "In every thread while it is timed; only jsonl shows them. At most 16 of "
	         "NAME=TYPE:CONFIG, numbers as of perf_event_open(2), with :k also in the kernel: "
	         "cycles=0:0,context-switches=1:3:k."},

	{"Like other programs", 0, "preset", PRESET, AT(preset), .value = "NAME",
	 .usual_words = "none", .help = "Sample as this tool does.",
	 .more = "Samples, iterations, warm-up, pairs and estimator of core_latency, core-to-"
	         "core-latency or c2clat: one round in sequence on fixed lines. Options after it "
	         "win."},
	{NULL, 0, "estimator", WORD, AT(estimator), .words = "median|mean|min", .value = "NAME",
	 .usual_words = "median; that of the program that --format names",
	 .help = "What the matrix shows of a pair.",
	 .more = "Median of the bursts' medians, mean or minimum of all samples."},

	{"The machine", 0, "priority", COUNT, AT(priority), 0, 98, .value = "N",
	 .usual_words = "1 on Linux where allowed", .help = "Realtime priority, 0: none.",
	 .more = "A refusal is only noted. The default holds only if bursts are short."},
	{NULL, 0, "governor", TEXT, AT(governor), .value = "NAME",
	 .allowed = "a governor's name, such as performance",
	 .usual_words = "unchanged", .help = "Set this frequency governor for the run.",
	 .more = "Of the measured CPUs, then as before, also if the agent is killed. Wants "
	         "permission, usually root's."},
	{NULL, 0, "boost", WORD, AT(boost), .words = "on|off", .value = "STATE",
	 .usual_words = "unchanged", .help = "Set frequency boost for the run.",
	 .more = "The same goes for it."},

	{"Output and ending", 'f', "format", WORD, AT(format),
	 .words = "matrix|csv|jsonl|core_latency|core-to-core-latency|c2clat", .value = "FORMAT",
	 .usual = "matrix", .help = "What is printed.",
	 .more = "matrix: a number for each pair; csv: every sample; jsonl: every burst, the "
	         "wire; core_latency, core-to-core-latency (its --csv), c2clat: the matrices "
	         "of pairs as that program prints them."},
	{NULL, 0, "done", TEXT, AT(done), .value = "FILE",
	 .help = "Measure only what FILE does not name as measured already by an earlier agent with "
	         "the same plan and seed."},
	{NULL, 0, "lock", TEXT, AT(lock), .value = "\"RUN WHO\"",
	 .usual_words = "off; its file is $FLEET_AGENT_LOCK, or fleet-agent.lock in /tmp",
	 .help = "Lock the machine, and refuse to begin while another agent holds the lock.",
	 .more = "The refusal names its WHO. An older agent of the same RUN is ended instead. The lock "
	         "is the kernel's and ends with the agent."},
	{NULL, 0, "until-eof", FLAG, AT(until_eof), .help = "End when stdin ends."},
	{NULL, 'l', "list", FLAG, AT(list),
	 .help = "List CPUs, variants and clock of this machine, and exit."},
	{NULL, 0, "forecast", FLAG, AT(forecast),
	 .help = "Print what the plan costs, in bursts, bytes and seconds, and exit."},
	{NULL, 0, "facts", TEXT, AT(facts), .value = "FILE",
	 .help = "With --forecast: plan for the machine that FILE describes, not for this one."},
	{NULL, 0, "machine", FLAG, AT(machine),
	 .help = "Print what the OS tells only programs of its CPUs, for the controller, and exit."},
	{NULL, 0, "describe", FLAG, AT(describe),
	 .help = "Print what each benchmark and option is, for the controller, and exit."},
	{NULL, 0, "build-id", FLAG, AT(build_id), .help = "Print the build id, and exit."},
	{NULL, 'V', "version", FLAG, AT(version), .help = "Print version and build, and exit."},
	{NULL, 'h', "help", FLAG, AT(help), .help = "Print this, and exit."},
};
/* clang-format on */

const size_t option_count = sizeof option_table / sizeof *option_table;
_Static_assert(sizeof option_table / sizeof *option_table <= 64,
	       "struct options has a bit for each");

const struct rule rules[] = {
	{"time-budget", NEEDS, "precision",
	 "a time budget limits the rounds that a precision adds, and without a precision there are "
	 "none; add a precision such as 1%, or leave out the time budget"},
	{"node", EXCLUDES, "nodes", "both say where memory lies; keep one of them"},
	{.name = NULL},
};

/* As these programs measure by default; c2clat and core-to-core-latency mirror a half. */
const struct preset presets[] = {
	{"core_latency",
	 "median",
	 {"--samples=500", "--warmup=0", "--iterations=4000", "--rounds=1", "--pairs=ordered",
	  "--order=sequential", "--line=fixed"}},
	{"core-to-core-latency",
	 "mean",
	 {"--samples=300", "--warmup=1", "--iterations=1000", "--rounds=1", "--pairs=half",
	  "--order=sequential", "--line=fixed"}},
	{"c2clat",
	 "min",
	 {"--samples=1000", "--warmup=0", "--iterations=100", "--rounds=1", "--pairs=half",
	  "--order=sequential", "--line=fixed"}},
	{.name = NULL},
};

enum { COLUMNS = 80, INDENT = 7 };

/* Prints words, indented and broken at COLUMNS; a newline among them starts a new paragraph. */
static void print_folded(FILE *out, int indent, const char *words)
{
	int column = 0;

	while (*words) {
		int length = (int)strcspn(words, " \n");

		if (column && column + 1 + length > COLUMNS) {
			fputc('\n', out);
			column = 0;
		}
		column += column ? fprintf(out, " %.*s", length, words)
				 : fprintf(out, "%*s%.*s", indent, "", length, words);
		words += length;
		if (*words == '\n') {
			fputs("\n\n", out);
			column = 0;
		}
		words += *words != '\0';
	}
	fputc('\n', out);
}

static void print_option(FILE *out, const struct option *option, add_words_fn *add_benchmarks,
			 add_words_fn *add_words)
{
	const char *usual = option->usual ? option->usual : "";
	const char *words = option->usual_words ? option->usual_words : "";
	struct text text = {0};

	if (option->heading)
		fprintf(out, "\n   %s\n", option->heading);
	fprintf(out, "%*s", INDENT, "");
	if (option->letter)
		fprintf(out, "-%c, ", option->letter);
	fprintf(out, "--%s%s%s\n", option->name, option->value ? " " : "",
		option->value ? option->value : "");
	if (option->has_benchmarks)
		add_benchmarks(&text, option->name);
	text_add(&text, "%s", option->help);
	if (option->more)
		text_add(&text, " %s", option->more);
	if (*usual || *words)
		text_add(&text, " Default: %s%s%s.", usual, *usual && *words ? "; " : "", words);
	if (option->kind == TEXT)
		add_words(&text, option->name);
	print_folded(out, 2 * INDENT, text.data);
	text_free(&text);
}

static const char description[] =
	"Measures how long a cache line takes from one CPU to another, for every pair of CPUs "
	"this process may use. Two threads, each bound to a CPU, hand the line back and forth; "
	"one way is half a round trip. The raw number, a sample, is the clock ticks of a fixed "
	"number of round trips; a burst is a few samples of one pair on fresh lines; a round "
	"visits every pair once.\n"
	"Alone it prints a matrix of one-way nanoseconds for each benchmark and variant, with "
	"the lines min, median, mean and max below. It writes no file, and changes nothing on "
	"the machine unless --governor or --boost ask for it.";

static const char ending[] = "It ends early on SIGHUP, SIGINT, SIGTERM, SIGPIPE, when stdout can "
			     "no longer be written, at --deadline, and with --until-eof when stdin "
			     "ends: within milliseconds, in the middle of a burst too.";

static const char exit_status[] =
	"       0   done, also when the time budget came before the precision\n"
	"       1   any other failure\n"
	"       2   an option that makes no sense\n"
	"       3   fewer CPUs than the benchmark needs\n"
	"       4   a CPU or NUMA node asked for cannot be used\n"
	"       5   this CPU or build has no such variant\n"
	"       6   ended early\n"
	"       7   another agent measures here, and --lock forbids it\n";

static const char examples[] =
	"       fleet-agent                          the matrix of this machine, to 1 %\n"
	"       fleet-agent -b cas -c 0-3 -r 3       quickly, four CPUs\n"
	"       fleet-agent -p 0-1,0-32 --node 1     two pairs, their lines on node 1\n"
	"       fleet-agent --preset core_latency    as core_latency measures\n"
	"       fleet-agent -f csv > samples.csv     every sample, exact\n"
	"       fleet-agent --governor performance   at full clock while it runs\n"
	"       ssh board ./fleet-agent -b all -v all -f jsonl > board.jsonl\n";

void options_print_help(FILE *out, add_words_fn *add_benchmarks, add_words_fn *add_words)
{
	fputs("NAME\n       fleet-agent - core-to-core latency of this machine\n\n"
	      "SYNOPSIS\n       fleet-agent [OPTION]...\n\nDESCRIPTION\n",
	      out);
	print_folded(out, INDENT, description);
	fputs("\nOPTIONS", out);
	for (size_t i = 0; i < option_count; i++)
		print_option(out, &option_table[i], add_benchmarks, add_words);
	fputs("\nENDING\n", out);
	print_folded(out, INDENT, ending);
	fprintf(out, "\nEXIT STATUS\n%s\nEXAMPLES\n%s", exit_status, examples);
}
