/* tools.c: see tools.h. fleet/analysis/exchange prints the same formats. */
#include "emit/tools.h"

#include "native/native.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Returns a pair's ns; a pair measured one way has the same number both ways. */
static double pair_ns(const struct tool_matrix *matrix, size_t row, size_t column)
{
	double ns = matrix->ns[row * matrix->count + column];

	return ns > 0 ? ns : matrix->ns[column * matrix->count + row];
}

/* Adds whole ns in columns of `width` characters; a negative width aligns left. `none` stands for a
 * missing number, `self` for a CPU with itself; `end` ends each line. */
static void add_columns(struct text *page, const struct tool_matrix *matrix, int width,
			const char *corner, const char *none, const char *self, const char *end)
{
	text_add(page, "%*s", width, corner);
	for (size_t i = 0; i < matrix->count; i++)
		text_add(page, " %*d", width, matrix->cpus[i]);
	for (size_t row = 0; row < matrix->count; row++) {
		text_add(page, "%s\n%*d", end, width, matrix->cpus[row]);
		for (size_t column = 0; column < matrix->count; column++) {
			double ns = pair_ns(matrix, row, column);

			if (row != column && ns > 0)
				text_add(page, " %*" PRIu64, width, (uint64_t)ns);
			else
				text_add(page, " %*s", width, row == column ? self : none);
		}
	}
	text_add(page, "%s\n", end);
}

static void add_c2clat(struct text *page, const struct tool_matrix *matrix)
{
	add_columns(page, matrix, 4, "CPU", "nan", "0", "");
}

/* Returns core_latency's name of the instructions used; `arch` null: on any machine. */
static const char *tool_title(const struct choice *choice)
{
	static const struct {
		const char *variant, *arch, *title;
	} of_cas[] = {
		{"c11", NULL, "CAS (CPP)"},          {"cmpxchg", "x86_64", "CAS_x86_64"},
		{"cmpxchg", "i386", "CAS_x86"},      {"llsc", "aarch64", "CAS_arm64"},
		{"lse", "aarch64", "CAS_arm64_lse"},
	};
	const char *name = choice->benchmark->name;

	if (!strcmp(name, "readwrite"))
		return "Read/Write";
	if (strcmp(name, "cas") != 0)
		return name;
	for (size_t i = 0; i < sizeof of_cas / sizeof *of_cas; i++)
		if (!strcmp(of_cas[i].variant, choice->variant->name) &&
		    (!of_cas[i].arch || !strcmp(of_cas[i].arch, arch_name)))
			return of_cas[i].title;
	return "CAS";
}

static void add_core_latency(struct text *page, const struct tool_matrix *matrix)
{
	text_add(page,
		 "Running %s Core Benchmark\n Samples: %" PRIu64 "\n Iterations: %" PRIu64 "\n\n",
		 tool_title(matrix->choice), matrix->samples, matrix->iterations);
	add_columns(page, matrix, -5, "", "", "", " ");
}

/* Adds the shortest number that reads back as exactly this one. */
static void add_digits(struct text *page, double value)
{
	char digits[32];

	for (int precision = 15; precision <= 17; precision++) {
		snprintf(digits, sizeof digits, "%.*g", precision, value);
		if (strtod(digits, NULL) == value)
			break;
	}
	text_add(page, "%s", digits);
}

/* Adds what core-to-core-latency --csv prints, which has no CPU numbers. */
static void add_core_to_core_latency(struct text *page, const struct tool_matrix *matrix)
{
	for (size_t row = 0; row < matrix->count; row++)
		for (size_t column = 0; column < matrix->count; column++) {
			double ns = matrix->ns[row * matrix->count + column];

			if (ns > 0)
				add_digits(page, ns);
			text_add(page, column + 1 < matrix->count ? "," : "\n");
		}
}

tool_printer *tool_find_printer(const char *name)
{
	if (!strcmp(name, "c2clat"))
		return add_c2clat;
	if (!strcmp(name, "core_latency"))
		return add_core_latency;
	return strcmp(name, "core-to-core-latency") ? NULL : add_core_to_core_latency;
}
