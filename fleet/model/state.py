"""What has become of a run, for those who list runs and look into none."""

from enum import StrEnum


class RunState(StrEnum):
    """COMPLETE: every planned burst. PARTIAL: some failed, named in the run. UNFINISHED: only a journal."""

    COMPLETE = "complete"
    PARTIAL = "partial"
    UNFINISHED = "unfinished"
