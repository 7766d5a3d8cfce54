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
from fleet.errors import StoreError, UsageError
from fleet.model import Host, RequestedOptions
from fleet.text import as_document

if TYPE_CHECKING:
    from fleet.console.summary import Hints
    from fleet.session.events import Event, EventHandler, Outcome
    from fleet.session.resume import Remaining
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
        hosts = _select_shard(hosts, shard)
    cli.require_usable(hosts, requested)
    labels = parse_labels(label or [])
    sides = parse_alternation(alternate, switch, labels)
    if not hosts:
        _print_nothing("run", "Nothing to measure in this shard.", json=json)
        return
    if dry_run:
        _print_plans(hosts, requested, results, json=json)
        return
    from fleet.session import events
    from fleet.store import Store

    started = time.monotonic()
    store = Store(results)
    store.require_writable()
    outcomes: list[events.Outcome] = []
    # Measure all hosts once for each label. Where the value of the label changes, the
    # iterator runs the command of --switch before it yields.
    for labels_of_side in alternate_labels(sides, repeat):
        with show_progress(
            hosts, outcomes, quiet=quiet, json=json, as_map=map_
        ) as on_event:
            outcomes_of_pass, logs_of_last_pass = measure_session(
                store,
                hosts,
                on_event,
                connect_timeout,
                dask,
                requested=requested,
                parallel=parallel,
                lock=lock,
                reconnect_s=reconnect,
                require=require,
                wait_s=wait,
                labels={**labels, **labels_of_side},
            )
        outcomes += outcomes_of_pass
        is_interrupted = any(
            outcome.state is events.State.INTERRUPTED for outcome in outcomes_of_pass
        )
        if is_interrupted:
            break
    hints = make_hints(results, inventory, logs_of_last_pass)
    print_outcomes(store, outcomes, started, hints, json=json, as_map=map_)
    raise typer.Exit(events.exit_code(outcomes))


def _select_shard(hosts: Sequence[Host], shard: str) -> tuple[Host, ...]:
    """Return the hosts of a shard such as "2/4", and print how many they are. Raises
    UsageError.
    """
    from fleet.session import shards

    number, count = shards.parse_shard(shard)
    chosen = shards.select_shard(hosts, number, count)
    typer.echo(f"shard {number}/{count}: {len(chosen)} of {len(hosts)} hosts", err=True)
    return chosen


def _print_plans(
    hosts: Sequence[Host], requested: RequestedOptions, results: str, *, json: bool
) -> None:
    """Print what a session would measure, and its cost."""
    from fleet.console.dry_run import render_plans, render_plans_json
    from fleet.session.dry_run import forecast_hosts

    plans = forecast_hosts(hosts, requested, results)
    if json:
        typer.echo(render_plans_json(plans))
    else:
        cli.print_text(render_plans(plans))


def measure_session(
    store: "Store",
    hosts: Sequence[Host],
    on_event: "EventHandler",
    connect_timeout: float = cli.CONNECT_TIMEOUT_S,
    dask: str | None = None,
    **settings: Any,
) -> tuple[list["Outcome"], str]:
    """Measure all hosts once, in a new session; return how each ended, and the folder
    of the logs. dask: the cluster that measures; None: this program. settings: further
    fields of SessionContext.
    """
    from fleet.session import runner
    from fleet.store import new_session_id

    context = runner.make_context(
        store, new_session_id(), on_event, connect_timeout, **settings
    )
    if dask is None:
        outcomes = runner.run_session(hosts, context)
    else:
        from fleet.session.dask_cluster import measure_on_cluster

        outcomes = measure_on_cluster(dask, hosts, context, connect_timeout)
    return outcomes, context.log_folder


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
    from fleet.session import events, resume, runner
    from fleet.store import Store

    store = Store(results)
    if forget and (session is None or publish_partial):
        raise UsageError("--forget: name the session, and leave out --publish-partial.")
    remaining = resume.find_remaining(store, session)
    damaged = store.describe_damaged_journals()
    if damaged:
        cli.print_text("\n".join(damaged), err=True)
    if remaining is None:
        nothing = f"{store.place}: no unfinished session there."
        _print_nothing("resume", nothing, json=json)
        return
    if dry_run:
        _print_remaining(remaining, json=json)
        return
    if forget:
        resume.forget_session(remaining, store)
        typer.echo(
            f"Session {remaining.session_id} is given up; its journals are removed."
        )
        return
    intent = remaining.intent
    hosts_not_begun: Sequence[Host] = ()
    if publish_partial:
        # hosts are as their journals have them, so no inventory is needed
        hosts = resume.hosts_to_resume(remaining, inventory={}, partial=True)
    else:
        hosts = _load_hosts_to_resume(remaining, inventory)
        # a host that has begun was checked then, and has a journal since
        names_without_journal = remaining.hosts
        hosts_not_begun = [host for host in hosts if host.name in names_without_journal]
    cli.require_usable(hosts_not_begun, intent.requested)
    started = time.monotonic()
    store.require_writable()
    with show_progress(hosts, (), quiet=quiet, json=json) as on_event:
        context = runner.make_context(
            store,
            remaining.session_id,
            on_event,
            connect_timeout,
            requested=intent.requested,
            labels=intent.labels,
            require=intent.require,
            wait_s=intent.wait_s,
            parallel=parallel,
            lock=lock,
            reconnect_s=reconnect,
        )
        outcomes = resume.resume_session(
            remaining, hosts, context, partial=publish_partial
        )
    if outcomes or json:
        hints = make_hints(results, inventory, context.log_folder)
        print_outcomes(store, outcomes, started, hints, json=json)
    else:
        _print_given_up(remaining.session_id, are_damaged=bool(damaged))
    others = resume.name_other_sessions(store, remaining)
    if others:
        cli.print_text(others, err=True)
    if outcomes:
        raise typer.Exit(events.exit_code(outcomes))
    # without an outcome, damaged journals are all there is to tell
    raise typer.Exit(StoreError.exit_code if damaged else 0)


def _load_hosts_to_resume(remaining: "Remaining", inventory: Path) -> list[Host]:
    """Return the hosts that a session has left, as the inventory has them now. If a
    program listed hosts for the session, those are taken; it is not asked again. Raises
    UsageError for hosts that are gone.
    """
    from fleet.session import resume

    listed_hosts = remaining.intent.listed or None
    entries = cli.load_inventory(inventory, listed_hosts).hosts
    host_by_name = {host.name: host for host in entries}
    return resume.hosts_to_resume(remaining, host_by_name)


def _print_nothing(command: str, sentence: str, *, json: bool) -> None:
    """Print that there is nothing to do: a sentence, or an empty document."""
    if json:
        typer.echo(as_document(command, []))
    else:
        typer.echo(sentence)


def _print_remaining(remaining: "Remaining", *, json: bool) -> None:
    """Print what `fleet resume` would do."""
    from fleet.console.summary import render_remaining, render_remaining_json

    render = render_remaining_json if json else render_remaining
    typer.echo(render(remaining))


def _print_given_up(session_id: str, *, are_damaged: bool) -> None:
    """Print why a session ends without an outcome. are_damaged: its journals."""
    why = "nothing of it had been measured"
    if are_damaged:
        why = "the damaged journals named above are kept"
    cli.print_text(f"Session {session_id} is given up; {why}.")


@contextmanager
def show_progress(
    hosts: Sequence[Host],
    earlier: Sequence["Outcome"],
    *,
    quiet: bool,
    json: bool,
    as_map: bool = False,
) -> Iterator["EventHandler"]:
    """Yield a handler that shows events on stderr. At a first signal, end the session;
    at a second one, end the program at once.

    json: at the second signal, print the outcomes as JSON before the end; a host that
    has not ended counts as interrupted. earlier: outcomes of earlier passes over the
    hosts, which this JSON has, too. as_map: draw heat maps.
    """
    from fleet.console.progress import progress
    from fleet.console.rows import Rows
    from fleet.console.summary import render_outcomes_json

    rows = Rows(hosts)

    def print_json_if_asked() -> None:
        """Print the outcomes so far, at the second signal."""
        if not json:
            return
        unfinished = [row.make_interrupted_outcome() for row in rows.by_name.values()]
        typer.echo(render_outcomes_json([*earlier, *unfinished]))

    with progress(hosts, quiet=quiet, as_map=as_map) as show:
        # a live table has `announce`, since it would draw over a line beside it
        announce = getattr(show, "announce", partial(typer.echo, err=True))

        def on_event(event: "Event") -> None:
            rows.update(event)
            show(event)

        with cli.stop_on_signals(print_json_if_asked, announce):
            yield on_event


def make_hints(results: str, inventory: Path, logs: str) -> "Hints":
    """Return hints for the summary: the log folder, and -r and -i unless they are the
    defaults.
    """
    from fleet.console.summary import Hints

    settings = cli.load_settings(inventory)
    default_root = settings.get("results", cli.RESULTS)
    usual_results = os.environ.get("FLEET_RESULTS", default_root)
    usual_inventory = os.environ.get("FLEET_INVENTORY", str(cli.INVENTORY))
    results_option = ""
    if results != usual_results:
        results_option = f"-r {shlex.quote(results)}"
    inventory_option = ""
    if str(inventory) != usual_inventory:
        inventory_option = f"-i {shlex.quote(str(inventory))}"
    return Hints(results_option, inventory_option, logs)


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
    seconds = time.monotonic() - started
    page = cli.get_width_and_colour()
    medians = ""
    try:
        medians = render_medians(store, outcomes, **page, as_map=as_map)
    finally:  # how the hosts ended is printed even if their numbers cannot be
        text = render_outcomes(outcomes, seconds, hints, medians, page["width"])
        cli.print_text(text)
