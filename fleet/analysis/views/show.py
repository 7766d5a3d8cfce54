"""What `fleet show` prints, as text, JSON and CSV."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from fleet.analysis.reduce.load import load_cpus, load_run, load_samples, view_of, without_points
from fleet.analysis.reduce.matrices import relations
from fleet.analysis.reduce.pairs import load_pairs, widened
from fleet.analysis.reduce.topology import Layout, layout
from fleet.analysis.views import sections
from fleet.analysis.views.heatmap import Canvas
from fleet.analysis.views.ladder import ladder, points_of
from fleet.analysis.views.text import json_text, records
from fleet.analysis.views.warnings import run_warnings, warnings_text
from fleet.analysis.views.ways import ways
from fleet.model import View


def shows_text(
    root: str | Path,
    run_ids: Sequence[str],
    *,
    width: int | None = None,
    colour: bool = False,
    both_ways: bool = False,
) -> str:
    """Several runs, one below the other."""
    return "\n\n\n".join(
        show_text(root, run_id, width=width, colour=colour, both_ways=both_ways) for run_id in run_ids
    )


def shows_json(root: str | Path, run_ids: Sequence[str]) -> str:
    """Runs for programs, as a list: `run`, `relations`, `pairs` (ns of a unit), `cpus` in topology order.

    `points`: a row per point and its CPUs, with its parameters and rates; empty without points. relations:
    of benchmarks of pairs.

    number: the column of `pairs` that is the run's number.
    """
    return json_text([_object(root, run_id) for run_id in run_ids])


def show_text(
    root: str | Path,
    run_id: str,
    *,
    width: int | None = None,
    colour: bool = False,
    both_ways: bool = False,
) -> str:
    """One run for people: what it was, a table by relation, the matrix, the warnings.

    width: columns of the terminal; None where the text is not for one, so lines may be long. both_ways: with
    the directions of messages.
    """
    found, canvas = _load(root, run_id), Canvas(width, colour)
    parts = [sections.header(found.run, found.order)]
    for (benchmark, _variant), part in found.pairs.groupby(["benchmark", "variant"], sort=False):
        match view_of(str(benchmark)):
            case View.CPUS:
                parts.append(sections.clock(part, found.order))
            case View.MATRIX:
                for _, at_point in part.groupby("point", sort=False, dropna=False):
                    parts.append(sections.benchmark(at_point, found.order, canvas, found.run))
            case View.LADDER:
                parts.append(ladder(part, found.points))
    if both_ways:
        parts.append(
            ways(root, found.run) or "No messages were measured, so there are no directions to show."
        )
    parts.append(warnings_text(run_warnings(root, found.run, found.pairs, found.flags)))
    return "\n\n".join(part for part in parts if part)


def shows_csv(root: str | Path, run_ids: Sequence[str]) -> str:
    """The pairs of several runs as CSV for programs: the table `pairs`, a header line, no number rounded."""
    whole: str = widened(load_pairs(root, run_id=run_ids)).to_csv(index=False, lineterminator="\n")
    return whole.removesuffix("\n")


def _object(root: str | Path, run_id: str) -> dict[str, Any]:
    found = _load(root, run_id)
    number = sections.number_of(found.run)
    return {
        "run": {key: value for key, value in found.run.items() if key != "probe"},
        "cpus": list(found.order.cpus),
        "number": number,
        "relations": records(relations(without_points(found.pairs), number)),
        "points": records(found.points),
        "pairs": records(found.pairs.drop(columns=["host_id", "run_id", "stats_version"])),
    }


@dataclass(frozen=True, slots=True)
class _Found:
    """A run as the sections need it. pairs: benchmarks in the order of the plan. flags: of every burst.

    points: as `points_of` returns them.
    """

    run: dict[str, Any]
    flags: "pd.Series[str]"
    pairs: pd.DataFrame
    points: pd.DataFrame
    order: Layout


def _load(root: str | Path, run_id: str) -> _Found:
    run = load_run(root, run_id)
    pairs = _as_planned(widened(load_pairs(root, run_id=run_id)), run["benchmarks"])
    measured = sorted(set(pairs["ping_cpu"]) | set(pairs["pong_cpu"]))
    flags = load_samples(root, run_id=run_id, columns=["flags"])["flags"]
    points = points_of(root, run_id, pairs)
    return _Found(run, flags, pairs, points, layout(load_cpus(root, run_id=run_id), measured))


def _as_planned(pairs: pd.DataFrame, benchmarks: Sequence[str]) -> pd.DataFrame:
    """The same rows with benchmarks in the order of the plan; `benchmarks` as in the `runs` table."""
    places = {name: place for place, name in enumerate(benchmarks)}
    names = pairs["benchmark"] + "/" + pairs["variant"]
    place = names.map(lambda name: places.get(name, len(places)))
    return pairs.iloc[place.argsort(kind="stable")].reset_index(drop=True)
