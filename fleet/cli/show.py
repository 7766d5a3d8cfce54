"""The commands that look at what is stored: runs, show."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from fleet import store
from fleet.analysis import base, reduce, views
from fleet.cli import app as cli
from fleet.cli.app import option
from fleet.cli.completion import complete_groups, complete_relations
from fleet.model import CPU_GROUPS
from fleet.text import as_document, one_line

if TYPE_CHECKING:
    from fleet.analysis.views.chosen_runs import RunsToShow
    from fleet.analysis.views.closest import ClosestSets


@cli.app.command(
    short_help="List stored runs, or how a relation has changed over time."
)
@cli.skip_damaged
def runs(
    select: cli.SelectRuns = None,
    relation: Annotated[
        str | None,
        option(
            "This relation or level, run by run: smt, L2, mem, …",
            complete=complete_relations,
        ),
    ] = None,
    point: Annotated[
        str | None, option("This point, run by run: random.512K.huge.")
    ] = None,
    benchmark: cli.Benchmarks = None,
    summaries: Annotated[
        bool, option("List what others measured, shipped or imported.")
    ] = False,
    results: cli.ResultsPath = cli.RESULTS,
    json: cli.Json = False,
) -> None:
    """List stored runs, or how a relation or level has changed.

    Example: fleet runs rpi5 --relation smt
    """
    if summaries:
        if select or relation or point or benchmark:
            raise typer.BadParameter(
                "--summaries lists all; `fleet show summary:NAME` shows one."
            )
        _print_summaries([], results, json=json)
        return
    root = cli.open_listing(results)
    benchmarks = cli.join_lists(benchmark)
    for why in store.Store(results).describe_damaged_journals():
        typer.echo(why, err=True)
    every_run = root.list_with_unfinished()
    selected = base.select_runs(every_run, select or (), root)
    if relation is not None and point is not None:
        raise typer.BadParameter("--relation or --point, not both.")
    if relation is None and point is None:
        _print_runs(base.filter_runs(root, selected, benchmarks), json=json)
    else:
        _print_history(root, selected, relation, point, benchmarks, json=json)


def _print_runs(chosen: "Sequence[store.RunSummary]", *, json: bool) -> None:
    """Print a line per run, or JSON."""
    if json:
        typer.echo(views.runs_as_json(chosen))
    else:
        width = cli.get_width()
        cli.print_paged(views.render_runs(chosen, width=width))


def _print_history(
    root: "store.Listing",
    chosen: "Sequence[store.RunSummary]",
    relation: str | None,
    point: str | None,
    benchmarks: str | None,
    *,
    json: bool,
) -> None:
    """Print the numbers of a relation or of a point, run by run. One of `relation` and
    `point` is None.
    """
    name = point or str(relation)
    descriptions = reduce.merge_descriptions(chosen)
    rows = reduce.load_history(
        root, chosen, name, benchmarks, descriptions, point=point is not None
    )
    if json:
        typer.echo(base.format_document("history", rows))
    else:
        width = cli.get_width()
        cli.print_paged(views.render_relation_history(rows, width, descriptions))


@cli.app.command(short_help="Show latencies: many hosts in a table, one in detail.")
@cli.skip_damaged
def show(
    select: cli.SelectRuns = None,
    benchmark: cli.Benchmarks = None,
    cpus: cli.Cpus = None,
    ladder: Annotated[bool, option("Every size and every counted event.")] = False,
    map_: Annotated[bool, option("Draw heat maps.", "--map")] = False,
    pair: Annotated[
        str | None,
        option("The bursts of two CPUs as a histogram, and the tail: 3-17.", "A-B"),
    ] = None,
    closest: Annotated[
        int | None,
        option(
            "The sets of so many CPUs whose slowest pair is the fastest, for taskset.",
            "--closest N",
            min=2,
        ),
    ] = None,
    sort: Annotated[
        str | None,
        option(
            "Sort several hosts by this column: host, runs, smt, 'chase mem'.",
            "--sort COLUMN",
        ),
    ] = None,
    cpus_of: Annotated[
        str | None,
        option(
            "Only lists of CPUs, a line each, as taskset takes them: package, node,"
            " die, llc, cluster, "
            "core, smt (siblings), or cores (one CPU of each).",
            "GROUP",
            complete_groups,
        ),
    ] = None,
    results: cli.ResultsPath = cli.RESULTS,
    json: cli.Json = False,
    csv: Annotated[bool, option("Print every pair and point as CSV.")] = False,
    ways: Annotated[
        bool, option("Both directions of messages, and the offset of clocks.")
    ] = False,
) -> None:
    """Show hosts, by default those of the last session: several in one table, a single
    one in detail.

    Numbers, also of --json and --csv, are of all comparable runs; details are of the
    last. summary:NAME shows a published table.

    Example: fleet show rpi5 -b bandwidth --ladder
    """
    _refuse_conflicts(pair, cpus_of, json=json, csv=csv, ways=ways)
    if cli.has_summary(select or ()):
        refused = (benchmark, cpus, csv, ladder, map_, ways, pair, cpus_of, closest)
        if any(refused):
            raise typer.BadParameter(
                "a summary is shown whole; of the options only --json applies."
            )
        _print_summaries(select or [], results, json=json)
        return
    root = cli.open_listing(results)
    only = reduce.Only(cli.join_lists(benchmark), cli.join_lists(cpus))
    to_show = views.select_runs_to_show(root, select or (), only.benchmark)
    # to_show has a host's last run even if it lacks the benchmark: the table of hosts
    # has a row for it. JSON, CSV and closest sets leave such runs out.
    runs_with_benchmark = base.filter_runs(root, to_show.runs, only.benchmark)
    run_ids = [run.run_id for run in runs_with_benchmark]
    if cpus_of is not None:
        # a host's CPUs are those of its last run
        _print_cpus(root, to_show.latest, cpus_of, json=json)
    elif pair is not None:
        _print_pair(root, to_show.runs, pair, only, json=json, csv=csv)
    elif closest is not None:
        sets = views.load_closest_sets(root, runs_with_benchmark, closest, only)
        _print_closest_sets(sets, json=json, csv=csv)
    elif json:
        pieces = views.show_as_json(root, run_ids, only, to_show.missing)
        sys.stdout.writelines(pieces)
    elif csv:
        typer.echo(views.show_as_csv(root, run_ids, only))
        _name_missing_hosts(to_show)
    else:
        canvas = views.Canvas(**cli.get_width_and_colour())
        detail = views.Detail(all_sizes=ladder, both_ways=ways, as_map=map_)
        text = views.show_runs(root, to_show, canvas, only, detail, sort)
        cli.print_paged(text)


def _refuse_conflicts(
    pair: str | None, cpus_of: str | None, *, json: bool, csv: bool, ways: bool
) -> None:
    """Refuse options of `fleet show` that exclude one another."""
    cli.refuse_json_with_csv(json=json, csv=csv)
    if cpus_of and (pair or csv):
        raise typer.BadParameter(
            "--cpus-of prints nothing but lists; only --json can be added."
        )
    if ways and (json or csv):
        raise typer.BadParameter("--ways prints text; leave out --json and --csv.")


def _name_missing_hosts(to_show: "RunsToShow") -> None:
    """Name on stderr the hosts that could not be measured, if any."""
    if to_show.missing:
        left_out = to_show.left_out
        heading = views.render_heading(to_show.runs, left_out, to_show.missing)
        typer.echo(heading, err=True)


def _print_pair(
    root: "store.Listing",
    chosen: "Sequence[store.RunSummary]",
    pair: str,
    only: "reduce.Only",
    *,
    json: bool,
    csv: bool,
) -> None:
    """Print the bursts of a pair of CPUs, as histograms or as JSON or CSV with a row
    per burst.
    """
    if json or csv:
        bursts = views.load_pair_bursts(root, chosen, pair, only)
        if json:
            typer.echo(base.format_document("bursts", bursts))
        else:
            typer.echo(base.format_csv(bursts).removesuffix("\n"))
        return
    samples = views.load_pair_samples(root, chosen, pair, only)
    descriptions = reduce.merge_descriptions(chosen)
    cli.print_paged(views.render_histograms(samples, descriptions))


def _print_closest_sets(closest_sets: "ClosestSets", *, json: bool, csv: bool) -> None:
    """Print the closest sets of CPUs of a host, as text or JSON."""
    if csv:
        raise typer.BadParameter("--closest prints text, or JSON with --json.")
    if json:
        typer.echo(views.format_closest_sets(closest_sets))
    else:
        cli.print_paged(views.render_closest_sets(closest_sets))


def _print_cpus(
    root: "store.Listing", run_ids: Sequence[str], group: str, *, json: bool
) -> None:
    """Print these runs' lists of CPUs, one a line; for several hosts, put the host's
    name before each.
    """
    if group not in CPU_GROUPS:
        raise typer.BadParameter(f"--cpus-of is one of {', '.join(CPU_GROUPS)}.")
    names = {run.run_id: one_line(run.host_name) for run in root.runs}
    rows = []
    for run_id in run_ids:
        lists = views.list_cpu_groups(root, run_id, group)
        rows.append({"host": names[run_id], "cpus": lists})
    if json:
        typer.echo(as_document("cpus", rows))
        return
    for row in rows:
        prefix = f"{row['host']}  " if len(rows) > 1 else ""
        for line in row["cpus"]:
            typer.echo(f"{prefix}{line}")


def _print_summaries(names: list[str], results: str, *, json: bool) -> None:
    """Print these summaries, or a list of all if no name is given."""
    from fleet.analysis.exchange.summaries import (
        format_summaries_json,
        render_summaries,
    )

    if json:
        typer.echo(format_summaries_json(results, names))
    else:
        canvas = views.Canvas(**cli.get_width_and_colour())
        cli.print_paged(render_summaries(results, names, canvas))
