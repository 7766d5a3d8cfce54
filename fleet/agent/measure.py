"""Runs a plan with an agent on a host and follows what it says, line by line, into the journal."""

import shlex
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from fleet.agent.wire.conversation import Reader
from fleet.agent.wire.done import Done
from fleet.agent.wire.records import Record, WireError
from fleet.errors import AgentError, DeployError, LockedError, RefusedError
from fleet.model import Agent, Hello, Host, PairChoice, Pairs, Plan, Run
from fleet.plan.cpulist import pairs_text
from fleet.plan.variants import for_benchmarks
from fleet.remote.connection import Connection, Stream

IDLE_TIMEOUT_S = 30.0  # the agent speaks at least every 5 s
GRACE_S = 30.0  # how long after the agent's own deadline we still listen
PUT_TIMEOUT_S = 300.0  # what is done already may be many megabytes
_NO_SUCH_COMMAND = (126, 127)
_SPEAKS = "fleet-agent: "
_POST_RUN = "@fleet-post-run-5d80c2f6@"  # the line that separates the agent's output from the command's
_POST_RUN_LINES = 1000
_REFUSED = (2, 3, 4, 5)  # the agent's exit codes for a plan that cannot be carried out there
_LOCKED = 7  # the agent's exit code where another agent measures on the machine


class LineSink(Protocol):
    """Where every line goes before anything else happens to it."""

    def append(self, line: bytes) -> None:
        """Keep the line, given without its newline. Raises StoreError if it cannot."""
        ...


@dataclass(slots=True)
class PostRunCommand:
    """A shell command that the host runs as soon as an agent has ended well, and the lines it prints.

    It costs no further round trip and shows the host as the agent left it. No lines: it did not run.
    """

    command: str
    lines: list[bytes] = field(default_factory=list)

    def receive(self, line: bytes) -> None:
        """Keep a line of the output; those beyond a limit are dropped."""
        if len(self.lines) < _POST_RUN_LINES:
            self.lines.append(line)


def agent_command(
    agent: Agent,
    plan: Plan,
    *,
    lock: str | None = None,
    done: str | None = None,
    post_run: str | None = None,
) -> str:
    """Write the sh command that runs `plan`: one process for all benchmarks and rounds.

    lock: for which run and whom the machine is locked. done: a file on the host that says what is measured
    already; it is removed afterwards. post_run: sh text for when the agent has ended well. The shell stays
    as the agent's parent, so that an agent killed by a signal is told from a lost link. The empty line first
    ends whatever a login shell may have printed without a newline.
    """
    words = [agent.path, "--format=jsonl", "--until-eof", f"--deadline={plan.deadline_s}"]
    words += [f"--{option}={value}" for option, value in _asked(plan).items() if value is not None]
    if plan.huge_page:
        words.append("--huge-page")
    if lock is not None:
        words.append(f"--lock={lock}")
    if done is not None:
        words.append(f"--done={done}")
    lines = [f"echo; {shlex.join(words)}; code=$?"]
    if done is not None:
        lines.append(f"rm -f {shlex.quote(done)}")
    if post_run is not None:
        lines.append(f"if [ $code -eq 0 ]; then echo {_POST_RUN}\n{post_run}\nfi")
    return "\n".join([*lines, "exit $code"])


def _asked(plan: Plan) -> dict[str, str | int | None]:
    """The options of the agent that have a value, the preset first, for what follows wins over it."""
    return {
        "preset": plan.preset,
        "benchmark": ",".join(plan.benchmarks),
        "variant": for_benchmarks(plan.variant, plan.benchmarks) if plan.variant is not None else None,
        "samples": plan.samples,
        "iterations": plan.iterations,
        "warmup": plan.warmup,
        "rounds": plan.rounds,
        "precision": _decimal(plan.precision) if plan.precision else "off" if plan.precision == 0 else None,
        "time-budget": _decimal(plan.time_budget_s),
        "spread": _decimal(plan.spread_s),
        "pairs": _pairs(plan.pairs),
        "order": plan.order,
        "line": plan.line,
        "owner": plan.owner,
        "node": plan.node,
        "sep": plan.separation_bytes,
        "governor": plan.governor,
        "boost": None if plan.boost is None else "on" if plan.boost else "off",
        "cpus": ",".join(map(str, plan.cpus)) if plan.cpus is not None else None,
        "seed": plan.seed,
        "priority": plan.priority,
    }


def _pairs(choice: PairChoice | None) -> str | None:
    if choice is None:
        return None
    if choice.listed:
        return pairs_text(choice.listed)
    return "ordered" if choice.which is Pairs.ORDERED else "half"


def _decimal(value: float | None) -> str | None:
    """A number as the agent reads it: digits and a point, never an exponent."""
    return None if value is None else f"{value:.6f}".rstrip("0").rstrip(".")


def measure(
    connection: Connection,
    run: Run,
    journal: LineSink,
    started: Callable[[Stream], None],
    heard: Callable[[Record, Reader], None],
    done: Done,
    lock: str | None = None,
    post_run: PostRunCommand | None = None,
) -> Reader:
    """Carry out what `done` lacks of `run.plan` and return what was heard; AgentError if it ended badly.

    Every line is in the journal before it is read. started: receives the stream, so that another thread
    may stop it. heard: called after each record. post_run: filled in if the agent ends well. LockedError:
    another agent measures there. LinkError and StoreError pass through.
    """
    host, agent, plan = run.host, run.agent, run.plan
    reader = Reader(done)
    give_up = time.monotonic() + plan.deadline_s + GRACE_S
    put = _put_done(connection, run, done)
    command = agent_command(agent, plan, lock=lock, done=put, post_run=post_run.command if post_run else None)
    with connection.stream(command, idle_timeout_s=IDLE_TIMEOUT_S) as stream:
        started(stream)
        speaking = True
        for line in stream:
            if not speaking and post_run:
                post_run.receive(line)
            elif line == _POST_RUN.encode() and reader.end is not None:
                speaking = False
            else:
                journal.append(line)
                _take(host, agent, reader, line, heard)
            if time.monotonic() > give_up:
                raise AgentError(
                    f"{host.name}: the agent went on past its deadline of {plan.deadline_s} s; stopped."
                )
    if reader.hello is None and stream.exit_code == _LOCKED:
        raise LockedError(f"{host.name}: {_words(stream).removeprefix(_SPEAKS)}")
    if reader.hello is None and stream.exit_code in _REFUSED and _words(stream).startswith(_SPEAKS):
        raise RefusedError(f"{host.name}: {_words(stream)}")
    why = reader.verdict()
    if why is not None:
        raise AgentError(_ended_badly(host, agent, stream, reader, why))
    return reader


def _put_done(connection: Connection, run: Run, done: Done) -> str | None:
    """Tell the host what is done already, in a file beside the agent; return its path, None for nothing."""
    if not done:
        return None
    path = f"{run.agent.path.rpartition('/')[0]}/fleet-done-{run.run_id}"
    put = connection.put("".join(done.lines()).encode(), path, timeout_s=PUT_TIMEOUT_S)
    if put.exit_code != 0:
        said = put.stderr.decode("utf-8", "replace").strip()
        raise DeployError(f"{run.host.name}: cannot write {path} (exit code {put.exit_code}): {said}")
    return path


def _take(
    host: Host, agent: Agent, reader: Reader, line: bytes, heard: Callable[[Record, Reader], None]
) -> None:
    said_hello = reader.hello is not None
    try:
        record = reader.feed(line)
    except WireError as err:
        raise AgentError(
            f"{host.name}: the agent's output cannot be trusted: {err}. What arrived is kept in the journal."
        ) from err
    if record is None:
        return
    if not said_hello and reader.hello is not None:
        _check_build(host, agent, reader.hello)
    heard(record, reader)


def _check_build(host: Host, agent: Agent, hello: Hello) -> None:
    if hello.build != agent.build:
        raise AgentError(
            f"{host.name}: {agent.path} is build {hello.build}, but {agent.build} was put there. "
            f"Somebody replaced it; look at it, then remove it: rm {shlex.quote(agent.path)}"
        )


def _words(stream: Stream) -> str:
    return stream.stderr.decode("utf-8", "replace").strip()


def _ended_badly(host: Host, agent: Agent, stream: Stream, reader: Reader, why: str) -> str:
    said = _words(stream)
    if reader.hello is None and said.startswith(_SPEAKS):
        return f"{host.name}: {said}"
    if reader.hello is None and stream.exit_code in _NO_SUCH_COMMAND:
        return (
            f"{host.name}: {agent.path} cannot be started there (exit code {stream.exit_code}): {said} "
            "Run again; if it stays so, something on the host removes or forbids files there: set `workdir`."
        )
    code = stream.exit_code
    died = f"killed by signal {code - 128}" if code is not None and code > 128 else f"exit code {code}"
    return f"{host.name}: the run is not complete: {why} ({died}).{' It said: ' + said if said else ''}"
