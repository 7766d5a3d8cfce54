"""The commands that look at what is stored: runs, show."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from fleet.cli import app as cli
from fleet.cli import completion

if TYPE_CHECKING:
    from fleet.analysis.reduce.comparison_rows import Only
    from fleet.analysis.views.show import RunsToShow
    from fleet.store import Listing, RunSummary


@cli.app.command(short_help="List stored runs, or how a relation has changed over time.")
@cli.skip_damaged
def runs(
    select: cli.SelectRuns = None,
    relation: Annotated[
        str | None,
        typer.Option(
            help="This relation or level, run by run: smt, L2, mem, …",
            autocompletion=completion.complete_relations,
        ),
    ] = None,
    point: Annotated[str | None, typer.Option(help="This point, run by run: random.512K.huge.")] = None,
    benchmark: cli.Benchmarks = None,
    summaries: Annotated[bool, typer.Option(help="List what others measured, shipped or imported.")] = False,
    results: cli.ResultsPath = cli.RESULTS,
    json: cli.Json = False,
) -> None:
    """List stored runs, or how a relation or level has changed.

    Example: fleet runs rpi5 --relation smt
    """
    from fleet.analysis.base.selection import has_measured, select_runs
    from fleet.analysis.views import runs as views
    from fleet.errors import UsageError
    from fleet.plan.benchmark_names import describe_missing
    from fleet.store import Store

    if summaries:
        if select or relation or point or benchmark:
            raise typer.BadParameter("--summaries lists all; `fleet show summary:NAME` shows one.")
        _print_summaries([], results, json=json)
        return
    root = cli.open_listing(results)
    for why in Store(results).describe_damaged():
        typer.echo(why, err=True)
    listed = select_runs(root.list_with_unfinished(), select or (), root.place)
    benchmarks, width = cli.join_lists(benchmark), cli.describe_terminal()["width"]
    if relation is not None and point is not None:
        raise typer.BadParameter("--relation or --point, not both.")
    if relation is None and point is None:
        if benchmarks is not None:
            kinds = sorted({kind for run in listed for kind in run.benchmarks})
            listed = [run for run in listed if has_measured(run, benchmarks)]
            if not listed:
                raise UsageError(describe_missing(benchmarks, kinds))
        if json:
            typer.echo(views.runs_as_json(listed))
        else:
            cli.print_paged(views.render_runs(listed, width=width))
        return
    from fleet.analysis.base.text import format_document
    from fleet.analysis.reduce.comparison_rows import load_history
    from fleet.analysis.reduce.load import merge_descriptions
    from fleet.analysis.views.history import render_relation_history

    name, descriptions = point or str(relation), merge_descriptions(listed)
    rows = load_history(root, listed, name, benchmarks, descriptions, point=point is not None)
    if json:
        typer.echo(format_document("history", rows))
    else:
        cli.print_paged(render_relation_history(rows, width, descriptions))


@cli.app.command(short_help="Show latencies: many hosts in a table, one in detail.")
@cli.skip_damaged
def show(
    select: cli.SelectRuns = None,
    benchmark: cli.Benchmarks = None,
    cpus: cli.Cpus = None,
    ladder: Annotated[bool, typer.Option(help="Every size and every counted event.")] = False,
    map_: Annotated[bool, typer.Option("--map", help="Draw heat maps.")] = False,
    pair: Annotated[
        str | None, typer.Option(metavar="A-B", help="The bursts of two CPUs as a histogram: 3-17.")
    ] = None,
    cpus_of: Annotated[
        str | None,
        typer.Option(
            metavar="GROUP",
            help="Only lists of CPUs, a line each, as taskset takes them: package, node, die, llc, cluster, "
            "core, smt (siblings), or cores (one CPU of each).",
            autocompletion=completion.complete_groups,
        ),
    ] = None,
    results: cli.ResultsPath = cli.RESULTS,
    json: cli.Json = False,
    csv: Annotated[bool, typer.Option(help="Print every pair and point as CSV.")] = False,
    ways: Annotated[
        bool, typer.Option(help="Both directions of messages, and the offset of clocks.")
    ] = False,
) -> None:
    """Show hosts, by default those of the last session: several in one table, a single one in detail.

    Numbers, also of --json and --csv, are of all comparable runs; details are of the last. summary:NAME shows
    a published table.

    Example: fleet show rpi5 -b bandwidth --ladder
    """
    from fleet.analysis.reduce.comparison_rows import Only
    from fleet.analysis.views import show as views
    from fleet.analysis.views.heatmap import Canvas

    if json and csv:
        raise typer.BadParameter("--json or --csv, not both.")
    if cpus_of and (pair or csv):
        raise typer.BadParameter("--cpus-of prints lists alone; only --json goes with it.")
    if ways and (json or csv):
        raise typer.BadParameter("--ways is for text; --json and --csv have the raw columns or none.")
    if any(text.startswith(completion.SUMMARY) for text in select or ()):
        if benchmark or cpus or csv or ladder or map_ or ways or pair or cpus_of:
            raise typer.BadParameter("a summary is shown whole: only --json goes with it.")
        _print_summaries(select or [], results, json=json)
        return
    root, only = cli.open_listing(results), Only(cli.join_lists(benchmark), cpus)
    chosen = views.select_runs_to_show(root, select or ())
    if cpus_of is not None:
        _print_cpus(root, chosen.latest, cpus_of, json=json)
    elif pair is not None:
        _print_pair(root, chosen.runs, pair, only, json=json, csv=csv)
    elif json:
        run_ids = [run.run_id for run in chosen.runs]
        sys.stdout.writelines(views.show_as_json(root, run_ids, only, chosen.missing))
    elif csv:
        _print_csv(root, chosen, only)
    else:
        canvas = Canvas(**cli.describe_terminal())
        text = views.show_runs(root, chosen, canvas, only, all_sizes=ladder, both_ways=ways, as_map=map_)
        cli.print_paged(text)


def _print_csv(root: "Listing", chosen: "RunsToShow", only: "Only") -> None:
    """Print the runs, and on stderr what the selection lacks."""
    from fleet.analysis.views.overview import render_heading
    from fleet.analysis.views.show import show_as_csv

    typer.echo(show_as_csv(root, [run.run_id for run in chosen.runs], only))
    if chosen.missing:
        typer.echo(render_heading(chosen.runs, chosen.left_out, chosen.missing), err=True)


def _print_pair(
    root: "Listing", chosen: "Sequence[RunSummary]", pair: str, only: "Only", *, json: bool, csv: bool
) -> None:
    """Print the bursts of a pair of CPUs, as histograms or a row each."""
    from fleet.analysis.base.text import format_csv, format_document
    from fleet.analysis.reduce.load import merge_descriptions
    from fleet.analysis.views import samples

    bursts = samples.load_pair_bursts(root, chosen, pair, only)
    if json or csv:
        typer.echo(format_document("bursts", bursts) if json else format_csv(bursts).removesuffix("\n"))
    else:
        cli.print_paged(samples.render_pair(bursts, merge_descriptions(chosen)))


def _print_cpus(root: "Listing", run_ids: Sequence[str], group: str, *, json: bool) -> None:
    """Print the lists of CPUs of these runs' hosts; of several hosts each with its name."""
    from fleet.analysis.views.topology import list_cpus
    from fleet.model import CPU_GROUPS
    from fleet.text import as_document, one_line

    if group not in CPU_GROUPS:
        raise typer.BadParameter(f"--cpus-of is one of {', '.join(CPU_GROUPS)}.")
    names = {run.run_id: one_line(run.host_name) for run in root.runs}
    lists = {names[run_id]: list_cpus(root, run_id, group) for run_id in run_ids}
    if json:
        typer.echo(as_document("cpus", [{"host": host, "cpus": cpus} for host, cpus in lists.items()]))
        return
    for host, cpus in lists.items():
        for line in cpus:
            typer.echo(f"{host}  {line}" if len(lists) > 1 else line)


def _print_summaries(names: list[str], results: str, *, json: bool) -> None:
    from fleet.analysis.exchange import summaries as views
    from fleet.analysis.views.heatmap import Canvas

    page = cli.describe_terminal()
    if json:
        typer.echo(views.format_summaries_json(results, names))
    else:
        cli.print_paged(views.render_summaries(results, names, Canvas(**page)))
