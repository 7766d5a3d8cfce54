/* option_table.c: every option, how it is checked, and the page of --help made from them. */
#include "options/option_table.h"

#include "options/options.h"

#include <string.h>

#define AT(member) offsetof(struct options, member)

/* clang-format off */
const struct option option_table[] = {
	{"What is measured", 'b', "benchmark", TEXT, AT(benchmarks), .value = "LIST",
	 .help = "Names of benchmarks as --list prints them, or all (default: cas,readwrite)."},
	{NULL, 'v', "variant", TEXT, AT(variant), .value = "NAME",
	 .help = "The instructions. auto: the best this CPU has; all: each it has; or for each "
	         "benchmark its own: cas=lse,readwrite=all, where one not named takes auto "
	         "(default: auto)."},
	{NULL, 0, "state", TEXT, AT(states), .value = "LIST",
	 .help = "What was done to the lines before (default: all but third and taken, which need a "
	         "third CPU)."},
	{NULL, 'c', "cpus", TEXT, AT(cpus), .value = "LIST",
	 .help = "CPUs to measure, for instance 0-3,8 (default: all this process may use)."},
	{NULL, 'p', "pairs", TEXT, AT(pairs), .value = "WHICH",
	 .help = "half: each pair once a round, its sides alternating; ordered: both ways; or a "
	         "list of pairs: 0-1,0-4,2-7 (default: half)."},
	{NULL, 0, "few-pairs", TEXT, AT(few_pairs), .value = "LIST",
	 .help = "The pairs of fetch and interleave, which have many points (default: as "
	         "--pairs)."},

	{"How long", 's', "samples", COUNT, AT(samples), 1, SAMPLES_MAX, .value = "N",
	 .help = "Samples in a burst, warm-ups not counted (default: 5)."},
	{NULL, 'w', "warmup", COUNT, AT(warmup), 0, SAMPLES_MAX, .value = "N",
	 .help = "Samples at the start of a burst marked as warm-up (default: 1)."},
	{NULL, 'i', "iterations", COUNT_OR_AUTO, AT(iterations), 1, 1000000000, .value = "N",
	 .help = "Round trips in a sample; of chase 16 loads each, of bandwidth passes, of gemm products; of message and "
	         "fetch the number is fixed. auto: chosen per pair (default: auto)."},
	{NULL, 'r', "rounds", COUNT, AT(rounds), 1, 1000000, .value = "N",
	 .help = "Visits to every pair, a burst each. Given alone: exactly N, back to back. Not "
	         "given: 10, 20, 40, ... until --precision is reached or --time-budget ends."},
	{NULL, 0, "precision", SHARE_PPM, AT(precision_ppm), .value = "SHARE",
	 .help = "End after 10, 20, 40, ... rounds, or N, 2 N, 4 N, ... of --rounds N, once nine "
	         "in ten pairs are known to plus and minus this share, by the 95 % interval of "
	         "their bursts: 1%, 0.01, or off (default: 1%; off with --rounds)."},
	{NULL, 0, "time-budget", SECONDS, AT(time_budget_ns), .value = "S",
	 .help = "Begin no burst after this many seconds, except for the minimum rounds where "
	         "--rounds is given (default: 10, or what 20 rounds take if that is more; twice "
	         "--rounds)."},
	{NULL, 0, "spread", SECONDS_OR_ZERO, AT(spread_ns), .value = "S",
	 .help = "Spread the minimum rounds over at least this many seconds by pauses between "
	         "them (default: 1; 0 with --rounds)."},
	{NULL, 0, "order", WORD, AT(order), .words = "shuffled|sequential", .value = "ORDER",
	 .help = "Of the visits in a round: shuffled anew for each, or sequential (default: "
	         "shuffled)."},
	{NULL, 0, "seed", COUNT, AT(seed), 0, INT64_MAX, .value = "N",
	 .help = "Of the order of visits and the places of the lines (default: drawn)."},
	{NULL, 0, "deadline", SECONDS, AT(deadline_ns), .value = "S",
	 .help = "End after this many seconds, finished or not (default: never)."},
	{NULL, 0, "stuck-timeout", SECONDS, AT(stuck_ns), .value = "S",
	 .help = "Give up a burst without progress for this many seconds (default: 5)."},

	{"Where the lines lie", 0, "line", WORD, AT(line), .words = "fresh|fixed", .value = "WHICH",
	 .help = "fresh: new pages for every burst; fixed: the same for the whole run (default: "
	         "fresh)."},
	{NULL, 0, "owner", WORD, AT(owner), .words = "ping|pong", .value = "SIDE",
	 .help = "Which thread touches the lines first, and so places them (default: ping)."},
	{NULL, 0, "node", COUNT, AT(node), 0, 1023, .value = "N",
	 .help = "Place the lines on NUMA node N. A burst whose lines are not there gives no "
	         "number."},
	{NULL, 0, "sep", COUNT, AT(separation), 4, 1 << 20, .value = "BYTES",
	 .help = "Place the two lines of readwrite this far apart, a multiple of 4 (default: in "
	         "different pages)."},

	{"Memory", 0, "sizes", TEXT, AT(sizes), .value = "LIST",
	 .help = "chase, bandwidth, loaded: bytes a thread works on, like 16K,1M..64M, where a range has "
	         "two steps an octave. auto: 1/4, 1/2, 3/4, 2 and 4 times each cache. gemm: of the matrices "
	         "that stream; auto: 4 times the last cache, at most 256M (default: auto)."},
	{NULL, 0, "op", TEXT, AT(operations), .value = "LIST",
	 .help = "What is done with memory (default: of bandwidth read,write,copy,nt, as far as there are "
	         "variants; of fetch read, and swap after both; of interleave write; of contend and "
	         "sharing all; of loaded read,mix)."},
	{NULL, 0, "threads", TEXT, AT(threads), .value = "LIST",
	 .help = "bandwidth, gemm, contend, sharing, loaded: how many work at once: numbers, which take cores first; "
	         "smt, llc, package: those that share a core, a last cache or a package; cores, node: one of each core of a package or NUMA node; "
	         "all. 1 takes a CPU of each kind under each last cache, or each of --cpus (default: 1,all; of "
	         "contend and sharing 2,all; of loaded cores; with --nodes node instead)."},
	{NULL, 0, "nodes", TEXT, AT(nodes), .value = "LIST",
	 .help = "chase, bandwidth, loaded: measure from the CPUs of each NUMA node to memory on each of these "
	         "nodes, or all that have memory, outside all caches unless --sizes says otherwise; that of "
	         "loaded's load takes turns, too. cas, readwrite, message, fetch: with the lines on each. "
	         "A page elsewhere: no number (default: as --node)."},
	{NULL, 0, "load", TEXT, AT(load), .value = "LIST",
	 .help = "loaded: GB/s asked of each thread that uses the memory meanwhile, from 0.1 to 64; 0: none; "
	         "full: as fast as it goes (default: 0,1,2,4,8,16,full)."},
	{NULL, 0, "reads", TEXT, AT(reads), .value = "LIST",
	 .help = "loaded: per cent of the bytes that mix and nt read, 1 to 100; the others are written (default: mix "
	         "two of three, nt none)."},
	{NULL, 0, "share", TEXT, AT(share), .value = "LIST",
	 .help = "Whose memory a thread works on (default: own; of contend all)."},
	{NULL, 0, "stride", COUNT, AT(stride), 8, 1 << 20, .value = "BYTES",
	 .help = "chase, fetch: from one line to the next, a multiple of 8 (default: 256; of chase in "
	         "the orders window and rising 64). bandwidth/tile: from row to row of the matrix whose "
	         "tiles are read, a multiple of 64 (default: 256)."},
	{NULL, 0, "shape", TEXT, AT(shape), .value = "MxNxK",
	 .help = "gemm: rows of A, columns of B, and what they have in common, each a multiple of what "
	         "the variant multiplies at once. auto: 256x256x256 or the next such (default: auto)."},
	{NULL, 0, "pages", WORD, AT(pages), .words = "huge|base", .value = "KIND",
	 .help = "Pages of the memory that is timed; huge is refused where there are none (default: huge "
	         "for chase, bandwidth and gemm where there are any, else base)."},
	{NULL, 0, "blocks", TEXT, AT(blocks), .value = "LIST",
	 .help = "interleave: bytes that a thread writes before it leaves as many to the other: powers of "
	         "two from 64 to 64K, or ranges of them (default: 64..64K)."},
	{NULL, 0, "lines-per-message", TEXT, AT(message_lines), .value = "LIST",
	 .help = "message: lines stored for each, the one that is waited for included: numbers from 1 "
	         "to 64 (default: 1)."},

	{"Performance counters", 0, "counters", TEXT, AT(counters), .value = "LIST",
	 .help = "Count these events in every thread while it is timed; only jsonl shows them. At most 16 of "
	         "NAME=TYPE:CONFIG, numbers as of perf_event_open(2), with :k also in the kernel: "
	         "cycles=0:0,context-switches=1:3:k (default: none)."},

	{"Like other programs", 0, "preset", PRESET, AT(preset), .value = "NAME",
	 .help = "Samples, iterations, warm-up, pairs and estimator of core_latency, core-to-"
	         "core-latency or c2clat: one round in sequence on fixed lines. Options after it"
	         " win."},
	{NULL, 0, "estimator", WORD, AT(estimator), .words = "median|mean|min", .value = "NAME",
	 .help = "What the matrix shows of a pair: median of the bursts' medians, mean or "
	         "minimum of all samples (default: median; with a --format of another program "
	         "its own)."},

	{"The machine", 0, "priority", COUNT, AT(priority), 0, 98, .value = "N",
	 .help = "Realtime priority to ask for, 0 for none; a refusal is only noted (default: 1 on "
	         "Linux where allowed, if bursts are short)."},
	{NULL, 0, "governor", TEXT, AT(governor), .value = "NAME",
	 .help = "Frequency governor of the measured CPUs for the time of the run, then as "
	         "before, also if the agent is killed. Wants permission, usually root's."},
	{NULL, 0, "boost", WORD, AT(boost), .words = "on|off", .value = "STATE",
	 .help = "Turbo frequencies for the time of the run; the same goes for it."},

	{"Output and ending", 'f', "format", WORD, AT(format), .words = "matrix|csv|jsonl|core_latency|core-to-core-latency|c2clat",
	 .value = "FORMAT",
	 .help = "matrix: a number for each pair; csv: every sample; jsonl: every burst, the "
	         "wire; core_latency, core-to-core-latency (its --csv), c2clat: the matrices "
	         "of pairs as that program prints them (default: matrix)."},
	{NULL, 0, "done", TEXT, AT(done), .value = "FILE",
	 .help = "Measure only what FILE does not name as measured already by an earlier agent with "
	         "the same plan and seed."},
	{NULL, 0, "lock", TEXT, AT(lock), .value = "\"RUN WHO\"",
	 .help = "Lock the machine, and refuse to begin while another agent holds the lock; the "
	         "refusal names its WHO. An older agent of the same RUN is ended instead. The lock is the kernel's and ends with the agent; it is on the "
	         "file $FLEET_AGENT_LOCK (default: fleet-agent.lock in /tmp)."},
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
	 .help = "Print what each benchmark is, for the controller, and exit."},
	{NULL, 0, "build-id", FLAG, AT(build_id), .help = "Print the build id, and exit."},
	{NULL, 'V', "version", FLAG, AT(version), .help = "Print version and build, and exit."},
	{NULL, 'h', "help", FLAG, AT(help), .help = "Print this, and exit."},
};
/* clang-format on */

const size_t option_count = sizeof option_table / sizeof *option_table;

/* As these programs measure by default; c2clat and core-to-core-latency mirror a half. */
const struct preset presets[] = {
	{"core_latency", 500, 0, 4000, "ordered", "median"},
	{"core-to-core-latency", 300, 1, 1000, "half", "mean"},
	{"c2clat", 1000, 0, 100, "half", "min"},
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

static void print_option(FILE *out, const struct option *option, add_words_fn *add_words)
{
	struct text text = {0};

	if (option->heading)
		fprintf(out, "\n   %s\n", option->heading);
	fprintf(out, "%*s", INDENT, "");
	if (option->letter)
		fprintf(out, "-%c, ", option->letter);
	fprintf(out, "--%s%s%s\n", option->name, option->value ? " " : "",
		option->value ? option->value : "");
	text_add(&text, "%s", option->help);
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

void options_print_help(FILE *out, add_words_fn *add_words)
{
	fputs("NAME\n       fleet-agent - core-to-core latency of this machine\n\n"
	      "SYNOPSIS\n       fleet-agent [OPTION]...\n\nDESCRIPTION\n",
	      out);
	print_folded(out, INDENT, description);
	fputs("\nOPTIONS", out);
	for (size_t i = 0; i < option_count; i++)
		print_option(out, &option_table[i], add_words);
	fputs("\nENDING\n", out);
	print_folded(out, INDENT, ending);
	fprintf(out, "\nEXIT STATUS\n%s\nEXAMPLES\n%s", exit_status, examples);
}
