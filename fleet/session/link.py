"""Connects to a host, prepares it, and reconnects. A refused key is not tried again:
sshd penalises that.
"""

import logging
import random
import time
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager

from fleet import errors
from fleet.agent.deploy import deploy
from fleet.agent.wire.machine import ask_topology
from fleet.errors import LinkError, PreparationError, UnreachableError
from fleet.facts.gather import ask_usage, gather
from fleet.facts.systems import find_noise, list_unknown
from fleet.hostnames import strip_host_name
from fleet.model import Agent, Condition, Facts, Host, Plan, Run
from fleet.plan.options import options_for_host
from fleet.remote.connection import Connection
from fleet.session.context import SessionContext
from fleet.session.events import StageEntered
from fleet.session.host_progress import HostProgress
from fleet.store.gate import check_machine
from fleet.text import last_lines

_log = logging.getLogger(__name__)
FIRST_TRIES = 4
FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 15.0
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
        self.context = context
        self.progress = progress
        self.host = progress.host
        # what to do if another fleet measures on the machine
        self.lock = context.lock or self.host.lock
        options = options_for_host(self.host, context.requested)
        self.benchmarks = options.benchmarks or Plan().benchmarks  # for the agent
        self._opened = ExitStack()  # closes the connection

    @contextmanager
    def connect_and_prepare(self) -> Iterator[None]:
        """Connect and run the host's `before`; run `after` when the block ends. Raises
        PreparationError.
        """
        with closing(self):
            self._connect_with_retries()
            try:
                self._run_before_commands()
                yield
            finally:
                if self.host.after:
                    self._run_after_commands()

    def close(self) -> None:
        """Close the connection. Safe to call twice."""
        self._opened.close()

    def enter(self, stage: str, run: Run | None = None, detail: str = "") -> None:
        """Enter a stage of this host. Raises Cancelled."""
        self.context.cancellation.raise_if_requested()
        self.progress.enter(stage, run, detail)

    def gather_facts_when_ready(self) -> Facts:
        """Return the host's facts once it meets the required conditions. Raises
        NotReadyError if it does not within `wait_s`.
        """
        self.enter("facts")
        facts = self._gather_facts()
        required = self.context.require
        if required is None:
            required = self.host.require
        return self._wait_until_met(required, facts) if required else facts

    def _wait_until_met(self, required: tuple[str, ...], facts: Facts) -> Facts:
        """Wait until the host meets the conditions; return its facts by then."""
        wait_s = self.context.wait_s
        if wait_s is None:
            wait_s = self.host.wait_s
        began = time.monotonic()
        reasons = ""
        while unmet := self._describe_unmet(facts, required):
            reasons = " ".join(unmet)
            waited_s = time.monotonic() - began
            if waited_s >= wait_s:
                waited = f"not ready after {waited_s:.0f} s" if wait_s else "not ready"
                raise errors.NotReadyError(f"{self.host.name}: {waited}: {reasons}")
            self.enter("wait", detail=reasons)
            self.context.cancellation.pause(min(ASK_EVERY_S, wait_s - waited_s))
            facts = self._gather_facts()
        if reasons:
            waited_s = time.monotonic() - began
            self.progress.note(f"Ready after {waited_s:.0f} s. Before: {reasons}")
        return facts

    def deploy_agent(self, facts: Facts) -> tuple[Facts, Agent]:
        """Put an agent on the host; return the facts, with the topology the agent
        reports, and the agent.
        """
        self.enter("deploy")
        agent = deploy(
            self.connection,
            self.host,
            facts,
            self.context.builder,
            self.progress.note,
            self.benchmarks,
        )
        _log.info("%s: agent %s, built %s", self.host.name, agent.build, agent.place)
        facts = ask_topology(self.connection, agent, facts)
        return require_storable(facts, self.host), agent

    def reconnect(self, lost: LinkError, deadline_s: float) -> tuple[Facts, Agent]:
        """Reconnect, with retries until `deadline_s` (monotonic); return facts, agent.
        Raises LinkError.
        """
        self.progress.note(f"{lost} Reconnecting.")
        pauses_s = iter_retry_pauses_s()
        while True:
            self.close()
            self.context.cancellation.pause(next(pauses_s))
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

    def _connect_with_retries(self) -> None:
        """Connect; after an error that may pass, try again, up to FIRST_TRIES times."""
        self.enter("connect")
        for tried, pause_s in enumerate(iter_retry_pauses_s(), 1):
            try:
                self._connect()
            except UnreachableError as err:
                # the error may pass if too many connect at once (MaxStartups of sshd)
                if not err.is_transient or tried == FIRST_TRIES:
                    raise
                self.progress.note(
                    f"{err} Trying again ({tried} of {FIRST_TRIES - 1})."
                )
                self.context.cancellation.pause(pause_s)
            else:
                return

    def _connect(self) -> None:
        """Open a connection, which `close` will close."""
        self._opened = ExitStack()
        self.connection = self._opened.enter_context(self.context.connection(self.host))
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
        unknown = list_unknown(facts) & set(required)
        if unknown:
            names = ", ".join(sorted(unknown))
            self.progress.note_once(f"Required, but not known of the host: {names}.")
        return [
            finding.found
            for finding in find_noise(facts, usage)
            if finding.condition in required
        ]

    def _run_before_commands(self) -> None:
        """Run the host's `before`. Raises PreparationError if a command fails.

        Ctrl-C cuts the connection at once: unlike an agent, a command has nothing to
        finish.
        """
        for command in self.host.before:
            self.enter("before", detail=command)
            with self.context.cancellation.call_on_request(self.connection.close):
                failure = self._run_and_describe_failure(
                    self.connection, "before", command
                )
            if failure is not None:
                raise PreparationError(
                    f"{self.host.name}: {failure} The host is not measured."
                )

    def _run_after_commands(self) -> None:
        """Run the host's `after` over connections of their own, since the link may be
        cut or cancelled. Leave what failed to the outcome.
        """
        # not by `progress.enter`: the outcome names the stage before `after`
        self.context.emit(StageEntered(self.host, "after"))
        began = time.monotonic()
        pauses_s = iter_retry_pauses_s()
        commands_left = deque(self.host.after)
        failures: list[str] = []
        while commands_left:
            try:
                with self.context.connect(self.host) as connection:
                    self._run_and_remove_commands(connection, commands_left, failures)
            except errors.FleetError as err:
                if not self._is_worth_another_connection(err, time.monotonic() - began):
                    not_run = "; ".join(commands_left)
                    reason = strip_host_name(self.host, str(err))
                    failures.append(
                        f"`after` did not run; do it by hand: {not_run}. {reason}"
                    )
                    break
                time.sleep(next(pauses_s))
        self.progress.failures_of_after = " ".join(failures)

    def _run_and_remove_commands(
        self, connection: Connection, commands_left: deque[str], failures: list[str]
    ) -> None:
        """Run commands of `after`; remove each from `commands_left` once it has ended,
        and add a sentence on each that failed to `failures`. A command that the link
        cuts off stays, so that it is run again.
        """
        while commands_left:
            command = commands_left[0]
            failure = self._run_and_describe_failure(connection, "after", command)
            commands_left.popleft()
            if failure is not None:
                failures.append(failure)

    def _is_worth_another_connection(
        self, err: errors.FleetError, elapsed_s: float
    ) -> bool:
        """Report whether the commands of `after` may yet run: the link broke, and there
        is time.
        """
        patience_s = self.context.reconnect_s
        if self.context.cancellation.is_requested:
            patience_s = RESTORE_S
        is_cut = isinstance(err, LinkError | UnreachableError)
        return is_cut and elapsed_s < patience_s

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
