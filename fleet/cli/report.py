"""The command that writes a page to keep and to send: report."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fleet.cli import app as cli
from fleet.errors import UsageError

if TYPE_CHECKING:
    from fleet.analysis.views.show import RunsToShow
    from fleet.store import Listing


@cli.app.command(short_help="Write an HTML page, a card of one run, or a site.")
@cli.skip_damaged
def report(
    select: cli.SelectRuns = None,
    output: Annotated[
        str,
        typer.Option(
            "--output", "-o", help="page.html; card.svg, card.png: the last run; FOLDER/: a site; -: stdout."
        ),
    ] = "fleet-report.html",
    title: Annotated[str | None, typer.Option(help="Its heading.")] = None,
    force: Annotated[bool, typer.Option(help="Replace a file that is no report.")] = False,
    benchmark: cli.Benchmarks = None,
    compare: Annotated[
        tuple[str, str] | None, typer.Option(metavar="A B", help="Two sides, as `fleet compare` takes them.")
    ] = None,
    open_: Annotated[bool, typer.Option("--open", help="Show it in a browser.")] = False,
    results: cli.ResultsPath = cli.RESULTS,
) -> None:
    """Write one self-contained HTML page about hosts, by default those of the last session.

    A card is a picture of the last run; what to paste beside it goes to stdout.

    Example: fleet report rpi5 server1 -o today.html
    """
    from fleet.analysis.exchange.imports import PREFIX, find_summaries
    from fleet.analysis.report import output as files
    from fleet.analysis.views.overview import render_heading
    from fleet.analysis.views.show import RunsToShow
    from fleet.cli.accept import EXPECTED
    from fleet.inventory.expected import read_expected
    from fleet.store.files import write_output
    from fleet.text import format_count

    file, benchmarks = Path(output), cli.join_lists(benchmark)
    to_stdout, to_folder = output == "-", output.endswith("/") or file.is_dir()
    if compare and select:
        raise UsageError("--compare A B names the runs of the page; leave the other words out.")
    if benchmarks and (to_folder or file.suffix in files.CARDS):
        raise UsageError("--benchmark is for pages: a site has all, a card the first.")
    root = cli.open_listing(results)
    words = [word for word in select or () if not word.startswith(PREFIX)]
    summaries = [word for word in select or () if word.startswith(PREFIX)]
    if summaries and not to_folder:
        raise UsageError(f"{summaries[0]}: a summary is part of a site; name a folder, -o site/.")
    is_empty = summaries and not (words and root.runs)
    chosen = RunsToShow((), ()) if is_empty else _select_runs(root, words, compare, benchmarks)
    runs = chosen.runs
    heading = render_heading(runs, chosen.left_out, chosen.missing, "report") if runs else ""
    ranges = read_expected(Path(EXPECTED)) if Path(EXPECTED).exists() else []
    if to_folder:
        from fleet.analysis.report.site import write_site

        typer.echo(write_site(root, runs, file, title, find_summaries(root, summaries), heading, ranges))
        return
    if not to_stdout:
        files.check(file, force=force)
    if file.suffix in files.CARDS:
        from fleet.analysis.report import card as cards

        card = cards.make_card(root, runs[-1].run_id, ranges)
        write_output(file, [cards.FORMATS[file.suffix](card)], replace=True)
        typer.echo(cards.markdown(card, file.name))
        return
    from fleet.analysis.report.page import render

    ids, hosts = [run.run_id for run in runs], sorted({run.host_id for run in runs})
    page = render(root, ids, title, compare, words or hosts, benchmarks, heading, ranges)
    if to_stdout:
        sys.stdout.write(page)
        return
    write_output(file, [page], replace=True)
    typer.echo(f"{output}: {format_count(len(ids), 'run')}, {len(page.encode()) / 1e6:.1f} MB")
    if open_:
        typer.launch(file.absolute().as_uri())


def _select_runs(
    root: "Listing", words: list[str], compare: tuple[str, str] | None, benchmarks: str | None
) -> "RunsToShow":
    """Return the runs of two sides or of a selection that measured these benchmarks. Raises UsageError."""
    from fleet.analysis.base.selection import has_measured
    from fleet.analysis.compare.sides import resolve_sides
    from fleet.analysis.views.show import RunsToShow, select_runs_to_show
    from fleet.plan.benchmark_names import describe_missing

    if compare:
        by_id = {run.run_id: run for run in root.runs}
        ids = dict.fromkeys(run_id for side in resolve_sides(root, compare) for run_id in side.runs["run_id"])
        selected = RunsToShow(tuple(by_id[run_id] for run_id in ids), ())
    else:
        selected = select_runs_to_show(root, words)
    if benchmarks is None:
        return selected
    chosen = tuple(run for run in selected.runs if has_measured(run, benchmarks))
    if not chosen:
        raise UsageError(
            describe_missing(benchmarks, sorted({kind for run in selected.runs for kind in run.benchmarks}))
        )
    return replace(selected, runs=chosen)
