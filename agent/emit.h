/*
 * emit.h: what goes to stdout. One file per format; emit.c does the writing.
 *
 * Nothing here fails towards the caller: a stdout that can no longer be written is an order to end,
 * and emit_broken() then says so.
 */
#ifndef FLEET_EMIT_H
#define FLEET_EMIT_H

#include "burst.h"
#include "run.h"
#include "text.h"

struct format {
	const char *name;
	void (*hello)(const struct run *run);
	void (*burst)(const struct run *run, const struct report *report);
	void (*failed)(const struct run *run, const struct report *report);
	void (*note)(const char *sentence);
	void (*alive)(void);
	void (*end)(const struct run *run, const struct totals *totals, const char *reason);
};

extern const struct format emit_jsonl, emit_csv, emit_matrix;
extern const struct format emit_c2clat, emit_core_latency, emit_core_to_core_latency;

/* The format of this name; the options have checked it. */
const struct format *emit_format(const char *name);

/* Writes the text to stdout at once, and empties it. */
void emit_write(struct text *text);

/* Says a sentence to the person at stderr, for formats that have no place for it. */
void emit_sentence(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Why stdout could not be written; null while it can. */
const char *emit_broken(void);

/* When the last record went out, by now_ns(). */
int64_t emit_last_ns(void);

#endif
