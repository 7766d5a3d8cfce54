"""Every statistic of a pair and of a relation in one frame each, for notebooks; one definition of each.

Levels, intervals, modes and drift come from burst medians (docs/statistics.md); the rest from samples.
"""

import pandas as pd

from fleet.analysis.load import samples_long
from fleet.analysis.matrices import PAIR, pair_medians, relations


def pair_statistics(samples: pd.DataFrame) -> pd.DataFrame:
    """As `pair_medians`, a row per run and pair, with `mad_ns` beside.

    mad_ns: the median distance of a sample from its pair's median sample, warm-ups left out; ns.
    """
    table = pair_medians(samples)
    long = samples_long(samples[[*PAIR, "ns_per_tick", "iterations", "warmup", "ticks"]])
    long = long[~long["is_warmup"]]
    ends = long[["ping_cpu", "pong_cpu"]]
    long = long.assign(ping_cpu=ends.min(axis=1), pong_cpu=ends.max(axis=1))
    for name in PAIR[:3]:
        long[name] = long[name].astype(str)
    away = (long["latency_ns"] - long.groupby(PAIR)["latency_ns"].transform("median")).abs()
    mad = away.groupby([long[name] for name in PAIR]).median().rename("mad_ns")
    return table.merge(mad.reset_index(), on=PAIR, how="left")


def relation_statistics(pairs: pd.DataFrame) -> pd.DataFrame:
    """As `relations`, a row per benchmark, variant and relation of one run, with more of its pairs.

    pairs: as `pair_statistics` returns them. Added: `p10_ns`, `mad_ns` and `outliers` of the middle pair,
    `two_modes` and `drifting`, the share of pairs with a second mode and with a drift.
    """
    keys = ["benchmark", "variant", "relation"]
    more = (
        pairs.assign(two_modes=pairs["other_ns"].notna(), drifting=pairs["drift"].notna())
        .groupby(keys, sort=False)
        .agg(
            p10_ns=("p10_ns", "median"),
            mad_ns=("mad_ns", "median"),
            outliers=("outliers", "median"),
            two_modes=("two_modes", "mean"),
            drifting=("drifting", "mean"),
        )
    )
    return relations(pairs).merge(more.reset_index(), on=keys, how="left")
