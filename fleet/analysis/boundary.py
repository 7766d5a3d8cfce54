"""The boundary between runs: one that cannot be reduced or shown costs no other run its place in a view.

A view is made of all its runs at once; only where that fails are they tried in parts, to find which to leave.
"""

from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TypeVar
from warnings import catch_warnings

from fleet.errors import FleetError, StoreError, is_lack_of_memory
from fleet.store.places import Place
from fleet.store.reading import leave_out
from fleet.store.runs import Listing, hiding, unreadable

_Result = TypeVar("_Result")
_Step = Callable[[Listing, Sequence[str]], None]

_TOGETHER = 64  # runs that are read at a time to find the one that cannot be


def apart(root: str | Path | Place, work: Callable[[], _Result]) -> _Result:
    """Do `work` without those runs of `root` that make it fail, which StoreWarnings name.

    Raises StoreError where nothing is left; what fails with no run to blame is raised as it is.
    """
    failed: dict[str, StoreError] = {}
    while True:
        with hiding(failed) as named:
            try:
                result = work()
            except Exception as err:
                if isinstance(err, OSError) or is_lack_of_memory(err):
                    raise
                found: dict[str, StoreError] = {}
                if isinstance(err, StoreError) or not isinstance(err, FleetError):
                    found = _to_blame(root, [one for one in named if one not in failed], err)
                if not found and failed and isinstance(err, FleetError):
                    raise next(iter(failed.values())) from err
                if not found:
                    raise
                failed |= found
                continue
        for one in failed.values():
            leave_out(one)
        return result


def _to_blame(root: str | Path | Place, run_ids: Collection[str], why: Exception) -> dict[str, StoreError]:
    """Which of these runs cannot be shown, and why; a single one is to blame, and the last is tried first."""
    listing = Listing(root)
    place, known = listing.place, {run.run_id: run for run in listing.runs}
    ids = [run_id for run_id in reversed(list(run_ids)) if run_id in known]
    if len(ids) == 1:
        return {ids[0]: unreadable(place, known[ids[0]], why)}
    found: dict[str, Exception] = {}
    with catch_warnings(action="ignore"):
        for start in range(0, len(ids), _TOGETHER):
            found |= _failing(_read, listing, ids[start : start + _TOGETHER])
        for part in (ids[:1], ids[1:]):
            for step in (_as_text, _as_page):
                if not found:
                    for run_id in part:
                        found |= _failing(step, listing, [run_id])
    return {run_id: unreadable(place, known[run_id], err) for run_id, err in found.items()}


def _failing(step: _Step, listing: Listing, run_ids: Sequence[str]) -> dict[str, Exception]:
    """Those of the runs that the step fails for, found by halves."""
    try:
        step(listing, run_ids)
    except Exception as err:
        if is_lack_of_memory(err):
            raise
        if len(run_ids) > 1:
            half = len(run_ids) // 2
            return _failing(step, listing, run_ids[:half]) | _failing(step, listing, run_ids[half:])
        return {} if isinstance(err, FleetError) and not isinstance(err, StoreError) else {run_ids[0]: err}
    return {}


def _read(root: Listing, run_ids: Sequence[str]) -> None:
    from fleet.analysis.reduce.cells import cells  # noqa: PLC0415  only a failure needs them
    from fleet.analysis.reduce.load import read_runs  # noqa: PLC0415
    from fleet.analysis.reduce.pairs import load_pairs, widened  # noqa: PLC0415

    _, _, cpus = read_runs(root, run_ids)
    cells(widened(load_pairs(root, run_id=run_ids)), cpus)


def _as_text(root: Listing, run_ids: Sequence[str]) -> None:
    from fleet.analysis.views import show  # noqa: PLC0415  only a failure needs them

    for run_id in run_ids:
        show.show_text(root, run_id, all_sizes=True, both_ways=True)
    show.shows_json(root, run_ids)


def _as_page(root: Listing, run_ids: Sequence[str]) -> None:
    from fleet.analysis.report.page import render  # noqa: PLC0415

    render(root, run_ids)
