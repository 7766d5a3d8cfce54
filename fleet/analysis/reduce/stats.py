"""Every statistic of a relation in one frame, for notebooks; those of a pair come with `load_pairs`."""

import pandas as pd

from fleet.analysis.reduce.matrices import relations


def relation_statistics(pairs: pd.DataFrame) -> pd.DataFrame:
    """As `relations`, a row per benchmark, variant and relation of one run, with more of its pairs.

    pairs: as `pair_medians` or `load_pairs` returns them. Added: `p10_ns`, `mad_ns` and `outliers` of the
    middle pair, `two_modes` and `drifting`, the share of pairs with a second mode and with a drift.
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
