"""The command that finishes an interrupted session: resume."""

from functools import partial as bound
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
    app,
    check_hosts,
    load_inventory,
    stop_on_signals,
)
from fleet.cli.outcomes import hints, print_outcomes


@app.command(short_help="Finish a session that was interrupted.")
def resume(
    session: Annotated[
        str | None, typer.Argument(help="A session id, or its beginning. Default: the last one unfinished.")
    ] = None,
    inventory: InventoryPath = INVENTORY,
    results: ResultsPath = RESULTS,
    publish_partial: Annotated[
        bool,
        typer.Option("--publish-partial", help="Connect to no host; store what arrived, as partial runs."),
    ] = False,
    forget: Annotated[
        bool,
        typer.Option("--forget", help="Give up the session named: remove its journals, with all they hold."),
    ] = False,
    parallel: Parallel = 32,
    connect_timeout: ConnectTimeout = CONNECT_TIMEOUT_S,
    lock: Lock = None,
    reconnect: Reconnect = RECONNECT_S,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", "-n", help="Show what would be done; connect to no host.")
    ] = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Finish a session that a lost link, a killed controller or Ctrl-C interrupted; measure nothing twice.

    Example: fleet resume
    """
    from fleet.console import summary
    from fleet.console.progress import progress
    from fleet.console.resume import given_up_text, remaining_object, remaining_text
    from fleet.errors import StoreError, UsageError
    from fleet.remote.connect import connect
    from fleet.session import log, outcome, resume
    from fleet.session.context import SessionContext
    from fleet.session.known import KnownOutcomes
    from fleet.store import Store
    from fleet.text import as_json

    store = Store(results)
    if forget and (session is None or publish_partial):
        raise UsageError("--forget: name the session, and leave out --publish-partial.")
    remaining = resume.find(store, session)
    damaged = store.damaged()
    if damaged:
        typer.echo("\n".join(damaged), err=True)
    if remaining is None:
        typer.echo("[]" if json else f"{store.place}: no unfinished session there.")
        return
    if dry_run:
        typer.echo(as_json(remaining_object(remaining)) if json else remaining_text(remaining))
        return
    if forget:
        resume.forget(remaining, store)
        typer.echo(f"Session {remaining.session_id} is given up; its journals are removed.")
        return
    known = {} if publish_partial else {host.name: host for host in load_inventory(inventory).select([])}
    hosts = resume.hosts_of(remaining, known, partial=publish_partial)
    not_begun = [host for host in hosts if host.name in remaining.hosts and not publish_partial]
    check_hosts(not_begun, remaining.intent.requested)
    store.make_ready()
    so_far = KnownOutcomes(hosts)

    def leave() -> None:
        if json:
            typer.echo(summary.outcomes_json(so_far.now()))

    with progress(hosts, quiet=quiet) as show, stop_on_signals(leave):
        so_far.then = show
        session_log = log.SessionLog(store.state_dir / "_logs" / remaining.session_id, so_far)
        context = SessionContext(
            session_id=remaining.session_id,
            store=store,
            emit=session_log,
            connect=bound(connect, timeout_s=connect_timeout),
            lock=lock,
            reconnect_s=reconnect,
            requested=remaining.intent.requested,
            labels=remaining.intent.labels,
            parallel=parallel,
        )
        ended = resume.resume(remaining, hosts, context, partial=publish_partial)
    without = given_up_text(remaining, damaged)
    print_outcomes(
        store, ended, hints(results, inventory, str(session_log.folder)), json=json, without=without
    )
    if more := resume.others(store, remaining):
        typer.echo(more, err=True)
    raise typer.Exit(outcome.exit_code(ended) if ended else StoreError.exit_code if damaged else 0)
