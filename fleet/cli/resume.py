"""Finishing what a session has left: resume."""

from functools import partial as bound
from typing import Annotated

import typer

from fleet.cli.app import (
    INVENTORY,
    RESULTS,
    ConnectTimeout,
    InventoryPath,
    Json,
    Lock,
    Parallel,
    Quiet,
    Reconnect,
    ResultsPath,
    app,
    stop_on_signals,
)


@app.command(short_help="Finish what a lost link, a kill or Ctrl-C has left.")
def resume(
    session: Annotated[
        str | None, typer.Argument(help="A session id, or its beginning. Default: the last one unfinished.")
    ] = None,
    inventory: InventoryPath = INVENTORY,
    results: ResultsPath = RESULTS,
    publish_partial: Annotated[
        bool,
        typer.Option("--publish-partial", help="Connect to nothing; store what arrived, as partial runs."),
    ] = False,
    parallel: Parallel = 32,
    connect_timeout: ConnectTimeout = 15.0,
    lock: Lock = None,
    reconnect: Reconnect = 60.0,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", "-n", help="Say what would be done; connect to nothing.")
    ] = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Finish what a lost link, a killed fleet or Ctrl-C has left, measuring nothing twice.

    Example: fleet resume
    """
    from fleet.console import summary
    from fleet.console.progress import progress
    from fleet.console.resume import left_object, left_text
    from fleet.inventory.select import load
    from fleet.remote.connect import connect
    from fleet.session import log, outcome, resume
    from fleet.session.context import Session
    from fleet.store import Store
    from fleet.text import as_json

    store = Store(results)
    left = resume.find(store, session)
    for why in store.damaged():
        typer.echo(why, err=True)
    if left is None:
        typer.echo("[]" if json else f"{store.place}: nothing is left to finish there.")
        return
    if dry_run:
        typer.echo(as_json(left_object(left)) if json else left_text(left))
        return
    known = {} if publish_partial else {host.name: host for host in load(inventory).select([])}
    hosts = resume.hosts_of(left, known, partial=publish_partial)
    store.make_ready()
    with progress(hosts, quiet=quiet) as watcher, stop_on_signals():
        logged = log.Logged(store.state_dir / "_logs" / left.session_id, watcher)
        shared = Session(
            session_id=left.session_id,
            store=store,
            watcher=logged,
            connect=bound(connect, timeout_s=connect_timeout),
            lock=lock,
            reconnect_s=reconnect,
            requested=left.intent.requested,
            labels=left.intent.labels,
        )
        ended = resume.resume(left, hosts, shared, parallel, partial=publish_partial)
    if json:
        typer.echo(summary.outcomes_json(ended))
    elif ended:
        typer.echo(summary.outcomes_text(ended, str(logged.folder)))
    else:
        typer.echo(f"Session {left.session_id} is given up; nothing of it had been measured.")
    if more := resume.others(store, left):
        typer.echo(more, err=True)
    raise typer.Exit(outcome.exit_code(ended) if ended else 0)
