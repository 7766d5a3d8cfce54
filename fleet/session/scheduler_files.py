"""Imports what a scheduler's step printed (`gather.render_scheduler_step`); trusts it
no more than a host.
"""

import hashlib
import mmap
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO

from fleet.agent.wire.asked import check_machine
from fleet.agent.wire.conversation import LINE_LIMIT_BYTES, NO_HELLO
from fleet.agent.wire.parts import RunSoFar, decode_bursts, read_run
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
from fleet.store import Listing, Store, new_run_id, new_session_id, require_readable
from fleet.store.files import list_folder, open_regular, store_errors

_ENDING = re.compile(r"\.(jsonl|out|log|txt)$")


def import_step_files(
    paths: Sequence[Path], store: Store, labels: Mapping[str, str], access: HostAccess
) -> list[Outcome]:
    """Publish the run in each file, also of folders among `paths`; return the outcomes.
    A file is what one step of a scheduler's job printed, and is named after its host. A
    run that another host has already, stored or in another file, is refused. Raises
    UsageError.
    """
    files = _find_files_by_host(paths)
    session_id = new_session_id()
    stored_runs = Listing(store.place).stamps.keys()  # (host ID, run ID)
    hosts_by_run = {run_id: host_id for host_id, run_id in stored_runs}

    def import_one(progress: HostProgress) -> Outcome:
        path = files[progress.host.name]
        with (
            store_errors("read what the step left", path),
            os.fdopen(open_regular(path), "rb") as stream,
        ):
            attempt = _find_last_attempt(path, stream, progress)
            run = _parse_run(attempt, progress.host)
            run = replace(run, session_id=session_id, labels=labels)
            _claim_run(run, hosts_by_run, path)
            require_readable(run, f"{path}: cannot be imported")
            stored = _store_run(attempt, run, progress, store)
        return progress.outcome_of_run(stored)

    hosts = [Host(name, name, Via.COMMAND) for name in files]
    outcomes = run_on_each(hosts, import_one, access)
    store.flush()
    return outcomes


def _claim_run(run: Run, hosts_by_run: dict[str, str], path: Path) -> None:
    """Note in `hosts_by_run` that a run belongs to its host. Raises UsageError if it
    belongs to another host, stored or just imported by another thread.
    """
    # one step of the dict: of several threads with the same run, the first has it
    owner = hosts_by_run.setdefault(run.run_id, run.host.host_id)
    if owner != run.host.host_id:
        raise UsageError(
            f"{path}: holds the run of another file, and is stored already, as {owner}."
        )


@dataclass(frozen=True, slots=True)
class _Attempt:
    """The part of a step's file that is imported: the output of one attempt."""

    path: Path
    stream: BinaryIO
    begin: int
    end: int
    sha256: str  # of the part

    def read_lines(self) -> Iterator[bytes]:
        """Yield each line of the part, from the stream's position on, without its
        newline. Stop at a line without a newline, which was cut off. An overlong line
        comes in pieces, which the reader of the lines refuses.
        """
        bytes_left = self.end - self.stream.tell()
        longest_line = LINE_LIMIT_BYTES + 1  # with its newline
        longest_piece = longest_line + 1  # one byte more shows an overlong line
        while True:
            line = self.stream.readline(longest_piece)
            is_whole = line.endswith(b"\n")
            text = line.removesuffix(b"\n")
            is_overlong = len(text) > LINE_LIMIT_BYTES
            bytes_left -= len(line)
            is_beyond_part = bytes_left < 0
            if is_beyond_part or not (is_whole or is_overlong):
                return
            yield text


def _store_run(
    attempt: _Attempt, run: Run, progress: HostProgress, store: Store
) -> Run:
    """Store a run whose agent's lines follow in the stream; return it as it is stored.
    Raises AgentError.

    Read the lines twice: once for the run's record, and then for its bursts, which may
    not fit in memory.
    """
    agent_start = attempt.stream.tell()
    run_so_far = read_run([attempt.read_lines()])
    hello = run_so_far.hello
    if run_so_far.damage:
        raise _make_error(attempt.path, run_so_far.damage)
    if hello is None:
        raise _make_error(attempt.path, _explain_lack_of_hello(run_so_far))
    progress.bursts = run_so_far.bursts
    _require_machine_of_probe(attempt.path, run, hello)
    agent = replace(run.agent, build=hello.build)
    run = replace(run, plan=_read_plan(hello), agent=agent)
    run = complete_run(run, run_so_far, progress)
    run = replace(run, ended_utc=None)  # the file does not say when it ended
    progress.enter("store", run)
    attempt.stream.seek(agent_start)
    bursts = decode_bursts([attempt.read_lines()])
    store.publish(run, bursts, batch=True)
    return run


def _make_error(path: Path, why: str) -> AgentError:
    return AgentError(f"{path}: {why}. Nothing of it was imported.")


def _explain_lack_of_hello(run_so_far: RunSoFar) -> str:
    """Say that the agent's first record is not there, and what is there instead."""
    notes = " ".join(run_so_far.notes) or "nothing follows the facts"
    return f"{NO_HELLO}; {notes}"


def _read_plan(hello: Hello) -> Plan:
    """Return what the agent's first record says of the plan: its benchmarks, and its
    seed, or 0 if there is none.
    """
    points = list_planned_points(hello)
    benchmarks = [benchmark for benchmark, _, _ in points]
    distinct_benchmarks = dict.fromkeys(benchmarks)
    seed = hello.raw.get("seed")
    if not isinstance(seed, int):
        seed = 0
    return Plan(benchmarks=tuple(distinct_benchmarks), seed=seed)


def _require_machine_of_probe(path: Path, run: Run, hello: Hello) -> None:
    try:
        check_machine(run.facts, Target(hello.os, hello.arch), hello.cpus, narrow=True)
    except WireError as err:
        raise _make_error(path, str(err)) from err


def _find_files_by_host(paths: Sequence[Path]) -> dict[str, Path]:
    """Return the file of each host, by the host's name: "node7.jsonl" -> "node7". Of a
    folder among `paths`, take all files. Raises UsageError if two files have one host,
    if a name cannot be a host's, and without files.
    """
    paths_by_name: dict[str, Path] = {}
    for path in paths:
        for file in _list_files(path):
            name = _ENDING.sub("", file.name)
            if not NAME.fullmatch(name):
                raise UsageError(
                    f"{file}: no host may be called {name!r}; give the file the host's"
                    " name."
                )
            if name in paths_by_name:
                raise UsageError(
                    f"{file}: {paths_by_name[name]} also belongs to host {name}; import"
                    " one at a time."
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


def _find_last_attempt(
    path: Path, stream: BinaryIO, progress: HostProgress
) -> _Attempt:
    """Find the last complete attempt in a file, or else the last attempt. If there are
    several, note which one it is. A scheduler that starts a step again appends to its
    file; an attempt is complete if the agent's last record, `end`, is in it.
    """
    is_empty = not os.fstat(stream.fileno()).st_size  # which mmap would refuse
    if is_empty:
        return _Attempt(path, stream, 0, 0, "")
    with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
        attempts = _list_attempts(data)
        complete = [span for span in attempts if _has_end_record(data, *span)]
        begin, end = (complete or attempts)[-1]
        with memoryview(data) as view, view[begin:end] as attempt_bytes:
            sha256 = hashlib.sha256(attempt_bytes).hexdigest()
    if len(attempts) > 1:
        number = attempts.index((begin, end)) + 1
        progress.note(
            f"The file holds {len(attempts)} attempts; number {number} is imported."
        )
    return _Attempt(path, stream, begin, end, sha256)


def _has_end_record(data: mmap.mmap, begin: int, end: int) -> bool:
    """Report whether the agent's last record is in a part of a file."""
    return data.find(b'{"record":"end"', begin, end) >= 0


def _list_attempts(data: mmap.mmap) -> list[tuple[int, int]]:
    """Return where each attempt begins and ends. A job that the scheduler requeued
    appends to the file of its first attempt.
    """
    begins = [match.start() for match in STEP_BEGAN.finditer(data)]
    later_begins = begins[1:]  # the first has what was printed before it, too
    return list(pairwise([0, *later_begins, len(data)]))


def _parse_run(attempt: _Attempt, host: Host) -> Run:
    """Parse the run from the file's head; leave the stream at the agent's first line.
    The session, the plan and the agent's build are not in the head: they are empty
    here, for the caller to fill in. Raises ProbeError.
    """
    attempt.stream.seek(attempt.begin)
    head_bytes = min(STEP_HEAD_BYTES, attempt.end - attempt.begin)
    beginning = attempt.stream.read(head_bytes)
    head = parse_step_head(attempt.path, beginning, host)
    attempt.stream.seek(attempt.begin + head.length)
    return Run(
        run_id=_derive_run_id(head.started_utc, attempt.sha256),
        session_id="",
        host=host,
        plan=Plan(),
        facts=require_storable(head.facts, host),
        agent=Agent("", "", head.facts.target, "started by a scheduler"),
        started_utc=head.started_utc,
        fleet_version=VERSION,
    )


def _derive_run_id(started_utc: str, sha256: str) -> str:
    """Derive the run ID of an attempt from its content, so that a file that is imported
    again gives the same run. sha256: of the attempt; it takes the place of the last
    eight digits of a run ID, which are random.
    """
    started = datetime.fromisoformat(started_utc)
    time_of_run = new_run_id(started)[:-8]
    return f"{time_of_run}{sha256[:8]}"
