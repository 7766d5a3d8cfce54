"""Reduce many runs with a process per CPU; each stores what it derives in the index."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence

from fleet.store.runs import Listing

MANY_RUNS = 500  # so many are worth a second of start-up for each further process
_IMPORT_DERIVE = "from fleet.analysis.reduce.numbers import derive_into_index as derive"


def derive_in_processes(listing: Listing, run_ids: Sequence[str]) -> None:
    """Derive the pairs and numbers of many runs into the index; leave damaged runs out.

    Progress goes to the listing's `note`.
    """
    count = os.cpu_count() or 1
    reading_end, writing_end = os.pipe()
    workers = []
    try:
        for part in range(count):
            own_ids = run_ids[part::count]
            workers.append(_start_worker(listing.place.address, own_ids, writing_end))
        # only the workers write, so that reading ends when the last of them does
        os.close(writing_end)
        _note_progress(listing, len(run_ids), reading_end)
    finally:
        for worker in workers:
            worker.kill()  # after an error; else it has ended
            worker.wait()


def _start_worker(
    address: str, run_ids: Sequence[str], output: int
) -> "subprocess.Popen[bytes]":
    """Start a process that runs `derive_into_index` on these runs. address: of the
    root. output: the file descriptor of its stdout, where it writes the number of runs
    of each batch.
    """
    # -P: else a module in the current folder would be taken for Python's own
    script = f"import sys; sys.path[:] = {sys.path!r}\n{_IMPORT_DERIVE}; derive()"
    command = [sys.executable, "-P", "-c", script]
    # the runs come from a file, since a pipe for stdin would have to be filled here
    with tempfile.TemporaryFile("w+") as request:
        json.dump([address, run_ids], request)
        request.seek(0)
        return subprocess.Popen(
            command, stdin=request, stdout=output, stderr=subprocess.DEVNULL
        )


def _note_progress(listing: Listing, run_count: int, input_: int) -> None:
    """Note how many runs are done until all workers end, then close `input_`. This is
    the file descriptor to read what the workers write: for each batch a line with its
    number of runs. run_count: of all workers together.
    """
    listing.note(
        f"reducing the samples of {run_count} runs to pairs; this is done once for each"
        " run"
    )
    done = 0
    with os.fdopen(input_) as runs_of_batches:
        for line in runs_of_batches:
            done += int(line)
            listing.note(f"{done} of {run_count} runs")
