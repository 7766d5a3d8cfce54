/* tools.h: a matrix as other programs print it, byte for byte. */
#ifndef FLEET_EMIT_TOOLS_H
#define FLEET_EMIT_TOOLS_H

#include "base/text.h"
#include "emit/report.h"

/* The numbers of one benchmark and variant. ns: rows are ping, columns pong; 0: there is none. */
struct tool_matrix {
	const struct choice *choice;
	const int *cpus;
	size_t count;
	const double *ns;
	uint64_t samples, iterations; /* of each pair */
};

typedef void tool_printer(struct text *page, const struct tool_matrix *matrix);

/* Returns what prints a matrix as the program of this name does; null: unknown program. */
tool_printer *tool_find_printer(const char *name);

#endif
