"""Reduces raw samples to one row per pair, and rows to matrices. The burst is the unit of replication."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from fleet.analysis.levels import levels
from fleet.analysis.load import flat_ticks, ns_per_sample_tick

OUTLIER = 2.0  # a sample above this multiple of its burst's median
PAIR = ["run_id", "benchmark", "variant", "ping_cpu", "pong_cpu"]


def pair_medians(samples: pd.DataFrame, *, ordered: bool = False) -> pd.DataFrame:
    """Reduce raw samples to one row per run, benchmark, variant and pair; one way, in ns (float64).

    samples: as `load_samples` returns it; warm-ups are left out, bursts of nothing else too. Unless
    `ordered`, both directions of a pair are one row, the lower CPU as ping.

    Columns beside the pair and `relation`: `median_ns` (of the bursts' medians: the headline), `low_ns`,
    `high_ns` (95 % t interval over burst medians; NaN for a single burst), `spread` (half of it, relative),
    `other_ns`, `other_share` (of a pair with two modes the smaller one; the columns before are then of the
    larger), `drift` (relative change over the run, NaN where none is proved), `min_ns`, `p10_ns`, `mean_ns`,
    `p99_ns`, `max_ns` (of all samples), `outliers` (share of samples above twice their burst's median),
    `bursts`, `samples`, `flagged_bursts` and `flags` (those of its bursts, comma-separated).
    """
    keyed, latencies, burst = _bursts(samples, ordered=ordered)
    by_pair = keyed.groupby(PAIR, sort=True)
    table = by_pair.agg(relation=("relation", "first"), bursts=("burst_ns", "size"))
    table = table.assign(**_judged(keyed, table["bursts"].to_numpy()))
    flagged = keyed[keyed["flags"] != ""].groupby(PAIR)["flags"]
    table["flagged_bursts"] = flagged.size().reindex(table.index).fillna(0).astype(int) if len(flagged) else 0
    table["flags"] = flagged.agg(union).reindex(table.index).fillna("") if len(flagged) else ""
    numbers = np.full(len(samples), -1, dtype=np.int64)
    numbers[keyed.index.to_numpy()] = by_pair.ngroup().to_numpy()
    every = pd.Series(latencies).groupby(numbers[burst])
    middles = np.zeros(len(samples))
    middles[keyed.index.to_numpy()] = keyed["burst_ns"].to_numpy()
    far = pd.Series(latencies > OUTLIER * middles[burst]).groupby(numbers[burst]).mean()
    table["samples"] = every.size().to_numpy()
    for name, values in (
        ("min_ns", every.min()),
        ("p10_ns", every.quantile(0.10)),
        ("mean_ns", every.mean()),
        ("p99_ns", every.quantile(0.99)),
        ("max_ns", every.max()),
        ("outliers", far),
    ):
        table[name] = values.to_numpy()
    return table.reset_index()


def _bursts(
    samples: pd.DataFrame, *, ordered: bool
) -> tuple[pd.DataFrame, npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """A row per burst with its median, each pair's in order of time; then all latencies and their bursts.

    The index is the burst's position in `samples`.
    """
    keyed = samples[[*PAIR, "relation", "flags", "start_offset_ns"]].reset_index(drop=True)
    for column in ("run_id", "benchmark", "variant", "relation", "flags"):
        keyed[column] = keyed[column].astype(str)
    if not ordered:
        low = keyed[["ping_cpu", "pong_cpu"]].min(axis=1)
        keyed["pong_cpu"] = keyed[["ping_cpu", "pong_cpu"]].max(axis=1)
        keyed["ping_cpu"] = low
    latencies, burst = _measured(samples)
    keyed["burst_ns"] = pd.Series(latencies).groupby(burst).median().reindex(range(len(keyed))).to_numpy()
    keyed = keyed[keyed["burst_ns"].notna().to_numpy()]
    return keyed.sort_values([*PAIR, "start_offset_ns"], kind="stable"), latencies, burst


def _judged(keyed: pd.DataFrame, counts: npt.NDArray[np.int64]) -> dict[str, npt.NDArray[np.float64]]:
    """The columns that come from a pair's burst medians; pairs of as many bursts are judged together."""
    names = ("median_ns", "low_ns", "high_ns", "spread", "other_ns", "other_share", "drift")
    columns = {name: np.full(len(counts), np.nan) for name in names}
    values, times = keyed["burst_ns"].to_numpy(), keyed["start_offset_ns"].to_numpy(dtype=np.float64)
    first = np.cumsum(counts) - counts
    for count in np.unique(counts):
        pairs = np.flatnonzero(counts == count)
        at = first[pairs][:, None] + np.arange(count)
        found = levels(values[at], times[at])
        judged = (
            found.median,
            found.mean - found.half,
            found.mean + found.half,
            found.half / found.mean,
            found.other,
            found.other_share,
            found.drift,
        )
        for name, column in zip(names, judged, strict=True):
            columns[name][pairs] = column
    return columns


def relations(pairs: pd.DataFrame, number: str = "median_ns") -> pd.DataFrame:
    """Reduce pairs to one row per benchmark, variant and relation, nearest relation first; in ns.

    number: the column of `pairs` that is its number. Benchmarks and variants stay in the order of `pairs`.
    `median_ns`, `min_ns`, `max_ns`: of the pairs' numbers. `p99_ns`: the median of the pairs' p99.
    `spread`: the median pair's; `widest`: the worst pair's. `flagged_share`: of the bursts, those with a
    flag. `flagged_pairs`: pairs with a flag of their own or of a burst.
    """
    table = (
        pairs.assign(number=pairs[number], flagged=pairs["flags"] != "", widest=pairs["spread"])
        .groupby(["benchmark", "variant", "relation"], sort=False)
        .agg(
            pairs=("number", "size"),
            median_ns=("number", "median"),
            min_ns=("number", "min"),
            max_ns=("number", "max"),
            p99_ns=("p99_ns", "median"),
            spread=("spread", "median"),
            widest=("widest", "max"),
            bursts=("bursts", "sum"),
            flagged_share=("flagged_bursts", "sum"),
            flagged_pairs=("flagged", "sum"),
        )
        .reset_index()
    )
    table["flagged_share"] /= table["bursts"]
    kind = table["benchmark"] + "/" + table["variant"]
    order = kind.map({name: place for place, name in enumerate(kind.unique())})
    return (
        table.assign(order=order)
        .sort_values(["order", "median_ns"], kind="stable")
        .drop(columns="order")
        .reset_index(drop=True)
    )


def matrix(pairs: pd.DataFrame, cpus: Sequence[int], value: str = "median_ns") -> pd.DataFrame:
    """Lay pairs of one benchmark out as rows ping, columns pong, in the order of `cpus`.

    An unordered pair stands on both sides of the diagonal. NaN: not measured.
    """
    table = pairs.pivot_table(index="ping_cpu", columns="pong_cpu", values=value, aggfunc="median")
    table = table.reindex(index=list(cpus), columns=list(cpus)).astype(float)
    return table.where(table.notna(), table.T)


def _measured(
    samples: pd.DataFrame,
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Latencies of all samples but the warm-ups, and for each the position of its burst."""
    counts = samples["ticks"].map(len).to_numpy(dtype=np.int64)
    burst = np.repeat(np.arange(len(samples)), counts)
    place = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    kept = place >= samples["warmup"].to_numpy()[burst]
    return (flat_ticks(samples) * ns_per_sample_tick(samples)[burst])[kept], burst[kept]


def union(flags: "pd.Series[str]") -> str:
    """Every flag in comma-separated lists of them, once, in one such list."""
    return ",".join(sorted({flag for joined in flags.unique() for flag in joined.split(",") if flag}))
