"""The commands that look at what is stored: runs, show."""

from typing import Annotated

import typer

from fleet.cli.app import RESULTS, Json, ResultsPath, app, terminal


@app.command()
def runs(results: ResultsPath = RESULTS, json: Json = False) -> None:
    """List what is stored: run, host, when, benchmarks, pairs, state.

    Example: fleet runs --json
    """
    from fleet.analysis import runs as views
    from fleet.store import Store

    listed = Store(results).runs()
    typer.echo(views.runs_json(listed) if json else views.runs_text(listed))


@app.command()
def show(
    what: Annotated[
        str | None,
        typer.Argument(help="A run id, the beginning of one, or a host; default: the last session."),
    ] = None,
    results: ResultsPath = RESULTS,
    json: Json = False,
) -> None:
    """Show a run's latencies: by relation, and as a matrix in topology order.

    Example: fleet show rpi5
    """
    from fleet.analysis import show as views
    from fleet.store import Store

    store = Store(results)
    chosen = [store.find(what)] if what is not None else store.last_session()
    if json:
        typer.echo(views.shows_json(results, chosen))
    else:
        typer.echo(views.shows_text(results, chosen, **terminal()))
