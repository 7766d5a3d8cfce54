"""The command that sets runs side by side: compare."""

from typing import Annotated

import typer

from fleet.cli.app import (
    RESULTS,
    Json,
    OfBenchmark,
    OfCpus,
    ResultsPath,
    app,
    paged,
    print_text,
    runs_apart,
    terminal,
)
from fleet.cli.completion import side_words
from fleet.errors import EXIT_CHANGED, UsageError


@app.command(short_help="Say what changed between runs, and what is equivalent.")
@runs_apart
def compare(
    sides: Annotated[
        list[str],
        typer.Argument(
            help="A host, label=value, host@label=value, a run, runs joined by commas, or summary:NAME.",
            autocompletion=side_words,
        ),
    ],
    results: ResultsPath = RESULTS,
    benchmark: OfBenchmark = None,
    cpus: OfCpus = None,
    point: Annotated[
        str | None,
        typer.Option(help="Compare this point of a ladder, such as random.512K.huge, not its levels."),
    ] = None,
    threshold: Annotated[
        str | None,
        typer.Option(help="The change that matters, as 2%; default: 3%."),
    ] = None,
    blocks: Annotated[
        str | None,
        typer.Option(help="Compare within blocks of runs of both sides: time, or the name of a label."),
    ] = None,
    fail_on_change: Annotated[
        bool,
        typer.Option(
            "--fail-on-change",
            help="Exit with 20 if a relation changed, or may have; 2 if no verdict is possible.",
        ),
    ] = False,
    json: Json = False,
    csv: Annotated[bool, typer.Option("--csv", help="Print the relations as CSV instead of text.")] = False,
) -> None:
    """Compare sides with the first, A: what changed, what is equivalent, what these runs cannot tell.

    Example: fleet compare kernel=6.12 kernel=6.13
    """
    from fleet.analysis.compare import comparison as analysis
    from fleet.analysis.exchange import beside as description
    from fleet.analysis.reduce.cells import Only
    from fleet.analysis.views import compare as views
    from fleet.analysis.views.text import csv_text, json_text
    from fleet.store import Listing

    if json and csv:
        raise typer.BadParameter("--json or --csv, not both.")
    root = Listing(results)
    if description.is_beside(sides):
        if fail_on_change:
            raise UsageError("--fail-on-change: a summary allows no verdict.")
        if any(one is not None for one in (benchmark, cpus, point, blocks)):
            raise UsageError("--benchmark, --cpus, --point and --blocks: a summary is shown whole.")
        points = description.has_points(sides)
        rows = (description.beside_points if points else description.beside)(root, sides)
        text = description.beside_points_text if points else description.beside_text
        shown = json_text(rows) if json else csv_text(rows).rstrip("\n") if csv else text(rows)
        (typer.echo if json or csv else print_text)(shown)
        return

    if len(sides) < 2:
        raise UsageError("compare takes two sides or more; `fleet show` shows one.")
    found = analysis.compare(
        root, sides, threshold=_share(threshold), only=Only(benchmark, cpus), point=point, blocks=blocks
    )
    if json or csv:
        typer.echo((views.compare_json if json else views.compare_csv)(found))
    else:
        width = terminal()["width"]
        paged(views.compare_text(found, width), width)
    if fail_on_change:
        if not all(one.judged for one in found):
            raise UsageError("--fail-on-change: no verdict is possible, for the reason given above.")
        if any(one.changed for one in found):
            raise typer.Exit(EXIT_CHANGED)


def _share(text: str | None) -> float | None:
    """2% or 0.02 as a share; None stays None. Raises UsageError for anything but 0 < share < 1."""
    if text is None:
        return None
    try:
        share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        share = 0.0
    if not 0 < share < 1:
        raise UsageError(f"--threshold {text}: not a share of more than 0 and less than 100%; try 3%.")
    return share
