"""The commands that measure: run, and resume, which finishes an interrupted session."""

import os
import shlex
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fleet.cli import app as cli
from fleet.cli.app import option
from fleet.cli.parser import whole_help_option
from fleet.cli.plan_options import (
    BENCHMARK_QUESTIONS,
    HOW_MUCH,
    NOT_GIVEN,
    USUAL,
    add_plan_options,
)
from fleet.errors import UsageError
from fleet.model import Host, RequestedOptions
from fleet.text import as_document

if TYPE_CHECKING:
    from fleet.console.summary import Hints
    from fleet.session.events import Event, EventHandler, Outcome
    from fleet.store import Store


_RARE = {"hidden": True, "rich_help_panel": HOW_MUCH}  # listed by --help-all alone
_WHERE = {"hidden": True, "rich_help_panel": "Where"}


@cli.app.command(
    short_help="Measure every CPU pair of the hosts; store the raw samples."
)
@partial(add_plan_options, listed=USUAL)
def run(
    select: cli.Select = None,
    limit: cli.Limit = None,
    inventory: cli.InventoryPath = cli.INVENTORY,
    results: cli.ResultsPath = cli.RESULTS,
    requested: RequestedOptions = NOT_GIVEN,
    label: Annotated[
        list[str] | None, option("key=value, stored with every run; repeatable.")
    ] = None,
    parallel: cli.Parallel = 32,
    connect_timeout: cli.ConnectTimeout = cli.CONNECT_TIMEOUT_S,
    lock: cli.Lock = None,
    reconnect: cli.Reconnect = cli.RECONNECT_S,
    require: cli.Require = None,
    wait: cli.Wait = None,
    shard: Annotated[
        str | None, option("Only this part of the hosts, such as 2/4.", "I/N", **_WHERE)
    ] = None,
    dask: Annotated[
        str | None,
        option(
            "Let workers of Dask measure: tcp://host:8786, local:N.",
            "SCHEDULER",
            **_WHERE,
        ),
    ] = None,
    repeat: Annotated[
        int,
        option(
            "Measure all hosts N times, in turn.",
            "N",
            min=1,
            max=10_000,
            rich_help_panel=HOW_MUCH,
        ),
    ] = 1,
    alternate: Annotated[
        str | None,
        option("Measure with each label in turn, in random order.", "KEY=A,B", **_RARE),
    ] = None,
    switch: Annotated[
        str | None,
        option("Run before each change; $FLEET_VALUE is A or B.", "COMMAND", **_RARE),
    ] = None,
    dry_run: cli.DryRun = False,
    map_: Annotated[bool, option("Draw heat maps as they fill.", "--map")] = False,
    quiet: cli.Quiet = False,
    _verbose: cli.Verbose = 0,
    json: cli.Json = False,
    _whole_help: Annotated[
        bool, whole_help_option("Benchmarks", BENCHMARK_QUESTIONS)
    ] = False,
) -> None:
    """Measure every CPU pair of the chosen hosts and store the raw samples.

    Example: fleet run servers -b cas,readwrite --rounds 20 --label kernel=6.12
    """
    from fleet.plan.options import parse_labels
    from fleet.session.alternate import alternate_labels, parse_alternation

    hosts = cli.select_hosts(cli.load_inventory(inventory), select, limit, results)
    if shard is not None:
        from fleet.session import shards

        (number, count), total = shards.parse_shard(shard), len(hosts)
        hosts = shards.select_shard(hosts, number, count)
        typer.echo(f"shard {number}/{count}: {len(hosts)} of {total} hosts", err=True)
    cli.require_usable(hosts, requested)
    labels = parse_labels(label or [])
    sides = parse_alternation(alternate, switch, labels)
    if not hosts:
        typer.echo(
            as_document("run", []) if json else "Nothing to measure in this shard."
        )
        return
    if dry_run:
        from fleet.console.dry_run import render_plans, render_plans_json
        from fleet.session.dry_run import forecast_hosts

        plans = forecast_hosts(hosts, requested, results)
        (typer.echo if json else cli.print_text)(
            (render_plans_json if json else render_plans)(plans)
        )
        return
    from fleet.session import events
    from fleet.store import Store

    started, store = time.monotonic(), Store(results)
    store.require_writable()
    outcomes: list[events.Outcome] = []
    settings: dict[str, Any] = {
        "parallel": parallel,
        "lock": lock,
        "reconnect_s": reconnect,
    }
    settings |= {"requested": requested, "require": require, "wait_s": wait}
    for side in alternate_labels(sides, repeat):
        settings["labels"] = {**labels, **side}
        with show_progress(
            hosts, outcomes, quiet=quiet, json=json, as_map=map_
        ) as on_event:
            ended, logs = measure_session(
                store, hosts, on_event, connect_timeout, dask, **settings
            )
        outcomes += ended
        if any(ended.state is events.State.INTERRUPTED for ended in outcomes):
            break
    print_outcomes(
        store,
        outcomes,
        started,
        make_hints(results, inventory, logs),
        json=json,
        as_map=map_,
    )
    raise typer.Exit(events.exit_code(outcomes))


def measure_session(
    store: "Store",
    hosts: Sequence[Host],
    on_event: "EventHandler",
    connect_timeout: float = cli.CONNECT_TIMEOUT_S,
    dask: str | None = None,
    **settings: Any,
) -> tuple[list["Outcome"], str]:
    """Measure all hosts once, in a new session; return how each ended, and the folder
    of the logs.
    """
    from fleet.session import runner
    from fleet.store import new_session_id

    context = runner.make_context(
        store, new_session_id(), on_event, connect_timeout, **settings
    )
    if dask is None:
        return runner.run_session(hosts, context), context.log_folder
    from fleet.session.dask_cluster import measure_on_cluster

    return measure_on_cluster(dask, hosts, context, connect_timeout), context.log_folder


@cli.app.command(short_help="Finish a session that was interrupted.")
def resume(
    session: Annotated[
        str | None,
        typer.Argument(help="A session id, or its beginning; default: the last."),
    ] = None,
    inventory: cli.InventoryPath = cli.INVENTORY,
    results: cli.ResultsPath = cli.RESULTS,
    publish_partial: Annotated[
        bool, option("Store what arrived, as partial runs.")
    ] = False,
    forget: Annotated[
        bool, option("Remove the journals of the session named.")
    ] = False,
    parallel: cli.Parallel = 32,
    connect_timeout: cli.ConnectTimeout = cli.CONNECT_TIMEOUT_S,
    lock: cli.Lock = None,
    reconnect: cli.Reconnect = cli.RECONNECT_S,
    dry_run: cli.DryRun = False,
    quiet: cli.Quiet = False,
    _verbose: cli.Verbose = 0,
    json: cli.Json = False,
) -> None:
    """Finish a session that was interrupted; measure nothing twice.

    Example: fleet resume
    """
    from fleet.console.summary import render_remaining, render_remaining_json
    from fleet.errors import StoreError
    from fleet.session import events, resume, runner
    from fleet.store import Store

    store = Store(results)
    if forget and (session is None or publish_partial):
        raise UsageError("--forget: name the session, and leave out --publish-partial.")
    remaining = resume.find_remaining(store, session)
    if damaged := store.describe_damaged_journals():
        cli.print_text("\n".join(damaged), err=True)
    if remaining is None:
        typer.echo(
            as_document("resume", [])
            if json
            else f"{store.place}: no unfinished session there."
        )
        return
    if dry_run:
        typer.echo(
            render_remaining_json(remaining) if json else render_remaining(remaining)
        )
        return
    if forget:
        resume.forget_session(remaining, store)
        typer.echo(
            f"Session {remaining.session_id} is given up; its journals are removed."
        )
        return
    intent = remaining.intent
    entries = (
        ()
        if publish_partial
        else cli.load_inventory(inventory, intent.listed or None).hosts
    )
    by_name = {host.name: host for host in entries}
    hosts = resume.hosts_to_resume(remaining, by_name, partial=publish_partial)
    cli.require_usable(
        [host for host in hosts if host.name in remaining.hosts and entries],
        intent.requested,
    )
    started = time.monotonic()
    store.require_writable()
    settings = {
        name: getattr(intent, name)
        for name in ("requested", "labels", "require", "wait_s")
    }
    settings |= {"parallel": parallel, "lock": lock, "reconnect_s": reconnect}
    with show_progress(hosts, (), quiet=quiet, json=json) as on_event:
        context = runner.make_context(
            store, remaining.session_id, on_event, connect_timeout, **settings
        )
        outcomes = resume.resume_session(
            remaining, hosts, context, partial=publish_partial
        )
    if outcomes or json:
        hints = make_hints(results, inventory, context.log_folder)
        print_outcomes(store, outcomes, started, hints, json=json)
    else:
        why = (
            "the damaged journals named above are kept"
            if damaged
            else "nothing of it had been measured"
        )
        cli.print_text(f"Session {remaining.session_id} is given up; {why}.")
    if others := resume.name_other_sessions(store, remaining):
        cli.print_text(others, err=True)
    raise typer.Exit(
        events.exit_code(outcomes)
        if outcomes
        else StoreError.exit_code
        if damaged
        else 0
    )


@contextmanager
def show_progress(
    hosts: Sequence[Host],
    earlier: Sequence["Outcome"],
    *,
    quiet: bool,
    json: bool,
    as_map: bool = False,
) -> Iterator["EventHandler"]:
    """Yield a handler that shows events on stderr. earlier: outcomes for the JSON
    printed on a signal.
    """
    from fleet.console.progress import progress
    from fleet.console.rows import Rows
    from fleet.console.summary import render_outcomes_json

    rows = Rows(hosts)

    def print_json() -> None:
        if json:
            left = [row.make_interrupted_outcome() for row in rows.by_name.values()]
            typer.echo(render_outcomes_json([*earlier, *left]))

    with (
        progress(hosts, quiet=quiet, as_map=as_map) as show,
        cli.stop_on_signals(print_json),
    ):

        def on_event(event: "Event") -> None:
            rows.update(event)
            show(event)

        yield on_event


def make_hints(results: str, inventory: Path, logs: str) -> "Hints":
    """Return hints for the summary: the log folder, and -r and -i unless they are the
    defaults.
    """
    from fleet.console.summary import Hints

    def format_flag(flag: str, value: str, variable: str, default: str) -> str:
        return (
            f"{flag} {shlex.quote(value)}"
            if value != os.environ.get(variable, default)
            else ""
        )

    return Hints(
        format_flag(
            "-r",
            results,
            "FLEET_RESULTS",
            cli.load_settings(inventory).get("results", cli.RESULTS),
        ),
        format_flag("-i", str(inventory), "FLEET_INVENTORY", str(cli.INVENTORY)),
        logs,
    )


def print_outcomes(
    store: "Store",
    outcomes: "Sequence[Outcome]",
    started: float,
    hints: "Hints",
    *,
    json: bool,
    as_map: bool = False,
) -> None:
    """Print each host's outcome, and medians, as text or JSON. started:
    time.monotonic() at the beginning.
    """
    from fleet.console.summary import (
        render_medians,
        render_outcomes,
        render_outcomes_json,
    )

    if json:
        typer.echo(render_outcomes_json(outcomes))
        return
    seconds, page, medians = time.monotonic() - started, cli.get_width_and_colour(), ""
    try:
        medians = render_medians(store, outcomes, **page, as_map=as_map)
    finally:  # how the hosts ended is printed even if their numbers cannot be
        cli.print_text(
            render_outcomes(outcomes, seconds, hints, medians, page["width"])
        )
