"""The boundary between runs: one that cannot be reduced or shown costs no other run its place in a view.

Reduces nothing itself. Each view is made of all its runs at once; only where that fails is each run taken by
itself, to find which of them the view has to do without.
"""

from collections.abc import Callable, Collection
from pathlib import Path
from typing import TypeVar

from fleet.errors import FleetError, StoreError, is_lack_of_memory
from fleet.store.places import Place
from fleet.store.reading import leave_out
from fleet.store.runs import Listing, hiding, unreadable

_Result = TypeVar("_Result")


def apart(root: str | Path | Place, work: Callable[[], _Result]) -> _Result:
    """Do `work`, which reads runs of `root`, without those that make it fail.

    Each of these is named by a StoreWarning. Raises StoreError where nothing is left without them; what
    fails with no run to blame is raised as it is.
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
                    found = _to_blame(root, named - failed.keys(), err)
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
    """Which of these runs cannot be shown by themselves, and why; a single one is to blame itself."""
    listing = Listing(root)
    place, runs = listing.place, [run for run in listing.runs if run.run_id in run_ids]
    if len(runs) == 1:
        return {runs[0].run_id: unreadable(place, runs[0], why)}
    for shown in (_as_text, _as_page):
        found = {
            run.run_id: unreadable(place, run, err)
            for run in runs
            if (err := _error(lambda: shown(listing, run.run_id))) is not None  # noqa: B023  called at once
        }
        if found:
            return found
    return {}


def _error(work: Callable[[], object]) -> Exception | None:
    try:
        work()
    except Exception as err:
        if is_lack_of_memory(err):
            raise
        return None if isinstance(err, FleetError) and not isinstance(err, StoreError) else err
    return None


def _as_text(root: Listing, run_id: str) -> None:
    from fleet.analysis.reduce.cells import cells  # noqa: PLC0415  only a failure needs them
    from fleet.analysis.reduce.load import load_cpus  # noqa: PLC0415
    from fleet.analysis.reduce.pairs import load_pairs, widened  # noqa: PLC0415
    from fleet.analysis.views import show  # noqa: PLC0415

    show.show_text(root, run_id, all_sizes=True, both_ways=True)
    show.shows_json(root, [run_id])
    cells(widened(load_pairs(root, run_id=run_id)), load_cpus(root, run_id=run_id))


def _as_page(root: Listing, run_id: str) -> None:
    from fleet.analysis.report.page import render  # noqa: PLC0415

    render(root, [run_id])
