"""The main job: run."""

from dataclasses import replace
from functools import partial
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
    print_text,
    stop_on_signals,
)
from fleet.cli.outcomes import hints, print_outcomes
from fleet.cli.plan_options import NOT_GIVEN, with_plan_options
from fleet.errors import UsageError
from fleet.model import PairChoice, Pairs, RequestedOptions
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
    from fleet.inventory.select import load
    from fleet.plan.conflicts import check_together
    from fleet.plan.options import labels as read_labels
    from fleet.remote.connect import connect
    from fleet.session import log, outcome, runner, shards
    from fleet.session.context import SessionContext
    from fleet.session.known import KnownOutcomes
    from fleet.store import Store, new_session_id

    chosen = load(inventory).select(select or [])
    if shard is not None:
        part, total = shards.parse(shard), len(chosen)
        chosen = shards.take(chosen, part)
        typer.echo(f"shard {part}: {len(chosen)} of {total} hosts", err=True)
    if ordered:
        requested = _with_ordered_pairs(requested)
    check_together(chosen, requested)
    labels = read_labels(label or [])
    if not chosen:
        typer.echo(summary.outcomes_json([]) if json else "Nothing to measure in this shard.")
        return
    if dry_run:
        show_plan = typer.echo if json else print_text
        show_plan(summary.plans_json(chosen, requested) if json else summary.plans_text(chosen, requested))
        return
    store = Store(results)
    store.make_ready()
    so_far = KnownOutcomes(chosen)

    def leave() -> None:
        if json:
            typer.echo(summary.outcomes_json(so_far.now()))

    with progress(chosen, quiet=quiet) as show, stop_on_signals(leave):
        so_far.then = show
        session_id = new_session_id()
        session_log = log.SessionLog(store.state_dir / "_logs" / session_id, so_far)
        context = SessionContext(
            session_id=session_id,
            store=store,
            emit=session_log,
            requested=requested,
            labels=labels,
            parallel=parallel,
            lock=lock,
            reconnect_s=reconnect,
            connect=partial(connect, timeout_s=connect_timeout),
        )
        if dask is None:
            ended = runner.run(chosen, context)
        else:
            from fleet.session import dask_cluster

            ended = dask_cluster.run(dask, chosen, context, connect_timeout)
    if json:
        typer.echo(summary.outcomes_json(ended))
    else:
        print_outcomes(store, ended, hints(results, inventory, str(session_log.folder)))
    raise typer.Exit(outcome.exit_code(ended))


def _with_ordered_pairs(requested: RequestedOptions) -> RequestedOptions:
    ordered = PairChoice(Pairs.ORDERED)
    if requested.pairs not in (None, ordered):
        raise UsageError(
            f"--ordered and --pairs {PAIRS.show(requested.pairs)} exclude one another; keep one of them."
        )
    return replace(requested, pairs=ordered)
