/* svg.c: draws a card, as fleet/analysis/report/card.py lays it out; only the foot is another. */
#include "emit/card.h"
#include "emit/emit.h"

#include "base/build.h"

#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>

enum { NUMBERED = 16, ROWS_MOST = 8 };

#define LEFT  64.0 /* of the map */
#define TOP   52.0
#define SIDE  520.0
#define WORDS 700.0 /* where they begin */
#define EM    0.64  /* of a font's size a character is wide, at most */

#define STYLE                                                                                      \
	".page{fill:#fff}.ink,.strong{fill:#1b1f24}.muted{fill:#57606a}.white{fill:#fff}.black{"   \
	"fill:#000}"                                                                               \
	".strong{font-weight:bold}.edge{stroke:#fff}.start{text-anchor:start}.middle{text-anchor:" \
	"middle}"                                                                                  \
	".end{text-anchor:end}image{image-rendering:pixelated}@media(prefers-color-scheme:dark){"  \
	".page{fill:#15181c}.ink,.strong{fill:#e6e8eb}.muted{fill:#a3abb5}.edge{stroke:#15181c}}"

static void add_escaped(struct text *page, const char *words)
{
	static const char marks[] = "&<>\"'";
	static const char *const names[] = {"&amp;", "&lt;", "&gt;", "&#34;", "&#39;"};

	for (const char *mark; *words; words++)
		if ((mark = strchr(marks, *words)))
			text_add(page, "%s", names[mark - marks]);
		else
			text_add(page, "%c", *words);
}

/* Adds a text, made smaller where it would not fit into `room`; room 0: any length fits. */
static void add_words(struct card *card, double x, double y, double size, double room,
		      const char *kind, const char *anchor, const char *words)
{
	size_t length = 0;
	bool upright = *anchor == '|';

	for (const char *byte = words; *byte; byte++)
		length += (*byte & 0xc0) != 0x80;
	if (room > 0 && room / (EM * (double)(length ? length : 1)) < size)
		size = room / (EM * (double)length);
	text_add(&card->body,
		 upright ? "<text transform=\"translate(%.1f %.1f)rotate(-90)\""
			 : "<text x=\"%.1f\" y=\"%.1f\"",
		 x, y);
	text_add(&card->body, " class=\"%s %s\" font-size=\"%.1f\">", kind, anchor + upright, size);
	add_escaped(&card->body, words);
	text_add(&card->body, "</text>\n");
	if (!strcmp(kind, "white") || !strcmp(kind, "black"))
		return;
	text_add(&card->words, card->words.length ? "; " : "");
	add_escaped(&card->words, words);
}

static double scale_position(const struct card *card, double ns)
{
	double low = card->low, high = card->high, share = (ns - low) / (high - low);

	if (low > 0 && high > 10 * low)
		share = card_logarithm((ns > low ? ns : low) / low) / card_logarithm(high / low);
	return share < 0 ? 0 : share > 1 ? 1 : share;
}

static int cell_shade(const void *context, size_t row, size_t column)
{
	const struct card *card = context;
	double ns = card->cells[card->places[row].index * card->count + card->places[column].index];

	return ns > 0 ? (int)(scale_position(card, ns) * (SHADES - 1) + 0.5) : SHADES;
}

static void add_group_names(struct card *card, int level, int line)
{
	double cell = SIDE / (double)card->count, low = 0;
	double away = 8.0 + 18 * line + 22 * (card->count <= NUMBERED);

	for (size_t first = 0, last; first < card->count; first = last) {
		char name[32];

		for (last = first + 1; last < card->count && !card_is_border(card, last, level);)
			last++;
		double high = low + (double)(last - first) * cell, middle = (low + high) / 2;

		card_name_group(card, first, level, name, sizeof name);
		if (*name && 13 * EM * (double)strlen(name) + 4 <= high - low) {
			add_words(card, LEFT + middle, TOP - away, 13, 0, "muted", "middle", name);
			add_words(card, LEFT - away, TOP + middle, 13, 0, "muted", "|middle", name);
		}
		low = high;
	}
}

static void add_numbers(struct card *card)
{
	double cell = SIDE / (double)card->count, size = cell / 3.6 < 24 ? cell / 3.6 : 24;
	char name[32];

	add_words(card, LEFT - 8, TOP - 8, 13, 0, "muted", "end", "CPU");
	for (size_t i = 0; i < card->count; i++) {
		double middle = ((double)i + 0.5) * cell;

		snprintf(name, sizeof name, "%d", card->places[i].cpu);
		add_words(card, LEFT + middle, TOP - 8, 13, 0, "muted", "middle", name);
		add_words(card, LEFT - 8, TOP + middle + 5, 13, 0, "muted", "end", name);
		for (size_t k = 0; k < card->count; k++) {
			int shade = cell_shade(card, i, k);
			size_t cell_index =
				card->places[i].index * card->count + card->places[k].index;

			if (shade == SHADES)
				continue;
			snprintf(name, sizeof name, "%.*f", card->cells[cell_index] < 1000,
				 card->cells[cell_index]);
			add_words(card, LEFT + ((double)k + 0.5) * cell, TOP + middle + 0.36 * size,
				  size, 0, shade * 6 > 3.2 * (SHADES - 1) ? "black" : "white",
				  "middle", name);
		}
	}
}

static void add_scale(struct card *card)
{
	double low = card->low, high = card->high,
	       step = card_square_root(card_square_root(high / low));
	bool is_log = low > 0 && high > 10 * low;
	char name[32];

	for (int i = 0; i < 5; i += high - low < 0.4 ? 4 : 1) { /* no number twice */
		double value = is_log ? low : low + (1 - (double)i / 4) * (high - low);

		for (int k = 4; is_log && k > i; k--)
			value *= step;
		snprintf(name, sizeof name, "%.*f", high < 1000, value);
		add_words(card, LEFT + SIDE + 38, TOP + 11 + i * (SIDE - 13) / 4, 13, 0, "muted",
			  "start", name);
	}
	add_words(card, LEFT + SIDE + 38, TOP - 8, 13, 0, "muted", "start",
		  is_log ? "ns, log" : "ns");
}

/* Adds the model in up to 3 lines of at most 26 characters; returns where the next line goes. */
static double add_model(struct card *card, const char *model)
{
	enum { LONGEST = 26 };
	double y = 76;
	char line[LONGEST + 1];

	for (int i = 0; i < 3 && *model; i++, y += 30) {
		size_t end = strlen(model), next;

		if (end > LONGEST)
			for (end = LONGEST; end && model[end] != ' ';)
				end--;
		end = end ? end : LONGEST;
		for (next = end; model[next] == ' ';)
			next++;
		snprintf(line, sizeof line, "%.*s", (int)end, model);
		add_words(card, WORDS, y, 24, 460, "strong", "start", line);
		model += next;
	}
	return y;
}

static void add_count_and_noun(char *words, size_t room, size_t count, const char *name)
{
	size_t used = strlen(words);

	snprintf(words + used, room - used, "%s%zu %s%s", used ? ", " : "", count, name,
		 count == 1 ? "" : "s");
}

static void add_table_row(struct card *card, double y, double step, const char *kind,
			  const char *const cells[4])
{
	static const double columns[] = {WORDS, 940, 1050, 1160};

	for (int i = 0; i < 4 && cells[i]; i++)
		add_words(card, columns[i], y, 0.6 * step, 0, kind, i ? "end" : "start", cells[i]);
}

static void write_row(const struct row *row, char ns[32], char half[32], char pairs[32])
{
	snprintf(ns, 32, "%.1f ns", row->ns);
	snprintf(half, 32,
		 row->spread < 0   ? "-"
		 : row->spread > 1 ? "unsettled"
				   : "\302\261%.1f%%",
		 100 * row->spread);
	snprintf(pairs, 32, "%zu", row->pairs);
}

static void add_table(struct card *card, double y)
{
	static const char *const titles[] = {"shared", "median", "\302\26195%", "pairs"};
	size_t more = card->row_count > ROWS_MOST ? card->row_count - ROWS_MOST + 1 : 0;
	double step = card->row_count <= ROWS_MOST / 2 ? 36 : 27;
	char ns[32], half[32], pairs[32], words[48];

	add_table_row(card, y, step, "muted", titles);
	for (size_t i = 0; i < card->row_count - more; i++) {
		const char *const cells[] = {card->rows[i].name, ns, half, pairs};

		write_row(&card->rows[i], ns, half, pairs);
		add_table_row(card, y += step, step, "ink", cells);
	}
	snprintf(words, sizeof words, "and %zu more", more);
	if (more)
		add_table_row(card, y + step, step, "ink", (const char *const[4]){words});
}

static void add_extremes(struct card *card)
{
	const struct {
		const char *name;
		double ns;
	} lines[] = {{"min", card->least}, {"median", card->middle}, {"max", card->most}};
	char words[128];

	for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
		size_t length = (size_t)snprintf(words, sizeof words, "%s: ", lines[i].name);

		card_describe_pair(card, lines[i].ns, words + length, sizeof words - length);
		add_words(card, WORDS, 546 + 21 * (double)i, 15, 460, "ink", "start", words);
	}
}

static void add_foot(struct card *card)
{
	struct utsname system;
	char words[320], governor[SETTING_ROOM], day[16] = "";
	time_t now = time(NULL);
	struct tm moment;

	if (gmtime_r(&now, &moment))
		strftime(day, sizeof day, "%Y-%m-%d", &moment);
	snprintf(words, sizeof words, "fleet-agent %s \302\267 %s", FLEET_AGENT_VERSION, day);
	if (uname(&system) >= 0)
		snprintf(words + strlen(words), 100, " \302\267 kernel %.80s", system.release);
	if (!os_setting_read(SETTING_GOVERNOR, card->places[0].cpu, governor))
		snprintf(words + strlen(words), 100, " \302\267 governor %s", governor);
	add_words(card, 40, 610, 14, 1120, "muted", "start", words);
}

static int legend_shade(const void *context, size_t row, size_t column)
{
	(void)context;
	(void)column;
	return SHADES - 1 - (int)row;
}

static void add_image(struct text *page, double x, double width)
{
	text_add(page,
		 "<image x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" "
		 "preserveAspectRatio=\"none\" href=\"data:image/png;base64,",
		 x, TOP, width, SIDE);
}

static void add_svg_title(struct text *page, const struct card *card, const char *model,
			  const char *subtitle)
{
	char ns[32], half[32], pairs[32];

	add_escaped(page, model);
	text_add(page, ", ");
	add_escaped(page, subtitle);
	for (size_t i = 0; i < card->row_count; i++) {
		write_row(&card->rows[i], ns, half, pairs);
		text_add(page, "%s %s %s%s%s", i ? "," : ":", card->rows[i].name, ns,
			 *half == '-' ? "" : " ", *half == '-' ? "" : half);
	}
}

static void add_edges(struct text *page, const struct card *card)
{
	double cell = SIDE / (double)card->count;

	text_add(page, "<path class=\"edge\" d=\"");
	for (size_t i = 1; card->ruling >= 0 && i < card->count; i++)
		if (card_is_border(card, i, card->ruling))
			text_add(page, "M%.1f %.1fh%.1fM%.1f %.1fv%.1f", LEFT,
				 TOP + (double)i * cell, SIDE, LEFT + (double)i * cell, TOP, SIDE);
	text_add(page, "\"/>\n");
}

/* Writes how many sockets, cores and threads there are, or CPUs where those are not known. */
static void write_counts(const struct card *card, char *words, size_t room)
{
	bool is_known = true;

	*words = '\0';
	for (size_t i = 0; i < card->count; i++)
		is_known &= card->places[i].groups[0] != UNKNOWN &&
			    card->places[i].groups[LEVELS - 1] != UNKNOWN;
	if (is_known) {
		add_count_and_noun(words, room, card_count_groups(card, 0), "socket");
		add_count_and_noun(words, room, card_count_groups(card, LEVELS - 1), "core");
	}
	add_count_and_noun(words, room, card->count, is_known ? "thread" : "CPU");
}

static void add_all_texts(struct card *card, const char *model, const char *subtitle)
{
	struct text kinds = {0};
	char counts[96];
	int line = 0;

	for (int i = 1; i >= 0; i--)
		if (card->tiers[i] >= 0)
			add_group_names(card, card->tiers[i], line++);
	if (card->count <= NUMBERED)
		add_numbers(card);
	add_scale(card);
	write_counts(card, counts, sizeof counts);
	double y = add_model(card, model);

	add_words(card, WORDS, y, 17, 460, "ink", "start", counts);
	card_list_kinds(card, &kinds);
	if (kinds.length)
		add_words(card, WORDS, y += 24, 15, 460, "ink", "start", kinds.data);
	card->words.failed |= kinds.failed;
	text_free(&kinds);
	add_words(card, WORDS, y + 30, 15, 460, "muted", "start", subtitle);
	add_table(card, y + 62);
	add_extremes(card);
	add_foot(card);
}

void card_draw(struct text *page, const struct tool_matrix *matrix)
{
	struct card card = {.matrix = matrix};
	char subtitle[160];

	snprintf(subtitle, sizeof subtitle, "%s/%s: %s", matrix->choice->benchmark->name,
		 matrix->choice->variant->name, matrix->choice->benchmark->heading);
	if (!card_fill(&card)) {
		card_free(&card);
		return;
	}
	const char *model = *card.model ? card.model : "unknown CPU model";

	add_all_texts(&card, model, subtitle);
	text_add(page, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 1200 630\" "
		       "width=\"1200\" height=\"630\" role=\"img\" font-family=\"sans-serif\">"
		       "<!-- fleet card -->\n<title>");
	add_svg_title(page, &card, model, subtitle);
	text_add(page,
		 "</title>\n<desc>%s</desc>\n<style>" STYLE "</style>\n"
		 "<rect class=\"page\" width=\"1200\" height=\"630\"/>\n",
		 card.words.data);
	add_image(page, LEFT, SIDE);
	card_add_png(page, cell_shade, &card, card.count, card.count);
	text_add(page, "\"/>\n");
	add_image(page, LEFT + SIDE + 14, 16);
	card_add_png(page, legend_shade, NULL, SHADES, 1);
	text_add(page, "\"/>\n");
	add_edges(page, &card);
	text_add(page, "%s</svg>\n", card.body.data);
	page->failed |= card.words.failed || card.body.failed;
	card_free(&card);
}
