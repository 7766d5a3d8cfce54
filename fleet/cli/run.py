"""The main job: run."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from fleet.cli.app import (
    CONNECT_TIMEOUT_S,
    INVENTORY,
    RECONNECT_S,
    RESULTS,
    ConnectTimeout,
    InventoryPath,
    Json,
    Lock,
    Parallel,
    Quiet,
    Reconnect,
    ResultsPath,
    Select,
    app,
    check_hosts,
    load_inventory,
    print_text,
    stop_on_signals,
)
from fleet.cli.outcomes import hints, print_outcomes
from fleet.cli.plan_options import NOT_GIVEN, with_plan_options
from fleet.errors import UsageError
from fleet.model import Host, PairChoice, Pairs, RequestedOptions
from fleet.plan.kinds import PAIRS


@app.command(short_help="Measure every CPU pair of the hosts; store the raw samples.")
@with_plan_options
def run(
    select: Select = None,
    inventory: InventoryPath = INVENTORY,
    results: ResultsPath = RESULTS,
    requested: RequestedOptions = NOT_GIVEN,
    ordered: Annotated[bool, typer.Option("--ordered", help="The same as --pairs ordered.")] = False,
    label: Annotated[
        list[str] | None, typer.Option("--label", "-l", help="key=value stored with every run; repeatable.")
    ] = None,
    parallel: Parallel = 32,
    connect_timeout: ConnectTimeout = CONNECT_TIMEOUT_S,
    lock: Lock = None,
    reconnect: Reconnect = RECONNECT_S,
    shard: Annotated[
        str | None, typer.Option(help="Only part i of n of the hosts, as 2/4; n controllers do all of them.")
    ] = None,
    dask: Annotated[
        str | None,
        typer.Option(help="Let the workers of a Dask scheduler measure: tcp://host:8786, or local:N."),
    ] = None,
    repeat: Annotated[
        int,
        typer.Option("--repeat", min=1, max=10_000, help="Measure all hosts so many times in turn."),
    ] = 1,
    alternate: Annotated[
        str | None,
        typer.Option(metavar="KEY=A,B", help="Measure each of these labels in turn: A B B A; see --switch."),
    ] = None,
    switch: Annotated[
        str | None,
        typer.Option(
            metavar="COMMAND", help="Run here before each change of --alternate; $FLEET_VALUE is A or B."
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", "-n", help="Say what would be done; connect to nothing.")
    ] = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Measure every CPU pair of the chosen hosts and store the raw samples.

    Example: fleet run servers -b cas,readwrite --rounds 20 -l kernel=6.12
    """
    from fleet.console import summary
    from fleet.console.progress import progress
    from fleet.plan.options import labels as read_labels
    from fleet.remote.connect import connect
    from fleet.session import log, outcome, runner
    from fleet.session.alternate import alternation, turns
    from fleet.session.context import SessionContext
    from fleet.session.known import KnownOutcomes
    from fleet.store import Store, new_session_id

    chosen = _hosts(inventory, select or [], shard)
    if ordered:
        requested = _with_ordered_pairs(requested)
    check_hosts(chosen, requested)
    labels = read_labels(label or [])
    sides = alternation(alternate, switch, labels)
    if not chosen:
        typer.echo(summary.outcomes_json([]) if json else "Nothing to measure in this shard.")
        return
    if dry_run:
        _print_plans(chosen, requested, json=json)
        return
    store = Store(results)
    store.make_ready()
    ended: list[outcome.Outcome] = []

    def session(side: Mapping[str, str]) -> tuple[list[outcome.Outcome], str]:
        """Measure every host once; return the outcomes and the folder of the logs. side: labels."""
        so_far = KnownOutcomes(chosen)

        def leave() -> None:
            if json:
                typer.echo(summary.outcomes_json([*ended, *so_far.now()]))

        with progress(chosen, quiet=quiet) as show, stop_on_signals(leave):
            so_far.then = show
            session_id = new_session_id()
            session_log = log.SessionLog(store.state_dir / "_logs" / session_id, so_far)
            context = SessionContext(
                session_id=session_id,
                store=store,
                emit=session_log,
                requested=requested,
                labels={**labels, **side},
                parallel=parallel,
                lock=lock,
                reconnect_s=reconnect,
                connect=partial(connect, timeout_s=connect_timeout),
            )
            if dask is None:
                found = runner.run(chosen, context)
            else:
                from fleet.session import dask_cluster

                found = dask_cluster.run(dask, chosen, context, connect_timeout)
        return found, str(session_log.folder)

    for side in turns(sides, repeat):
        outcomes, logs = session(side)
        ended += outcomes
        if any(one.state is outcome.State.INTERRUPTED for one in outcomes):
            break
    print_outcomes(store, ended, hints(results, inventory, logs), json=json)
    raise typer.Exit(outcome.exit_code(ended))


def _hosts(inventory: Path, select: Sequence[str], shard: str | None) -> tuple[Host, ...]:
    """The hosts selected, or those of them in this shard."""
    from fleet.session import shards

    chosen = load_inventory(inventory).select(select)
    if shard is None:
        return chosen
    part, total = shards.parse(shard), len(chosen)
    chosen = shards.take(chosen, part)
    typer.echo(f"shard {part}: {len(chosen)} of {total} hosts", err=True)
    return chosen


def _print_plans(chosen: Sequence[Host], requested: RequestedOptions, *, json: bool) -> None:
    from fleet.console import summary

    if json:
        typer.echo(summary.plans_json(chosen, requested))
    else:
        print_text(summary.plans_text(chosen, requested))


def _with_ordered_pairs(requested: RequestedOptions) -> RequestedOptions:
    ordered = PairChoice(Pairs.ORDERED)
    if requested.pairs not in (None, ordered):
        raise UsageError(
            f"--ordered and --pairs {PAIRS.show(requested.pairs)} exclude one another; keep one of them."
        )
    return replace(requested, pairs=ordered)
