"""The bursts of a pair or of a CPU in all its runs, for `fleet show --pair`."""

import re
from collections.abc import Sequence

import numpy as np
import pandas as pd

from fleet.analysis.base import text
from fleet.analysis.reduce import load
from fleet.analysis.reduce.bursts import SAMPLE_COLUMNS, read_bursts
from fleet.analysis.reduce.matrices import compute_medians_and_outliers
from fleet.analysis.reduce.numbers import ALL, Only
from fleet.analysis.reduce.pairs import as_float64, load_pairs
from fleet.errors import UsageError
from fleet.late import pa
from fleet.plan.cpulist import format_cpus
from fleet.store import RunSummary
from fleet.store.places import samples_name
from fleet.store.reading import TableFile
from fleet.store.runs import Root, open_listing

_PAIRS_NAMED = 12
_ENDS = ["ping_cpu", "pong_cpu"]
_GROUP = ["run_id", "benchmark", "variant", "point", "relation"]
_OF_BURST = [
    "round",
    *_ENDS,
    "burst_ns",
    "samples",
    "grain_ns",
    "core_ghz",
    "flags",
    "pair_ns",
    "pair_flags",
]


def load_pair_bursts(
    root: Root, runs: Sequence[RunSummary], pair: str, only: Only = ALL
) -> pd.DataFrame:
    """Return a row per burst of two CPUs ("3-17", in either direction) or of one ("3"),
    in order of time.

    Columns: `load.RUN_COLUMNS`, _GROUP (run, choice, point and relation) and
    _OF_BURST: `burst_ns` is the median of its samples, in ns per unit of work;
    `grain_ns` is what a step of the clock adds to a sample (NaN if unknown); `pair_ns`
    and `pair_flags` are the pair's number and flags in that run. Raises UsageError for
    a pair that no run measured.
    """
    match = re.fullmatch(r"(\d{1,5})(?:-(\d{1,5}))?", pair)
    if not match:
        raise UsageError(f"pair {pair}: write two CPUs as 3-17, or one as 3.")
    low, high = sorted(int(number) for number in (match[1], match[2] or match[1]))
    run_ids = [run.run_id for run in runs]
    pairs = as_float64(load_pairs(root, run_id=run_ids))
    pairs = only.select(
        pairs, load.load_cpus(root, run_id=run_ids) if only.cpus else pairs
    )
    chosen = pairs[
        (pairs[_ENDS].min(axis=1) == low) & (pairs[_ENDS].max(axis=1) == high)
    ]
    if chosen.empty:
        raise UsageError(
            f"pair {pair}: it was not measured{only}. {_describe_measured_pairs(pairs)}"
        )
    facts = load.load_runs(root, run_id=run_ids)
    steps = dict(
        zip(facts["run_id"], facts["clock_quantum_ticks"].astype(float), strict=True)
    )
    place, parts = open_listing(root).place, []
    for run in runs:
        names = chosen.loc[chosen["run_id"] == run.run_id, "benchmark"].unique()
        file = TableFile(place, samples_name(*run.key), "samples")
        for samples in file.iter_tables(
            SAMPLE_COLUMNS, load.make_filters(benchmark=[*names])
        ):
            cpus = np.stack([samples.column(name).to_numpy() for name in _ENDS])
            is_chosen = (cpus.min(axis=0) == low) & (cpus.max(axis=0) == high)
            bursts = read_bursts(samples.filter(pa.array(is_chosen)), run.descriptions)
            step_ns = (
                load.compute_latency_ns_per_tick(bursts.about, run.descriptions)
                * steps[run.run_id]
            )
            medians = compute_medians_and_outliers(bursts)[0]
            parts.append(
                bursts.about.assign(
                    burst_ns=medians, samples=bursts.counts, grain_ns=step_ns
                )
            )
    rows = pd.concat(parts, ignore_index=True).astype(dict.fromkeys(_GROUP, object))
    numbers = chosen.rename(columns={"median_ns": "pair_ns", "flags": "pair_flags"})
    numbers = numbers[[*_GROUP[:-1], "pair_ns", "pair_flags"]].astype(
        dict.fromkeys(_GROUP[:-1], object)
    )
    rows = rows.merge(numbers, on=_GROUP[:-1])
    rows = rows.assign(order=rows["run_id"].map(run_ids.index)).sort_values(
        ["order", "start_offset_ns"]
    )
    return load.add_run_columns(
        rows[[*_GROUP, *_OF_BURST]].reset_index(drop=True), facts
    )


def _describe_measured_pairs(pairs: pd.DataFrame) -> str:
    """Name some measured pairs in a sentence, or only the CPUs if all their pairs were
    measured.
    """
    if pairs.empty:
        return "No pair was."
    ends = sorted(
        {
            tuple(sorted(cpus))
            for cpus in zip(*(pairs[name] for name in _ENDS), strict=True)
        }
    )
    cpus = sorted({cpu for pair in ends for cpu in pair})
    if sum(a != b for a, b in ends) == len(cpus) * (len(cpus) - 1) // 2 > 0:
        return f"Pairs are any two of the CPUs {format_cpus(cpus)}."
    listed = ", ".join(
        text.format_pair(dict(zip(_ENDS, pair, strict=True)))
        for pair in ends[:_PAIRS_NAMED]
    )
    more = f" and {len(ends) - _PAIRS_NAMED} more (fleet show HOST --csv)" * (
        len(ends) > _PAIRS_NAMED
    )
    return f"There are {listed}{more}."
