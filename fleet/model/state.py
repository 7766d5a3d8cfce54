"""States of a run, for modules that list runs without reading them."""

from enum import StrEnum


class RunState(StrEnum):
    """COMPLETE: every planned burst. PARTIAL: some failed, named in the run. UNFINISHED: only a journal."""

    COMPLETE = "complete"
    PARTIAL = "partial"
    UNFINISHED = "unfinished"
