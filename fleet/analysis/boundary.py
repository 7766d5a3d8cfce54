"""Leaves damaged runs out: a run whose file the gate refuses costs no other run its place."""

from collections.abc import Callable
from typing import TypeVar

from fleet.errors import DamagedFileError, StoreError, UsageError
from fleet.store.reading import warn_left_out
from fleet.store.runs import hiding

_Result = TypeVar("_Result")


def skip_damaged_runs(work: Callable[[], _Result]) -> _Result:
    """Do `work`, again without each run that turns out to be damaged; name these by StoreWarnings.

    Raises DamagedFileError where no other run is selected. All other errors pass.
    """
    damaged: dict[str, DamagedFileError] = {}
    while True:
        try:
            with hiding(damaged):
                result = work()
        except DamagedFileError as err:
            if err.run_id is None or err.run_id in damaged:
                raise
            damaged[err.run_id] = err
            continue
        except (UsageError, StoreError) as err:  # as of a selection that nothing is left of
            if damaged:
                raise next(iter(damaged.values())) from err
            raise
        for refusal in damaged.values():
            warn_left_out(refusal)
        return result
