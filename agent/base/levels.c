/* levels.c: rounds are split into states by the weighted mean of the logarithms of all that was
 * found in each, and the values of each state into levels. A few bursts far from all others of the
 * level of most are strays: they count in its median, not in its interval. */
#include "base/levels.h"

#define HALVINGS 50   /* of what a middle is known to lie between */
#define FULL     0.9  /* of the visits of the fullest series: others do not decide on states */
#define QUIET    1e-3 /* scatter from one visit to the next, at least */

static bool has(const struct series *series, size_t round)
{
	return round < series->count && series->values[round] >= 0;
}

static size_t count_of(const struct series *series)
{
	size_t count = 0;

	for (size_t i = 0; i < series->count; i++)
		count += has(series, i);
	return count;
}

/* Adds to `sums` what a series found in the rounds given, and says with which weight. */
static double add_series(const struct series *series, const uint8_t *common, size_t rounds,
			 double *sums, double *work)
{
	size_t count = 0;

	for (size_t i = 0; i < rounds; i++)
		if (common[i])
			work[count++] = logarithm(series->values[i]);
	double *steps = work + count;

	for (size_t i = 1; i < count; i++)
		steps[i - 1] =
			work[i] > work[i - 1] ? work[i] - work[i - 1] : work[i - 1] - work[i];
	double noise = count > 1 ? median(steps, count - 1) : 0;
	double weight = noise < QUIET ? 1 / (QUIET * QUIET) : 1 / (noise * noise);

	for (size_t i = 0; i < count; i++)
		sums[i] += weight * work[i];
	return weight;
}

/* Marks the rounds in which all series have a value that count; else those of the fullest alone. */
static size_t mark_common(struct series *series, size_t count, size_t rounds, uint8_t *common)
{
	size_t most = 0, fullest = 0, found = 0;

	for (size_t s = 0; s < count; s++)
		if (count_of(&series[s]) > most) {
			most = count_of(&series[s]);
			fullest = s;
		}
	for (size_t s = 0; s < count; s++)
		series[s].decides = (double)count_of(&series[s]) >= FULL * (double)most;
	for (int tries = 0; !found && tries < 2; tries++) {
		for (size_t s = 0; tries && s < count; s++)
			series[s].decides = s == fullest;
		for (size_t i = 0; i < rounds; i++) {
			common[i] = true;
			for (size_t s = 0; s < count; s++)
				common[i] = common[i] && (!series[s].decides || has(&series[s], i));
			found += common[i];
		}
	}
	return found;
}

/* The state of which the series with fewest values there has most; of equals the faster one. */
static uint8_t main_of(const struct series *series, size_t count, const uint8_t *of)
{
	size_t best = 0;
	uint8_t main = 0;

	for (uint8_t state = 0; state < LEVELS_MOST; state++) {
		size_t fewest = SIZE_MAX;

		for (size_t s = 0; s < count; s++) {
			size_t own = 0;

			for (size_t i = 0; i < series[s].count; i++)
				own += has(&series[s], i) && of[i] == state;
			fewest = own < fewest ? own : fewest;
		}
		if (fewest > best) {
			best = fewest;
			main = state;
		}
	}
	return main;
}

/* Turns marks of common rounds into states: a round that is none keeps the state before. */
static void name_rounds(const double *sums, const double *sorted, const size_t *ends, size_t rounds,
			uint8_t *of)
{
	uint8_t state = UINT8_MAX;
	size_t unnamed = 0;

	for (size_t i = 0, at = 0; i < rounds; i++) {
		if (of[i]) {
			uint8_t now = 0;

			while (sums[at] > sorted[ends[now + 1] - 1])
				now++;
			for (; state == UINT8_MAX && unnamed < i; unnamed++)
				of[unnamed] = now;
			state = now;
			at++;
		}
		of[i] = state;
	}
}

void states_find(struct series *series, size_t count, double *work, struct states *states)
{
	size_t rounds = 0, ends[LEVELS_MOST + 1];
	double weights = 0;

	for (size_t s = 0; s < count; s++)
		rounds = series[s].count > rounds ? series[s].count : rounds;
	size_t common = mark_common(series, count, rounds, states->of);
	double *sums = work, *sorted = work + rounds;

	for (size_t i = 0; i < common; i++)
		sums[i] = 0;
	for (size_t s = 0; s < count; s++)
		if (series[s].decides)
			weights += add_series(&series[s], states->of, rounds, sums, sorted);
	for (size_t i = 0; i < common; i++)
		sorted[i] = sums[i] /= weights;
	sort_values(sorted, common);
	split_sorted(sums, sorted, sorted, common, ends);
	name_rounds(sums, sorted, ends, rounds, states->of);
	states->main = main_of(series, count, states->of);
}

/* The median of the averages of every two of these sorted values, each with itself too: where they
 * gather at two places, as those of lines in two slices of a cache do, it lies between. */
static double middle_of(const double *sorted, size_t first, size_t last)
{
	double low = sorted[first], high = sorted[last], count = (double)(last - first + 1);

	for (int i = 0; i < HALVINGS; i++) {
		double tried = (low + high) / 2, below = 0;
		size_t end = last + 1;

		for (size_t k = first; k < end; k++) {
			while (end > k && sorted[k] + sorted[end - 1] > 2 * tried)
				end--;
			below += (double)(end - k);
		}
		if (4 * below < count * (count + 1))
			low = tried;
		else
			high = tried;
	}
	return high;
}

/* How many bursts in a row are of a state and from `low` to `high`, on average. */
static double dwell_of(const struct series *series, const struct states *states, uint8_t state,
		       double low, double high)
{
	size_t inside = 0, begins = 0;
	bool before = false;

	for (size_t i = 0; i < series->count; i++) {
		if (!has(series, i))
			continue;
		bool now = states->of[i] == state && series->values[i] >= low &&
			   series->values[i] <= high;

		inside += now;
		begins += now && !before;
		before = now;
	}
	return begins ? (double)inside / (double)begins : 0;
}

static size_t values_of(const struct series *series, const struct states *states, uint8_t state,
			double *values)
{
	size_t count = 0;

	for (size_t i = 0; i < series->count; i++)
		if (has(series, i) && states->of[i] == state)
			values[count++] = series->values[i];
	return count;
}

/* Puts a part in its place among those before it, the fastest first. */
static void insert(struct level_part *parts, uint32_t count, const struct level_part *part)
{
	for (; count && parts[count - 1].median > part->median; count--)
		parts[count] = parts[count - 1];
	parts[count] = *part;
}

/* The values of a state that are from one place to another among them in ascending order. */
static struct level_part part_of(const struct series *series, const struct states *states,
				 uint8_t state, double *values, size_t count, size_t first,
				 size_t last)
{
	const double *sorted = values + count, *logs = sorted + count;
	double *kept = values + 3 * count;
	size_t left = 0;
	struct level_part part = {
		.state = state,
		.count = last - first + 1,
		.median = middle_of(sorted, first, last),
		.dwell = dwell_of(series, states, state, sorted[first], sorted[last]),
	};

	leave_out_strays(logs, &first, &last);
	for (size_t i = 0; i < count; i++)
		if (values[i] >= sorted[first] && values[i] <= sorted[last])
			kept[left++] = values[i];
	part.interval = interval_of(kept, left);
	part.ratio = sorted[last] / (sorted[first] < VALUE_LEAST ? VALUE_LEAST : sorted[first]);
	return part;
}

uint32_t levels_of(const struct series *series, const struct states *states, double *work,
		   struct level_part parts[LEVELS_MOST])
{
	size_t ends[LEVELS_MOST + 1];
	uint32_t levels = 0, found = 0;

	for (uint8_t state = 0; state < LEVELS_MOST; state++)
		levels += values_of(series, states, state, work) > 0;
	for (uint8_t state = 0; state < LEVELS_MOST; state++) {
		size_t count = values_of(series, states, state, work);
		double *sorted = work + count, *logs = sorted + count;

		if (!count)
			continue;
		for (size_t i = 0; i < count; i++)
			sorted[i] = work[i];
		sort_values(sorted, count);
		for (size_t i = 0; i < count; i++)
			logs[i] = logarithm(sorted[i]);
		uint32_t own = split_sorted(work, sorted, logs, count, ends);

		if (levels + own - 1 > LEVELS_MOST) {
			own = 1;
			ends[1] = count;
		}
		levels += own - 1;
		for (uint32_t i = 0; i < own; i++) {
			struct level_part part = part_of(series, states, state, work, count,
							 ends[i], ends[i + 1] - 1);

			insert(parts, found++, &part);
		}
	}
	return found;
}

/* The part with most values, of equals the fastest; null: none. state: LEVELS_MOST for any. */
static const struct level_part *most_of(const struct level_part *parts, uint32_t count,
					uint8_t state, const struct level_part *but)
{
	const struct level_part *most = NULL;

	for (uint32_t i = 0; i < count; i++)
		if (&parts[i] != but && (state == LEVELS_MOST || parts[i].state == state) &&
		    (!most || parts[i].count > most->count))
			most = &parts[i];
	return most;
}

struct level level_of_most(const struct series *series, const struct states *states, double *work)
{
	struct level_part parts[LEVELS_MOST];
	uint32_t levels = levels_of(series, states, work, parts);
	const struct level_part *main = most_of(parts, levels, states->main, NULL);

	if (!main)
		main = most_of(parts, levels, LEVELS_MOST, NULL);
	if (!main) /* there is no value */
		return (struct level){.levels = 0};
	const struct level_part *other = most_of(parts, levels, LEVELS_MOST, main);

	return (struct level){*main, other ? other->median : 0, levels};
}
