"""Prepares a host by its inventory's commands, and waits until it meets its conditions."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from fleet.errors import (
    FleetError,
    LinkError,
    NotReadyError,
    PreparationError,
    TimeLimitError,
    UnreachableError,
)
from fleet.facts.gather import ask_usage
from fleet.facts.systems import find_noise
from fleet.hostnames import strip_host_name
from fleet.model import Condition, Facts
from fleet.remote.connection import Connection
from fleet.session.link import HostLink, retry_pauses_s
from fleet.text import last_lines

ASK_EVERY_S = 4.0
COMMAND_TIMEOUT_S = 600.0
RESTORE_S = 10.0  # after Ctrl-C: how long to try to reach the host again


@contextmanager
def prepare_host(link: HostLink) -> Iterator[None]:
    """Run the host's `before`, and its `after` when the block ends, however. Raises PreparationError."""
    try:
        for command in link.host.before:
            link.enter("before")
            if failure := _run_command(link, link.connection, "before", command):
                raise PreparationError(f"{link.host.name}: {failure} The host is not measured.")
        yield
    finally:
        if link.host.after:
            _restore_host(link)


def gather_ready_facts(link: HostLink) -> Facts:
    """Gather the facts of a host once it meets its conditions. Raises NotReadyError after its wait."""
    facts, began, reasons = link.gather_facts(), time.monotonic(), ""
    context, host = link.context, link.host
    required = host.require if context.require is None else context.require
    wait_s = host.wait_s if context.wait_s is None else context.wait_s
    while unmet := _find_unmet(link, facts, required):
        reasons, waited_s = " ".join(unmet), time.monotonic() - began
        if waited_s >= wait_s:
            waited = f"not ready after {waited_s:.0f} s" if wait_s else "not ready"
            raise NotReadyError(f"{link.host.name}: {waited}: {reasons}")
        link.enter("wait", detail=reasons)
        link.context.cancellation.pause(min(ASK_EVERY_S, wait_s - waited_s))
        facts = link.ask_facts()
    if reasons:
        link.progress.note(f"Ready after {time.monotonic() - began:.0f} s. Before: {reasons}")
    return facts


def _find_unmet(link: HostLink, facts: Facts, required: tuple[str, ...]) -> list[str]:
    """Return a sentence for each condition that the host does not meet."""
    usage = None
    if {Condition.QUIET, Condition.NO_STEAL} & set(required):
        usage = ask_usage(link.connection, facts)
        if usage is None:
            link.progress.note_once("Whether the host is quiet is unknown: it does not tell.")
    return [finding.found for finding in find_noise(facts, usage) if finding.condition in required]


def _run_command(link: HostLink, connection: Connection, stage: str, command: str) -> str:
    """Run a command of the inventory on the host; return a sentence if it failed, else ""."""
    try:
        completed = connection.run(command, timeout_s=COMMAND_TIMEOUT_S)
    except TimeLimitError:
        return f"`{command}` of `{stage}` was still running after {COMMAND_TIMEOUT_S:g} s."
    link.progress.log_command(stage, command, completed)
    if completed.exit_code == 0:
        return ""
    output = last_lines(completed.stderr or completed.stdout)
    return f"`{command}` of `{stage}` failed (exit code {completed.exit_code}): {output}."


def _restore_host(link: HostLink) -> None:
    """Run the host's `after` over a connection of its own, since the link may be cut or cancelled."""
    host, context, progress = link.host, link.context, link.progress
    progress.enter("after")
    began, failures, commands = time.monotonic(), [], list(host.after)
    for pause in retry_pauses_s():
        try:
            with context.connect(host) as connection:
                while commands:
                    failures.append(_run_command(link, connection, "after", commands[0]))
                    del commands[0]
            break
        except FleetError as err:
            patience_s = RESTORE_S if context.cancellation.is_requested else context.reconnect_s
            if not isinstance(err, LinkError | UnreachableError) or time.monotonic() - began >= patience_s:
                left = "; ".join(commands)
                failures.append(
                    f"`after` did not run; do it by hand: {left}. {strip_host_name(host, str(err))}"
                )
                break
            time.sleep(pause)
    progress.unrestored = " ".join(filter(None, failures))
