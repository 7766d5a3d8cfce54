"""Reduce many runs with a process per CPU; each stores what it derives in the index."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import Any

from fleet.store.runs import Listing

MANY_RUNS = 500  # so many are worth a second of start-up for each further process
_DERIVE = "from fleet.analysis.reduce.numbers import derive_into_index as derive"


def derive_in_processes(listing: Listing, run_ids: Sequence[str]) -> None:
    """Derive the pairs and numbers of many runs into the index; leave damaged runs out.

    Progress goes to the listing's `note`.
    """
    # -P: else a module in the current folder would be taken for Python's own
    script = f"import sys; sys.path[:] = {sys.path!r}\n{_DERIVE}; derive()"
    command = [sys.executable, "-P", "-c", script]
    count = os.cpu_count() or 1
    reading_end, writing_end = os.pipe()
    workers = []
    try:
        for part in range(count):
            with tempfile.TemporaryFile("w+") as request:
                json.dump([listing.place.address, run_ids[part::count]], request)
                request.seek(0)
                streams: Any = {
                    "stdin": request,
                    "stdout": writing_end,
                    "stderr": subprocess.DEVNULL,
                }
                workers.append(subprocess.Popen(command, **streams))
        os.close(writing_end)
        done = 0
        listing.note(
            f"reducing the samples of {len(run_ids)} runs to pairs; this is done once"
            " for each run"
        )
        with os.fdopen(reading_end) as counts:
            for line in counts:
                done += int(line)
                listing.note(f"{done} of {len(run_ids)} runs")
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
