"""Imports what a scheduler's step printed (`gather.render_scheduler_step`); trusts it
no more than a host.
"""

import hashlib
import mmap
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO, NamedTuple

from fleet.agent.wire import conversation
from fleet.agent.wire.asked import check_machine
from fleet.agent.wire.conversation import LINE_LIMIT_BYTES, NO_HELLO
from fleet.agent.wire.records import WireError, list_planned_points
from fleet.errors import AgentError, UsageError
from fleet.facts.gather import STEP_BEGAN, STEP_HEAD_BYTES, parse_step_head
from fleet.hostnames import NAME
from fleet.model import Agent, Hello, Host, Plan, Run, Target, Via
from fleet.model.version import VERSION
from fleet.session.context import HostAccess
from fleet.session.events import Outcome
from fleet.session.host_progress import HostProgress
from fleet.session.link import require_storable
from fleet.session.measurement import complete_run
from fleet.session.runner import run_on_each
from fleet.store import Store, new_run_id, new_session_id, require_readable
from fleet.store.files import list_folder, open_regular, store_errors

_ENDING = re.compile(r"\.(jsonl|out|log|txt)$")


def import_step_files(
    paths: Sequence[Path], store: Store, labels: Mapping[str, str], access: HostAccess
) -> list[Outcome]:
    """Publish the run in each file, also in folders. Each file is named after its host.
    Raises UsageError.
    """
    files, session = _find_files_by_host(paths), new_session_id()

    def import_one(progress: HostProgress) -> Outcome:
        path = files[progress.host.name]
        with (
            store_errors("read what the step left", path),
            os.fdopen(open_regular(path), "rb") as stream,
        ):
            attempt = _find_last_attempt(stream, progress)
            run = _parse_run(path, stream, progress.host, attempt)
            run = replace(run, session_id=session, labels=labels)
            require_readable(run, f"{path}: cannot be imported")
            agent_start = stream.tell()
            run_so_far = conversation.read_run([_read_lines(stream, attempt.end)])
            if run_so_far.damage or run_so_far.hello is None:
                rest = " ".join(run_so_far.notes) or "nothing follows the facts"
                why = run_so_far.damage or f"{NO_HELLO}; {rest}"
                raise AgentError(f"{path}: {why}. Nothing of it was imported.")
            progress.bursts, hello = run_so_far.bursts, run_so_far.hello
            _require_machine_of_probe(path, run, hello)
            seed = hello.raw.get("seed")
            benchmarks = tuple(
                dict.fromkeys(benchmark for benchmark, *_ in list_planned_points(hello))
            )
            run = replace(
                run,
                plan=Plan(
                    benchmarks=benchmarks, seed=seed if isinstance(seed, int) else 0
                ),
                agent=replace(run.agent, build=hello.build),
            )
            run = replace(complete_run(run, run_so_far, progress), ended_utc=None)
            progress.enter("store", run)
            stream.seek(agent_start)
            store.publish(
                run,
                conversation.decode_bursts([_read_lines(stream, attempt.end)]),
                batch=True,
            )
        return progress.outcome_of_run(run)

    outcomes = run_on_each(
        [Host(name, name, Via.COMMAND) for name in files], import_one, access
    )
    store.flush()
    return outcomes


def _require_machine_of_probe(path: Path, run: Run, hello: Hello) -> None:
    try:
        check_machine(run.facts, Target(hello.os, hello.arch), hello.cpus, narrow=True)
    except WireError as err:
        raise AgentError(f"{path}: {err}. Nothing of it was imported.") from err


def _find_files_by_host(paths: Sequence[Path]) -> dict[str, Path]:
    paths_by_name: dict[str, Path] = {}
    for path in paths:
        for file in _list_files(path):
            name = _ENDING.sub("", file.name)
            if not NAME.fullmatch(name):
                raise UsageError(
                    f"{file}: no host may be called {name!r}; give the file the host's"
                    " name."
                )
            if other := paths_by_name.get(name):
                raise UsageError(
                    f"{file}: {other} also belongs to host {name}; import one at a"
                    " time."
                )
            paths_by_name[name] = file
    if not paths_by_name:
        raise UsageError(f"{', '.join(map(str, paths))}: no files there.")
    return paths_by_name


def _list_files(path: Path) -> list[Path]:
    """Return the files in a folder, or `path` itself. Raises UsageError, StoreError."""
    with store_errors("read what the steps left", path):
        if not os.path.lexists(path):
            raise UsageError(f"{path}: no such file.")
        try:
            return [path / name for name in list_folder(path)]
        except NotADirectoryError:
            return [path]


class _Attempt(NamedTuple):
    begin: int
    end: int
    sha256: str


def _find_last_attempt(stream: BinaryIO, progress: HostProgress) -> _Attempt:
    """Find the last complete attempt in a file, or else the last attempt."""
    size = os.fstat(stream.fileno()).st_size
    if not size:
        return _Attempt(0, 0, "")
    with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
        later = [start.start() for start in STEP_BEGAN.finditer(data)][1:]
        attempts = list(pairwise([0, *later, size]))
        complete = [
            attempt
            for attempt in attempts
            if data.find(b'{"record":"end"', *attempt) >= 0
        ]
        begin, end = chosen = (complete or attempts)[-1]
        with memoryview(data) as view, view[begin:end] as attempt_bytes:
            sha256 = hashlib.sha256(attempt_bytes).hexdigest()
    if (
        later
    ):  # a job that the scheduler requeued appends to the file of its first attempt
        number = attempts.index(chosen) + 1
        progress.note(
            f"The file holds {len(attempts)} attempts; number {number} is imported."
        )
    return _Attempt(begin, end, sha256)


def _parse_run(path: Path, stream: BinaryIO, host: Host, attempt: _Attempt) -> Run:
    """Parse the run from the file's head; leave the stream at the agent's first line.
    Raises ProbeError.
    """
    stream.seek(attempt.begin)
    beginning = stream.read(min(STEP_HEAD_BYTES, attempt.end - attempt.begin))
    head = parse_step_head(path, beginning, host)
    started = datetime.fromisoformat(head.started_utc)
    stream.seek(attempt.begin + head.length)
    return Run(
        run_id=f"{new_run_id(started)[:-8]}{attempt.sha256[:8]}",
        session_id="",
        host=host,
        plan=Plan(),
        facts=require_storable(head.facts, host),
        agent=Agent("", "", head.facts.target, "started by a scheduler"),
        started_utc=head.started_utc,
        fleet_version=VERSION,
    )


def _read_lines(stream: BinaryIO, end: int) -> Iterator[bytes]:
    """Yield each complete line before `end`, without its newline; an overlong line in
    pieces.
    """
    left = end - stream.tell()
    while (line := stream.readline(LINE_LIMIT_BYTES + 2)).endswith(b"\n") or len(
        line
    ) > LINE_LIMIT_BYTES:
        if (left := left - len(line)) < 0:
            return
        yield line.removesuffix(b"\n")
