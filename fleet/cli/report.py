"""The command that writes a page to keep and to send: report."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from fleet.cli.app import RESULTS, ResultsPath, SelectRuns, app, open_listing, skip_damaged

Open = Annotated[bool, typer.Option("--open", help="Show it in a browser.")]
Output = Annotated[
    str,
    typer.Option(
        "--output", "-o", help="page.html; card.svg, card.png: the last run; FOLDER/: a site; -: stdout."
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Replace a file that is no report.")]


@app.command(short_help="Write an HTML page, a card of one run, or a site.")
@skip_damaged
def report(
    select: SelectRuns = None,
    output: Output = "fleet-report.html",
    title: Annotated[str | None, typer.Option("--title", help="Its heading.")] = None,
    force: Force = False,
    compare: Annotated[
        tuple[str, str] | None,
        typer.Option("--compare", metavar="A B", help="Two sides, as `fleet compare` takes them."),
    ] = None,
    open_: Open = False,
    results: ResultsPath = RESULTS,
) -> None:
    """Write one self-contained HTML page about hosts, by default those of the last session.

    A card is a picture of the last run; what to paste beside it goes to stdout.

    Example: fleet report rpi5 server1 -o today.html
    """
    from fleet.analysis.compare.sides import sides
    from fleet.analysis.exchange.imports import PREFIX, matching
    from fleet.analysis.report import output as files
    from fleet.analysis.views.show import select_runs_to_show as selected
    from fleet.errors import UsageError
    from fleet.text import counted

    file = Path(output)
    if compare and select:
        raise UsageError("--compare A B names the runs of the page; leave the other words out.")
    root, to_stdout = open_listing(results), output == "-"
    words = [word for word in select or () if not word.startswith(PREFIX)]
    named = [word for word in select or () if word.startswith(PREFIX)]
    to_folder = output.endswith("/") or file.is_dir()
    if named and not to_folder:
        raise UsageError(f"{named[0]}: a summary is part of a site; name a folder, -o site/.")
    if named and not (words and root.runs):
        chosen = []
    elif compare:
        chosen = [run for side in sides(root, compare) for run in side.runs["run_id"]]
    else:
        chosen = [run.run_id for run in selected(root, words).runs]
    if to_folder:
        from fleet.analysis.report.site import write_site

        wanted = set(chosen)
        runs = [run for run in root.runs if run.run_id in wanted]
        typer.echo(write_site(root, runs, file, title, matching(root, named)))
        return
    if not to_stdout:
        files.check(file, force=force)
    if file.suffix in files.CARDS:
        from fleet.analysis.report import card as cards

        card = cards.card_of(root, chosen[-1])
        files.write(file, cards.FORMATS[file.suffix](card))
        typer.echo(cards.markdown(card, file.name))
        return
    from fleet.analysis.report.page import render

    measured = {run.host_id for run in root.runs if run.run_id in set(chosen)}
    page = render(root, chosen, title, compare, words or sorted(measured))
    if to_stdout:
        sys.stdout.write(page)
        return
    files.write(file, page)
    typer.echo(f"{output}: {counted(len(set(chosen)), 'run')}, {len(page.encode()) / 1e6:.1f} MB")
    if open_:
        typer.launch(file.absolute().as_uri())
