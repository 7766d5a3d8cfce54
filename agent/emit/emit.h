/* emit.h: what goes to stdout. One file per format; write.c does the writing. No function returns a
 * failure to write: emit_write_error() reports it. */
#ifndef FLEET_EMIT_H
#define FLEET_EMIT_H

#include "base/text.h"
#include "emit/report.h"
#include "plan/forecast.h"

struct format {
	const char *name;
	void (*write_hello)(const struct run *run);
	void (*write_burst)(const struct run *run, const struct report *report);
	void (*write_failed)(const struct run *run, const struct report *report);
	void (*write_note)(const char *sentence);
	void (*write_alive)(const struct report *report); /* the visit that begins; or null */
	void (*write_end)(const struct run *run, const struct totals *totals, const char *reason);
};

extern const struct format emit_jsonl, emit_csv, emit_matrix;
extern const struct format emit_c2clat, emit_core_latency, emit_core_to_core_latency;

/* For formats without such a record: print a sentence to stderr, or nothing. */
void emit_failed_burst_sentence(const struct run *run, const struct report *report);
void emit_note_sentence(const char *sentence);
void emit_no_sign_of_life(const struct report *report);

/* Returns the format of this name, which the options have checked. */
const struct format *emit_find_format(const char *name);

/* Notes what a format leaves out of the plan. Returns 0; or -1 and a refusal if it is all. */
int emit_check_choices(const struct plan *plan, const char *format, struct notes *notes,
		       struct refusal *refusal);

/* Prints the records of docs/wire.md, "The machine". Returns 0, or -errno of the first CPU that
 * cannot be described; -ENOTSUP where the OS reports nothing. */
int emit_machine(const struct machine *machine);

/* Prints the record of docs/wire.md, "The forecast". */
void emit_forecast(const struct plan *plan, const struct forecast *forecast,
		   const struct notes *notes);

/* Prints the record of all benchmarks, options and presets, for --describe. */
void emit_description(void);

/* Adds the object of a benchmark to a list; variants: with those of this architecture, in order. */
void emit_benchmark(const struct benchmark *benchmark, bool variants);

/* Adds the key `parameters` of a point's records. */
void emit_parameters(const struct benchmark *benchmark, const struct point *point);

/* Adds the ladder of a choice: a row for each size, a column for each combination of other
 * parameters. First the plateaus: the median of the sizes well within a cache or well outside all.
 * numbers: ns a unit of each visit, 0 where there is none; CPUs visited alike give their median. */
void emit_ladder(struct text *page, const struct plan *plan, const struct choice *choice,
		 const double *numbers);

/* Writes the text to stdout at once, and empties it. */
void emit_write(struct text *text);

/* Prints a sentence to stderr, for formats that have no place for it. */
void emit_sentence(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Returns why stdout could not be written; null while it can be. */
const char *emit_write_error(void);

/* Returns when the last record was written, by now_ns(). */
int64_t emit_last_ns(void);

#endif
