"""The numbers of a run that must fit together, whether they do or not, for a report."""

import pandas as pd

from fleet.analysis.reduce.cross_checks import MEANS

TITLES = ("check", "numbers", "comparisons", "breaches")


def checks_of(found: pd.DataFrame) -> list[tuple[str, ...]]:
    """A line per check that could be made, as TITLES: its numbers are those that are farthest apart.

    found: as `cross_checks.compared` returns it.
    """
    parts = ((check, found[found["check"] == check]) for check in MEANS)
    return [(check, *_line(part)) for check, part in parts if len(part)]


def _line(part: pd.DataFrame) -> tuple[str, str, str]:
    worst = part.sort_values(["breach", "value"], ascending=False, kind="stable").iloc[0]
    return str(worst["says"]), str(len(part)), str(part["breach"].sum())
