"""The commands that look at what is stored: runs, show."""

from typing import Annotated

import typer

from fleet.cli.app import RESULTS, Json, ResultsPath, app, terminal


@app.command(short_help="List stored runs, or how a relation has changed over time.")
def runs(
    hosts: Annotated[
        list[str] | None, typer.Argument(help="Hosts, by their names; default: all.", show_default=False)
    ] = None,
    label: Annotated[
        list[str] | None,
        typer.Option("--label", "-l", help="Only runs with this label, KEY=VALUE; repeatable."),
    ] = None,
    relation: Annotated[
        str | None,
        typer.Option("--relation", help="The latency of this relation or level, run by run: smt, L2, mem, …"),
    ] = None,
    point: Annotated[
        str | None, typer.Option(help="The number of this point, run by run, such as random.512K.huge.")
    ] = None,
    benchmark: Annotated[
        str | None, typer.Option("--benchmark", "-b", help="With --relation, --point: only this benchmark.")
    ] = None,
    results: ResultsPath = RESULTS,
    json: Json = False,
) -> None:
    """List stored runs: host, time, benchmarks, state, labels; or how a relation's latency has changed.

    Example: fleet runs rpi5 --relation smt
    """
    from fleet.analysis.views import runs as views
    from fleet.store import Store

    store = Store(results)
    every = store.runs()
    for why in store.damaged():
        typer.echo(why, err=True)
    listed = views.chosen(every, hosts or (), label or ())
    if relation is not None and point is not None:
        raise typer.BadParameter("--relation or --point, not both.")
    if relation is None and point is None:
        if benchmark is not None:
            raise typer.BadParameter("--benchmark is for --relation and --point; neither is given.")
        typer.echo(views.runs_json(listed) if json else views.runs_text(listed, of=len(every)))
        return
    from fleet.analysis.views import history

    def note(text: str) -> None:
        typer.echo(text, err=True)

    if point is not None:
        found = history.of_point(results, listed, point, benchmark, note)
    else:
        found = history.of_relation(results, listed, str(relation), benchmark, note)
    typer.echo(history.past_json(found) if json else history.past_text(found))


@app.command(short_help="Show a run: topology, latencies, warnings.")
def show(
    what: Annotated[
        str | None,
        typer.Argument(help="A run id, the beginning of one, or a host; default: the last session."),
    ] = None,
    benchmark: Annotated[
        str | None, typer.Option("--benchmark", "-b", help="Only this one, as bandwidth or bandwidth/avx2.")
    ] = None,
    ladder: Annotated[
        bool, typer.Option("--ladder", help="chase, bandwidth: every size, not only the levels of memory.")
    ] = False,
    results: ResultsPath = RESULTS,
    json: Json = False,
    csv: Annotated[
        bool, typer.Option("--csv", help="Print every pair and point as a line of CSV instead.")
    ] = False,
    ways: Annotated[
        bool, typer.Option("--ways", help="Show both directions of messages, and the offset of the clocks.")
    ] = False,
) -> None:
    """Show a run: siblings and sockets, latencies by relation and as a matrix, ladders, warnings.

    Example: fleet show rpi5 -b bandwidth --ladder
    """
    from fleet.analysis.views import show as views
    from fleet.analysis.views.text import fitted
    from fleet.store import Store

    if json and csv:
        raise typer.BadParameter("--json or --csv, not both.")
    if ways and (json or csv):
        raise typer.BadParameter("--ways is for text; --json and --csv have the raw columns or none.")
    store = Store(results)
    chosen = [store.find(what)] if what is not None else store.last_session()
    if json:
        typer.echo(views.shows_json(results, chosen, benchmark))
    elif csv:
        typer.echo(views.shows_csv(results, chosen, benchmark))
    else:
        page = terminal()
        text = views.shows_text(
            results, chosen, **page, benchmark=benchmark, all_sizes=ladder, both_ways=ways
        )
        typer.echo(fitted(text, page["width"]))
