/* report.c: see report.h. */
#include "emit/report.h"

double report_sample_ns(const struct run *run, const struct report *report, uint32_t sample)
{
	const struct benchmark *benchmark = report->visit->choice->benchmark;
	const struct burst_result *result = report->result;
	double ways = benchmark->two_ways ? 2 : 1;
	double ticks = bench_combine_ticks(benchmark, result->ticks + sample, result->timed,
					   result->samples);
	uint64_t done = report->units;

	for (size_t t = 0; !benchmark->other_unit && t < result->counted_others; t++)
		done += result->other_units[t * result->samples + sample];
	return ticks * (1e9 / (double)run->clock->clock.ticks_per_second) / (double)done / ways;
}
