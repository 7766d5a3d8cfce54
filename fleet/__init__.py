"""Measure core-to-core latency on a fleet of machines over SSH, and keep the raw samples.

In a notebook: `import fleet`, then `fleet.open("results")` (docs/reading.md).
"""

from pathlib import Path
from typing import TYPE_CHECKING

from fleet.model.version import VERSION

if TYPE_CHECKING:
    from fleet.analysis.results import Results

__version__ = VERSION


def open(root: str | Path = "results") -> "Results":  # noqa: A001  as in `fleet.open`
    """The runs of a results root, a folder or s3://bucket/prefix, as frames and plots; read when used."""
    from fleet.analysis.results import Results  # noqa: PLC0415  pandas takes a second

    return Results(root)
