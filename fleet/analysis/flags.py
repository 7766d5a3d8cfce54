"""Says of each pair what to distrust (docs/flags.md): the flags that one burst alone cannot tell."""

import numpy as np
import numpy.typing as npt
import pandas as pd

MANY_OUTLIERS = 0.05
FAR_NEARER = 0.5  # of its relation's median
SMALLEST_CLASS = 4  # pairs; fewer do not tell what a relation costs
_NEARER_BY = 0.95  # another CPU is nearer than the sibling only beyond this factor
_KIND = ["run_id", "benchmark", "variant"]
PAIR_FLAGS = ("multimodal", "drift", "not_converged", "smt_pair", "outliers")

Marks = npt.NDArray[np.bool_]


def with_pair_flags(pairs: pd.DataFrame, precision: float | None = None) -> pd.DataFrame:
    """The same rows with the flags of the pair added to those of its bursts.

    pairs: as `pair_medians` returns them. precision: the interval asked for, as a share; None for none.
    """
    raised = {
        "multimodal": pairs["other_ns"].notna().to_numpy(),
        "drift": pairs["drift"].notna().to_numpy(),
        "not_converged": _not_converged(pairs, precision),
        "smt_pair": _smt_pair(pairs),
        "outliers": (pairs["outliers"] > MANY_OUTLIERS).to_numpy(),
    }
    texts = []
    for row, flags in enumerate(pairs["flags"]):
        own = [name for name in PAIR_FLAGS if raised[name][row]]
        texts.append(",".join(sorted({*(flag for flag in flags.split(",") if flag), *own})))
    return pairs.assign(flags=texts)


def _not_converged(pairs: pd.DataFrame, precision: float | None) -> Marks:
    if precision is None:
        return np.zeros(len(pairs), dtype=bool)
    return ~(pairs["spread"] <= precision).to_numpy()


def _smt_pair(pairs: pd.DataFrame) -> Marks:
    """Siblings that are not each other's nearest, and pairs far nearer than the others of their relation."""
    marks = np.zeros(len(pairs), dtype=bool)
    for _, rows in pairs.reset_index(drop=True).groupby(_KIND, sort=False):
        marks[rows.index] = _strange_siblings(rows) | _strangely_near(rows)
    return marks


def _strange_siblings(rows: pd.DataFrame) -> Marks:
    """Rows of relation `smt` where one of the two CPUs has a nearer partner of another relation."""
    others = rows[rows["relation"] != "smt"]
    ends = pd.concat([others.set_index("ping_cpu")["median_ns"], others.set_index("pong_cpu")["median_ns"]])
    nearest = ends.groupby(level=0).min()
    closest = np.fmin(
        rows["ping_cpu"].map(nearest).to_numpy(dtype=float),
        rows["pong_cpu"].map(nearest).to_numpy(dtype=float),
    )
    strange: Marks = (rows["relation"] == "smt").to_numpy() & (
        closest < _NEARER_BY * rows["median_ns"].to_numpy()
    )
    return strange


def _strangely_near(rows: pd.DataFrame) -> Marks:
    by_relation = rows.groupby("relation")["median_ns"]
    usual, size = by_relation.transform("median"), by_relation.transform("size")
    parted = ~rows["relation"].isin(["self", "smt"])  # nothing is nearer than a sibling
    near: Marks = (parted & (size >= SMALLEST_CLASS) & (rows["median_ns"] < FAR_NEARER * usual)).to_numpy()
    return near
