"""Connects to a host, prepares it, and reconnects. A refused key is not tried again:
sshd penalises that.
"""

import logging
import random
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from fleet import errors
from fleet.agent.deploy import deploy
from fleet.agent.wire.machine import ask_topology
from fleet.errors import LinkError, PreparationError, UnreachableError
from fleet.facts.gather import ask_usage, gather
from fleet.facts.systems import find_noise
from fleet.hostnames import strip_host_name
from fleet.model import Agent, Condition, Facts, Host, Plan, Run, override_options
from fleet.plan.options import options_from_entry
from fleet.remote.connection import Connection
from fleet.session.context import SessionContext
from fleet.session.events import StageEntered
from fleet.session.host_progress import HostProgress
from fleet.store.gate import check_machine
from fleet.text import last_lines

_log = logging.getLogger(__name__)
FIRST_TRIES = 4
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 15.0
ASK_EVERY_S = 4.0
COMMAND_TIMEOUT_S = 600.0
RESTORE_S = 10.0  # after Ctrl-C: how long to try to reach the host again


def iter_retry_pauses_s() -> Iterator[float]:
    """Yield seconds before each retry: doubled up to a limit, less a random part so
    that hosts spread out.
    """
    pause = FIRST_PAUSE_S
    while True:
        yield pause * random.uniform(0.5, 1.0)  # noqa: S311 - no secret
        pause = min(2 * pause, LONGEST_PAUSE_S)


class HostLink:
    """A host, its session, its progress and, within `connect_and_prepare`, a connection
    to it.
    """

    connection: Connection

    def __init__(self, context: SessionContext, progress: HostProgress) -> None:
        self.context, self.progress, self.host = context, progress, progress.host
        # what to do where another controller measures
        self.lock = context.lock or self.host.lock
        options = override_options(options_from_entry(self.host), context.requested)
        self.benchmarks = options.benchmarks or Plan().benchmarks
        self._resources = ExitStack()

    @contextmanager
    def connect_and_prepare(self) -> Iterator[None]:
        """Connect and run the host's `before`; run `after` when the block ends. Raises
        PreparationError.
        """
        with self._resources:
            self.enter("connect")
            for tried, pause in enumerate(iter_retry_pauses_s(), 1):
                try:
                    self._connect()
                    break
                except UnreachableError as err:
                    if (
                        not err.passing or tried == FIRST_TRIES
                    ):  # passing: as with MaxStartups
                        raise
                    self.progress.note(
                        f"{err} Trying again ({tried} of {FIRST_TRIES - 1})."
                    )
                    self.context.cancellation.pause(pause)
            try:
                for command in self.host.before:
                    self.enter("before")
                    if failure := self._run_and_describe_failure(
                        self.connection, "before", command
                    ):
                        raise PreparationError(
                            f"{self.host.name}: {failure} The host is not measured."
                        )
                yield
            finally:
                if self.host.after:
                    self._run_after_command()

    def close(self) -> None:
        """Close the connection. Safe to call twice."""
        self._resources.close()

    def enter(self, stage: str, run: Run | None = None, detail: str = "") -> None:
        """Enter a stage of this host. Raises Cancelled."""
        self.context.cancellation.raise_if_requested()
        self.progress.enter(stage, run, detail)

    def gather_facts_when_ready(self) -> Facts:
        """Return the host's facts once it meets its conditions. Raises NotReadyError
        after `wait_s`.
        """
        self.enter("facts")
        facts, began, reasons = self._gather_facts(), time.monotonic(), ""
        host, context = self.host, self.context
        required = host.require if context.require is None else context.require
        wait_s = host.wait_s if context.wait_s is None else context.wait_s
        while required and (unmet := self._describe_unmet(facts, required)):
            reasons, waited_s = " ".join(unmet), time.monotonic() - began
            if waited_s >= wait_s:
                waited = f"not ready after {waited_s:.0f} s" if wait_s else "not ready"
                raise errors.NotReadyError(f"{host.name}: {waited}: {reasons}")
            self.enter("wait", detail=reasons)
            context.cancellation.pause(min(ASK_EVERY_S, wait_s - waited_s))
            facts = self._gather_facts()
        if reasons:
            self.progress.note(
                f"Ready after {time.monotonic() - began:.0f} s. Before: {reasons}"
            )
        return facts

    def deploy_agent(self, facts: Facts) -> tuple[Facts, Agent]:
        """Put an agent on the host; return the facts, with the topology the agent
        reports, and the agent.
        """
        self.enter("deploy")
        builder, notify = self.context.builder, self.progress.note
        agent = deploy(
            self.connection, self.host, facts, builder, notify, self.benchmarks
        )
        _log.info("%s: agent %s, built %s", self.host.name, agent.build, agent.place)
        return (
            require_storable(ask_topology(self.connection, agent, facts), self.host),
            agent,
        )

    def reconnect(self, lost: LinkError, deadline_s: float) -> tuple[Facts, Agent]:
        """Reconnect, with retries until `deadline_s` (monotonic); return facts, agent.
        Raises LinkError.
        """
        self.progress.note(f"{lost} Reconnecting.")
        for pause in iter_retry_pauses_s():
            self.close()
            self.context.cancellation.pause(pause)
            self.enter("reconnect")
            try:
                self._connect()
                self.enter("facts")
                return self.deploy_agent(self._gather_facts())
            except (LinkError, UnreachableError) as err:
                if time.monotonic() >= deadline_s:
                    raise LinkError(
                        f"{lost} Could not reconnect; the last attempt: {err}"
                    ) from err
        raise AssertionError("pauses never end")

    def _connect(self) -> None:
        self.connection = self._resources.enter_context(
            self.context.connection(self.host)
        )
        self.progress.note_once(*self.connection.notes)

    def _gather_facts(self) -> Facts:
        return require_storable(gather(self.connection, self.host), self.host)

    def _describe_unmet(self, facts: Facts, required: tuple[str, ...]) -> list[str]:
        """Return a sentence for each required condition that the host does not meet."""
        usage = None
        if {Condition.QUIET, Condition.NO_STEAL} & set(required):
            usage = ask_usage(self.connection, facts)
            if usage is None:
                self.progress.note_once(
                    "Whether the host is quiet is unknown: it does not tell."
                )
        return [
            finding.found
            for finding in find_noise(facts, usage)
            if finding.condition in required
        ]

    def _run_and_describe_failure(
        self, connection: Connection, stage: str, command: str
    ) -> str | None:
        """Run a command of the inventory on the host; return a sentence if it failed,
        else None.
        """
        try:
            completed = connection.run(command, timeout_s=COMMAND_TIMEOUT_S)
        except errors.TimeLimitError:
            return (
                f"`{command}` of `{stage}` was still running after"
                f" {COMMAND_TIMEOUT_S:g} s."
            )
        self.progress.log_command(stage, command, completed)
        if completed.exit_code == 0:
            return None
        output = last_lines(completed.stderr or completed.stdout)
        return (
            f"`{command}` of `{stage}` failed (exit code {completed.exit_code}):"
            f" {output}."
        )

    def _run_after_command(self) -> None:
        """Run the host's `after` over a connection of its own, since the link may be
        cut or cancelled.
        """
        host, context = self.host, self.context
        # the outcome names the stage before it
        context.emit(StageEntered(host, "after"))
        began, failures, commands = time.monotonic(), [], list(host.after)
        for pause in iter_retry_pauses_s():
            try:
                with context.connect(host) as connection:
                    while commands:
                        failures.append(
                            self._run_and_describe_failure(
                                connection, "after", commands[0]
                            )
                        )
                        del commands[0]
                break
            except errors.FleetError as err:
                patience_s = (
                    RESTORE_S
                    if context.cancellation.is_requested
                    else context.reconnect_s
                )
                is_cut = isinstance(err, LinkError | UnreachableError)
                if not is_cut or time.monotonic() - began >= patience_s:
                    reason = strip_host_name(host, str(err))
                    failures.append(
                        f"`after` did not run; do it by hand: {'; '.join(commands)}."
                        f" {reason}"
                    )
                    break
                time.sleep(pause)
        self.progress.unrestored = " ".join(filter(None, failures))


def require_storable(facts: Facts, host: Host) -> Facts:
    """Return the facts if the tables can hold them, else raise ProbeError."""
    try:
        check_machine(facts)
    except errors.DataError as err:
        raise errors.ProbeError(
            f"{host.name}: what the host reported cannot be stored: {err}. `fleet check"
            f" {host.name}` prints all it answered."
        ) from err
    return facts
