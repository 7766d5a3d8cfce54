"""The bursts of a pair or of a CPU in all its runs, for `fleet show --pair`."""

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from fleet.analysis.base import text
from fleet.analysis.base.tables import Bools, Ints
from fleet.analysis.reduce import load
from fleet.analysis.reduce.bursts import SAMPLE_COLUMNS, Bursts, read_bursts
from fleet.analysis.reduce.matrices import compute_medians_and_outliers
from fleet.analysis.reduce.numbers import ALL, Only
from fleet.analysis.reduce.pairs import as_float64, load_pairs
from fleet.errors import UsageError
from fleet.late import pa
from fleet.plan.cpulist import format_cpus
from fleet.store import RunSummary
from fleet.store.places import Place, samples_name
from fleet.store.reading import TableFile
from fleet.store.runs import Root, open_listing

_PAIRS_NAMED = 12
_PAIR_PATTERN = re.compile(r"(\d{1,5})(?:-(\d{1,5}))?")
_POINT = ["run_id", "benchmark", "variant", "point"]
_GROUP = [*_POINT, "relation"]
_OF_BURST = [
    "round",
    "ping_cpu",
    "pong_cpu",
    "burst_ns",
    "samples",
    "grain_ns",
    "core_ghz",
    "flags",
    "pair_ns",
    "pair_flags",
]
_OF_SAMPLES = ["start_offset_ns", "iterations", "sample_ns"]


class _CpuPair(NamedTuple):
    """Two CPUs, the lower one first; equal for bursts of a single CPU."""

    low: int
    high: int

    def match(self, ping_cpus: Ints, pong_cpus: Ints) -> Bools:
        """Report which pairs are of these CPUs, in either direction."""
        has_low = np.minimum(ping_cpus, pong_cpus) == self.low
        has_high = np.maximum(ping_cpus, pong_cpus) == self.high
        matches: Bools = has_low & has_high
        return matches


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
    return load_pair_samples(root, runs, pair, only).drop(columns=_OF_SAMPLES)


def load_pair_samples(
    root: Root, runs: Sequence[RunSummary], pair: str, only: Only = ALL
) -> pd.DataFrame:
    """Return the rows of `load_pair_bursts` with three further columns. `sample_ns` is
    an array of a burst's samples, in ns per unit of work. `start_offset_ns` is when the
    burst began, counted from the start of the run. `iterations` is how many units of
    work, such as round trips, each sample has. Raises UsageError for a pair that no run
    measured.
    """
    cpus = _parse_pair(pair)
    run_ids = [run.run_id for run in runs]
    pairs = _load_pairs(root, run_ids, only)
    ping_cpus = pairs["ping_cpu"].to_numpy()
    pong_cpus = pairs["pong_cpu"].to_numpy()
    own_pairs = pairs[cpus.match(ping_cpus, pong_cpus)]
    if own_pairs.empty:
        raise UsageError(
            f"pair {pair}: it was not measured{only}. {_describe_measured_pairs(pairs)}"
        )
    facts = load.load_runs(root, run_id=run_ids)
    bursts = _read_bursts_of_runs(root, runs, cpus, own_pairs, facts)
    with_numbers = _add_pair_numbers(bursts, own_pairs)
    in_order = _sort_by_run_and_time(with_numbers, run_ids)
    columns = [*_GROUP, *_OF_BURST, *_OF_SAMPLES]
    return load.add_run_columns(in_order[columns], facts)


def _read_bursts_of_runs(
    root: Root,
    runs: Sequence[RunSummary],
    cpus: _CpuPair,
    pairs: pd.DataFrame,
    facts: pd.DataFrame,
) -> pd.DataFrame:
    """Read the bursts of two CPUs in all runs, as `_read_pair_bursts` does. pairs: of
    these CPUs, a row per run and benchmark. facts: rows of the table `runs`;
    `clock_quantum_ticks` is the smallest step of the run's clock, NaN if unknown.
    """
    facts_by_run = facts.set_index("run_id")
    quanta = facts_by_run["clock_quantum_ticks"].astype(float)
    place = open_listing(root).place
    tables = list[pd.DataFrame]()
    for run in runs:
        run_id = run.run_id
        pairs_of_run = pairs[pairs["run_id"] == run_id]
        benchmarks = pairs_of_run["benchmark"].unique().tolist()
        tables += _read_pair_bursts(place, run, cpus, benchmarks, quanta[run_id])
    return pd.concat(tables, ignore_index=True)


def _sort_by_run_and_time(bursts: pd.DataFrame, run_ids: Sequence[str]) -> pd.DataFrame:
    """Sort bursts by their runs, in the order given, and then by their start."""
    bursts["order"] = bursts["run_id"].map(run_ids.index)
    return bursts.sort_values(["order", "start_offset_ns"], ignore_index=True)


def _parse_pair(pair: str) -> _CpuPair:
    """Parse "3-17", or "3". Raises UsageError."""
    match = _PAIR_PATTERN.fullmatch(pair)
    if not match:
        raise UsageError(f"pair {pair}: write two CPUs as 3-17, or one as 3.")
    first = int(match[1])
    second = int(match[2] or match[1])
    return _CpuPair(min(first, second), max(first, second))


def _load_pairs(root: Root, run_ids: Sequence[str], only: Only) -> pd.DataFrame:
    """Load the measured pairs that match. Raises UsageError if none do."""
    pairs = as_float64(load_pairs(root, run_id=run_ids))
    cpus = pd.DataFrame()
    if only.cpus is not None:  # else it is not needed
        cpus = load.load_cpus(root, run_id=run_ids)
    return only.select(pairs, cpus)


def _read_pair_bursts(
    place: Place,
    run: RunSummary,
    cpus: _CpuPair,
    benchmarks: Sequence[str],
    quantum_ticks: float,
) -> Iterator[pd.DataFrame]:
    """Yield tables with a row per burst of two CPUs in a run: what is stored of it,
    with `burst_ns`, `samples`, `grain_ns` and `sample_ns`.

    `burst_ns` is the median of a burst's samples. `grain_ns` is what a step of the
    run's clock changes a sample by. All numbers are in ns per unit of work, so that the
    grain is the smaller, the more units a sample has. quantum_ticks: the step.
    """
    file = TableFile(place, samples_name(*run.key), "samples")
    filters = load.make_filters(benchmark=benchmarks)
    for samples in file.iter_tables(SAMPLE_COLUMNS, filters):
        ping_cpus = samples.column("ping_cpu").to_numpy()
        pong_cpus = samples.column("pong_cpu").to_numpy()
        is_chosen = pa.array(cpus.match(ping_cpus, pong_cpus))
        bursts = read_bursts(samples.filter(is_chosen), run.descriptions)
        # bursts are read in ns; only the clock's step is still in ticks
        medians_ns, _ = compute_medians_and_outliers(bursts)
        stored_facts = bursts.about  # a row per burst: its columns but the samples
        ns_per_tick = load.compute_latency_ns_per_tick(stored_facts, run.descriptions)
        yield stored_facts.assign(
            burst_ns=medians_ns,
            samples=bursts.counts,
            grain_ns=ns_per_tick * quantum_ticks,
            sample_ns=_split_by_burst(bursts),
        )


def _split_by_burst(bursts: Bursts) -> "pd.Series[Any]":
    """Return an array of the samples of each burst; their latencies stand one burst
    behind another.
    """
    begins_of_later_bursts = np.cumsum(bursts.counts)[:-1]
    parts = np.split(bursts.latencies, begins_of_later_bursts)
    if not len(bursts.counts):
        parts = []  # without bursts, there is still one part, which is empty
    return pd.Series(parts, bursts.about.index, dtype=object)


def _add_pair_numbers(bursts: pd.DataFrame, pairs: pd.DataFrame) -> pd.DataFrame:
    """Add the number and the flags of the pair in each burst's run."""
    numbers = pairs[[*_POINT, "median_ns", "flags"]]
    numbers = numbers.rename(columns={"median_ns": "pair_ns", "flags": "pair_flags"})
    # columns of categories would not merge with others
    plain_bursts = bursts.astype(dict.fromkeys(_GROUP, object))
    plain_numbers = numbers.astype(dict.fromkeys(_POINT, object))
    return plain_bursts.merge(plain_numbers, on=_POINT)


def _describe_measured_pairs(pairs: pd.DataFrame) -> str:
    """Name some measured pairs in a sentence, or only the CPUs if all their pairs were
    measured. The sentence follows one that says which pair was not measured.
    """
    if pairs.empty:
        return "No pair was."
    cpu_pairs = _list_cpu_pairs(pairs)
    cpus = sorted({cpu for ends in cpu_pairs for cpu in ends})
    # a CPU that was measured by itself is no pair of two
    pair_count = sum(ends.low != ends.high for ends in cpu_pairs)
    possible_count = len(cpus) * (len(cpus) - 1) // 2
    if pair_count == possible_count > 0:
        return f"Pairs are any two of the CPUs {format_cpus(cpus)}."
    names = ", ".join(map(_name_cpu_pair, cpu_pairs[:_PAIRS_NAMED]))
    more = len(cpu_pairs) - _PAIRS_NAMED
    if more > 0:
        names += f" and {more} more (fleet show HOST --csv)"
    return f"There are {names}."


def _list_cpu_pairs(pairs: pd.DataFrame) -> list[_CpuPair]:
    """List the CPUs of all pairs in rising order, each two once."""
    cpu_pairs = set()
    for ping, pong in zip(pairs["ping_cpu"], pairs["pong_cpu"], strict=True):
        cpu_pairs.add(_CpuPair(min(ping, pong), max(ping, pong)))
    return sorted(cpu_pairs)


def _name_cpu_pair(cpus: _CpuPair) -> str:
    return text.format_pair({"ping_cpu": cpus.low, "pong_cpu": cpus.high})
