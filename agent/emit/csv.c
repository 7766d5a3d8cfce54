/* csv.c: a row per sample, exact; what is not a sample goes to stderr. */
#include "emit/emit.h"

#include <inttypes.h>

static struct text rows;

static void write_csv_header(const struct run *run)
{
	(void)run;
	text_add(&rows,
		 "benchmark,variant,point,round,ping,pong,cpu,sample,warmup,iterations,ticks,"
		 "ticks_per_second\n");
	emit_write(&rows);
}

static void write_csv_burst(const struct run *run, const struct report *report)
{
	const struct visit *visit = report->visit;
	const struct burst_result *result = report->result;

	for (size_t i = 0; i < result->timed * result->samples; i++) {
		uint32_t sample = (uint32_t)(i % result->samples);

		text_add(&rows,
			 "%s,%s,%s,%" PRIu32 ",%d,%d,%d,%" PRIu32 ",%d,%" PRIu64 ",%" PRIu64
			 ",%" PRIu64 "\n",
			 visit->choice->benchmark->name, visit->choice->variant->name,
			 plan_visit_point(visit)->name, report->round, report->ping, report->pong,
			 report->cpus[i / result->samples], sample, sample < run->plan->warmup,
			 report->units, result->ticks[i], run->clock->clock.ticks_per_second);
	}
	emit_write(&rows);
}

void emit_failed_burst_sentence(const struct run *run, const struct report *report)
{
	(void)run;
	const char *point = plan_visit_point(report->visit)->name;

	emit_sentence("%s %s%s%s, round %" PRIu32 ", %d-%d gave no number: %s",
		      report->visit->choice->benchmark->name, report->visit->choice->variant->name,
		      *point ? " " : "", point, report->round, report->ping, report->pong,
		      report->result->failed);
}

void emit_note_sentence(const char *sentence)
{
	emit_sentence("%s", sentence);
}

void emit_no_sign_of_life(const struct report *report)
{
	(void)report;
}

static void write_csv_end(const struct run *run, const struct totals *totals, const char *reason)
{
	(void)run, (void)reason;
	uint64_t again = totals->again; /* each replaces one that failed */

	if (totals->failed > again)
		emit_sentence("%" PRIu64 " of %" PRIu64 " bursts gave no number",
			      totals->failed - again, totals->taken + totals->failed - again);
}

const struct format emit_csv = {
	.name = "csv",
	.write_hello = write_csv_header,
	.write_burst = write_csv_burst,
	.write_failed = emit_failed_burst_sentence,
	.write_note = emit_note_sentence,
	.write_alive = emit_no_sign_of_life,
	.write_end = write_csv_end,
};
