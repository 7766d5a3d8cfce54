/* help.c: the page of --help, made from the table of options. */
#include "option_table.h"
#include "options.h"

#include <string.h>

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

static void print_option(FILE *out, const struct option *option)
{
	if (option->heading)
		fprintf(out, "\n   %s\n", option->heading);
	fprintf(out, "%*s", INDENT, "");
	if (option->letter)
		fprintf(out, "-%c, ", option->letter);
	fprintf(out, "--%s%s%s\n", option->name, option->value ? " " : "",
		option->value ? option->value : "");
	print_folded(out, 2 * INDENT, option->help);
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

void options_help(FILE *out)
{
	fputs("NAME\n       fleet-agent - core-to-core latency of this machine\n\n"
	      "SYNOPSIS\n       fleet-agent [OPTION]...\n\nDESCRIPTION\n",
	      out);
	print_folded(out, INDENT, description);
	fputs("\nOPTIONS", out);
	for (size_t i = 0; i < option_count; i++)
		print_option(out, &option_table[i]);
	fputs("\nENDING\n", out);
	print_folded(out, INDENT, ending);
	fprintf(out, "\nEXIT STATUS\n%s\nEXAMPLES\n%s", exit_status, examples);
}
