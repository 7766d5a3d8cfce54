"""Runs a plan with an agent on a host and appends every line of its output to the
journal.
"""

import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from fleet.agent.wire.conversation import Reader
from fleet.agent.wire.done import Done
from fleet.agent.wire.parts import RunSoFar
from fleet.agent.wire.records import (
    PREFIX,
    REFUSED,
    Int64,
    Record,
    WireError,
    decode_line,
)
from fleet.errors import AgentError, DeployError, FleetError, LockedError, RefusedError
from fleet.model import Agent, Hello, Plan, Run
from fleet.plan.options import agent_arguments
from fleet.remote.connection import Connection
from fleet.remote.output import Stream
from fleet.store import Journal
from fleet.text import last_lines

IDLE_TIMEOUT_S = 30.0  # the agent sends a record at least every 5 s
GRACE_S = 30.0  # how long after the agent's own deadline we still listen
PUT_TIMEOUT_S = 300.0  # the list of done visits may be many megabytes
_NO_SUCH_COMMAND = (126, 127)  # a shell's exit codes
ASK_TIMEOUT_S = 60.0  # the host is short of memory, perhaps
# a shell's exit code of a program that a signal ended is this and the signal's number
_SIGNAL_BASE = 128
_CUT = 6  # the agent's exit code where it ended before the plan was done
_LOCKED = 7  # the agent's exit code where another agent measures on the machine


def agent_command(
    agent: Agent, plan: Plan, *, lock: str | None = None, done_path: str | None = None
) -> str:
    """Return the sh command that runs `plan`. Its `echo` ends a line that a login shell
    may have begun.

    lock: the run and user that lock the machine. done_path: the file on the host that
    lists the done visits, removed afterwards.
    """
    words = [agent.path, "--format=jsonl", "--until-eof", *agent_arguments(plan)]
    if lock is not None:
        words.append(f"--lock={lock}")
    if done_path is not None:
        words.append(f"--done={done_path}")
    lines = [f"echo; {shlex.join(words)}; code=$?"]
    if done_path is not None:
        lines.append(f"rm -f {shlex.quote(done_path)}")
    return "\n".join([*lines, "exit $code"])


def measure(
    connection: Connection,
    run: Run,
    run_so_far: RunSoFar,
    journal: Journal,
    on_start: Callable[[Stream], None],
    on_record: Callable[[Record, Reader], None],
    lock: str | None = None,
) -> RunSoFar:
    """Measure the visits of `run.plan` that `run_so_far` lacks; return the whole run.
    Append each line to the journal before it is read.

    If a signal killed the agent, its visit is recorded as failed and the run returned
    is unfinished. on_start receives the stream so that another thread can stop it.
    Raises AgentError if the agent ended badly, LockedError, RefusedError if nothing was
    measured before, LinkError and StoreError.
    """
    started_s = read_clock_s()

    def measure_elapsed_s() -> float:
        return read_clock_s() - started_s

    reader = Reader(run_so_far.done, run_so_far.hello, run, measure_elapsed_s)
    done_path = _send_done_visits(connection, run, run_so_far.done)
    command = agent_command(run.agent, run.plan, lock=lock, done_path=done_path)
    limit_s = run.plan.deadline_s + GRACE_S
    with connection.stream(
        command, idle_timeout_s=IDLE_TIMEOUT_S, limit_s=limit_s
    ) as stream:
        on_start(stream)
        for line in _iter_untorn_lines(stream):
            journal.append(line)
            record = _read_line(run, reader, line)
            if record is not None:
                on_record(record, reader)
    was_visit_killed = _record_killed_visit(connection, run, reader, stream, journal)
    if was_visit_killed:
        # unfinished, but no error: a further agent measures the other visits
        return run_so_far.add_part(reader)
    _record_unexpected_exit(run, reader, stream, journal)
    why = reader.explain_unfinished()
    if why is not None:
        raise _make_error(run, run_so_far, reader, stream, why)
    return run_so_far.add_part(reader)


def _record_killed_visit(
    connection: Connection, run: Run, reader: Reader, stream: Stream, journal: Journal
) -> bool:
    """Record the visit that a signal ended as failed; return whether one was ended."""
    if reader.visit_line is None or not _is_killed(stream):
        return False
    answer = ask_about_kill(connection, run.agent, stream)
    failed = make_failed_record_after_kill(reader, answer)
    if failed is None:
        return False
    journal.append(failed)
    _read_line(run, reader, failed)
    return True


def _record_unexpected_exit(
    run: Run, reader: Reader, stream: Stream, journal: Journal
) -> None:
    """Record an exit code that contradicts the agent's end record. The code is 0 if the
    plan was done, and _CUT if the agent ended before; None if it is not known.
    """
    if reader.end is None or stream.exit_code is None:
        return
    expected_code = 0 if reader.end.reason == "done" else _CUT
    if stream.exit_code != expected_code:
        exit_record = b'{"record":"exit","code":%d}' % stream.exit_code
        journal.append(exit_record)
        _read_line(run, reader, exit_record)


def _iter_untorn_lines(stream: Stream) -> Iterator[bytes]:
    """Yield the agent's lines, but not an incomplete last record if a signal ended the
    agent. Such a record is held back until the stream ends, which shows the signal.
    """
    held_back = None
    for line in stream:
        if held_back is not None:
            yield held_back
            held_back = None
        if line.startswith(b'{"record":"') and not line.endswith(b"}"):
            held_back = line
        else:
            yield line
    if held_back is not None and not _is_killed(stream):
        yield held_back


def _is_killed(stream: Stream) -> bool:
    return stream.exit_code is not None and stream.exit_code > _SIGNAL_BASE


def ask_about_kill(
    connection: Connection, agent: Agent, stream: Stream
) -> Sequence[bytes]:
    """Return lines: the name of the signal that ended the stream's agent, such as KILL,
    and what `--machine` prints now.
    """
    number = (stream.exit_code or 0) - _SIGNAL_BASE
    command = f"kill -l {number}; {shlex.quote(agent.path)} --machine </dev/null"
    return connection.run(command, timeout_s=ASK_TIMEOUT_S).stdout.splitlines()


def _send_done_visits(connection: Connection, run: Run, done: Done) -> str | None:
    """Write the done visits to a file beside the agent and return its path; return None
    if no visits are done. Raises DeployError.
    """
    if not done.visits:
        return None
    path = f"{run.agent.path.rpartition('/')[0]}/fleet-done-{run.run_id}"
    put = connection.put("".join(done.lines()).encode(), path, timeout_s=PUT_TIMEOUT_S)
    if put.exit_code != 0:
        why = (
            f"(exit code {put.exit_code}): {last_lines(put.stderr)}. Free some space,"
            " or set `workdir`."
        )
        raise DeployError(f"{run.host.name}: cannot write {path} {why}")
    return path


def read_clock_s() -> float:
    """Read a clock that also runs while this machine sleeps, where there is one."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def _read_line(run: Run, reader: Reader, line: bytes) -> Record | None:
    """Let the reader read the agent's next line. Raises AgentError for what the wire
    does not allow.
    """
    try:
        return reader.read_line(line)
    except WireError as err:
        raise AgentError(
            f"{run.host.name}: the agent's output cannot be trusted: {err}. The journal"
            " keeps all of it."
        ) from err


def _make_error(
    run: Run, run_so_far: RunSoFar, reader: Reader, stream: Stream, why: str
) -> FleetError:
    """Return the error of an agent that did not start, or ended badly."""
    code = stream.exit_code
    message = ""
    if stream.stderr.strip():
        message = last_lines(stream.stderr)
    if reader.hello is None:
        error = _explain_no_start(run, run_so_far, code, message)
        if error is not None:
            return error
    ending = f"exit code {code}"
    if code is not None and code > _SIGNAL_BASE:
        ending = f"killed by signal {code - _SIGNAL_BASE}"
    text = f"{run.host.name}: the run is not complete: {why} ({ending})."
    if message:
        text += f" stderr: {message.rstrip('.')}."
    return AgentError(text)


def _explain_no_start(
    run: Run, run_so_far: RunSoFar, code: int | None, message: str
) -> FleetError | None:
    """Return the error of an agent that ended before its hello, if its exit code or its
    words say why; else None. message: from stderr; the agent's own begins by PREFIX.
    """
    name = run.host.name
    # the message says which other agent holds the machine's lock
    if code == _LOCKED:
        return LockedError(f"{name}: {message.removeprefix(PREFIX)}")
    if message.startswith(PREFIX):
        if code not in REFUSED:
            return AgentError(f"{name}: {message}")
        # an agent refuses a plan that the host cannot measure
        if not run_so_far.done.visits:
            return RefusedError(f"{name}: {message}")
        # an earlier agent took the plan, so the plan is not at fault: the user may try
        # again
        return AgentError(
            f"{name}: {message}. If it happens again, `fleet resume --publish-partial`"
            " stores what was measured."
        )
    if code in _NO_SUCH_COMMAND:
        return AgentError(
            f"{name}: {run.agent.path} cannot be started there (exit code {code}):"
            f" {message} Run again; if that fails, something on the host removes or"
            " forbids files there: set `workdir`."
        )
    return None


SIGNALS_OF_INSTRUCTIONS = ("ILL", "SEGV", "FPE", "ABRT", "SYS", "TRAP")
"""Signals that instructions or the agent itself bring about: all visits of the variant
would end so. KILL and BUS come from elsewhere.
"""


class _Machine(Struct):
    memory_limit: Annotated[str, Meta(max_length=200)] | None = None
    memory_kills: Int64 | None = None


_MACHINE = msgspec.json.Decoder(_Machine)


def make_failed_record_after_kill(
    reader: Reader, output: Sequence[bytes]
) -> bytes | None:
    """Return a `failed` record for the visit that a signal ended; None if no visit was
    in progress, or if the signal says nothing of it. `given_up` in the record says what
    later agents leave out: the variant, the point, or whatever needs as much memory.
    output: from `ask_about_kill`. If the OS's kills are unknown, memory is blamed.
    """
    if reader.hello is None or reader.visit_line is None or not output:
        return None
    signal_name = output[0].decode("ascii", "replace")
    machine = _read_machine(output[1:])
    oom_kills = _count_memory_kills(reader.hello, machine)
    if signal_name in SIGNALS_OF_INSTRUCTIONS:
        reason = f"by SIG{signal_name}"
        given_up = "variant"
    elif signal_name == "KILL" and oom_kills == 0:
        reason = "by SIGKILL"
        given_up = "point"
    elif signal_name in ("KILL", "BUS"):
        reason = _explain_lack_of_memory(signal_name, oom_kills, machine)
        given_up = "memory"
    else:
        return None
    # the `alive` record names the visit by the same keys as a `failed` record
    failed = msgspec.json.decode(reader.visit_line)
    failed["record"] = "failed"
    failed["reason"] = f"the agent was killed {reason}"
    failed["given_up"] = given_up
    return msgspec.json.encode(failed)


def _explain_lack_of_memory(
    signal_name: str, oom_kills: int | None, machine: _Machine
) -> str:
    """Say what ended an agent that may have lacked memory. oom_kills: how many programs
    the OS has killed for that meanwhile; None if unknown.
    """
    if signal_name != "KILL" or oom_kills is None:
        return f"by SIG{signal_name} (for lack of memory?)"
    limit = f"; {machine.memory_limit}" if machine.memory_limit else ""
    return f"for lack of memory (oom_kill {oom_kills}{limit})"


def _read_machine(lines: Sequence[bytes]) -> _Machine:
    """Read what `--machine` printed; return a record without values on failure."""
    if not lines:
        return _Machine()
    try:
        return decode_line(_MACHINE, lines[0])
    except WireError:
        return _Machine()


def _count_memory_kills(hello: Hello, machine: _Machine) -> int | None:
    """Count what the OS killed for lack of memory since the hello; None if unknown."""
    before = hello.raw.get("memory_kills")
    if not isinstance(before, int) or machine.memory_kills is None:
        return None
    return machine.memory_kills - before
