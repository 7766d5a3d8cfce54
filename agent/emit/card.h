/* card.h: what a card shows of a benchmark of pairs, before it is drawn. */
#ifndef FLEET_EMIT_CARD_H
#define FLEET_EMIT_CARD_H

#include "emit/tools.h"

enum { SHADES = 32, LEVELS = 6, ROWS_ROOM = 64 }; /* a shade of SHADES: not measured */

/* A CPU: its index in the plan, and the number of its group at each level, outermost first. */
struct place {
	int cpu;
	size_t index;
	int64_t groups[LEVELS], capacity;
};

/* The pairs of one relation: medians of their numbers and spreads; a spread below 0: none. */
struct row {
	char name[48];
	double ns, spread;
	size_t pairs;
};

struct card {
	const struct tool_matrix *matrix;
	size_t count;
	char model[CPU_NAME_ROOM];  /* model of the CPUs; empty: not known */
	struct place *places;       /* in the order of the map */
	double *cells;              /* in the order of the plan; 0: not measured */
	double low, high;           /* of the scale */
	double least, middle, most; /* numbers of pairs, in ns */
	struct row rows[ROWS_ROOM];
	size_t row_count;
	int ruling, tiers[2]; /* levels whose groups have lines, and names; -1: none */
	struct text words, body;
};

/* Fills in what is drawn. Returns false if out of memory, or if nothing was measured. */
bool card_fill(struct card *card);
void card_free(struct card *card);

/* Describes the first pair that has this number, in the order of the plan. */
void card_describe_pair(const struct card *card, double ns, char *words, size_t room);

/* Lists the CPUs of each kind of core; nothing if all are of one. */
void card_list_kinds(const struct card *card, struct text *list);

/* Return the square root, and the natural logarithm of 2/3 or more; need no mathematics library. */
double card_square_root(double square);
double card_logarithm(double x);

/* Reports whether a group of this level begins at this place of the map. */
bool card_is_border(const struct card *card, size_t index, int level);

/* Counts the groups of a level. */
size_t card_count_groups(const struct card *card, int level);

/* Writes "socket 1"; nothing for a CPU in no group of the level. */
void card_name_group(const struct card *card, size_t index, int level, char *name, size_t room);

/* Adds a PNG of a pixel a cell as base64, stored and not deflated. `shade` gives a cell's shade. */
typedef int shade_fn(const void *context, size_t row, size_t column);
void card_add_png(struct text *page, shade_fn *shade, const void *context, size_t rows,
		  size_t columns);

#endif
