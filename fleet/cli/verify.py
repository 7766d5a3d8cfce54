"""The commands that test what is stored and change nothing: verify, selftest."""

from typing import Annotated

import typer

from fleet.cli.app import RESULTS, UPKEEP, Json, ResultsPath, app, print_text, skip_damaged, terminal


@app.command(rich_help_panel=UPKEEP, short_help="Read all that is stored and name every damaged file.")
def verify(
    root: Annotated[str | None, typer.Argument(help="As --results.")] = None,
    results: ResultsPath = RESULTS,
    json: Json = False,
) -> None:
    """Read all that is stored and name every damaged file.

    Exits with 11 if a file is damaged. Example: fleet verify results
    """
    from dataclasses import asdict, replace

    from fleet.analysis.reduce.pairs import verify_pairs
    from fleet.analysis.views.warnings import verify_marked_bursts
    from fleet.errors import StoreError
    from fleet.store.places import parse_place
    from fleet.store.runs import Listing
    from fleet.store.verify import verify as verify_place
    from fleet.text import as_json, counted

    place = parse_place(root or results)
    result = verify_place(place)
    if not result.problems:  # else what is derived is not made of what was written
        listing = Listing(place)
        result = replace(result, problems=(*verify_pairs(listing), *verify_marked_bursts(listing)))
    problems = result.problems
    if json:
        typer.echo(as_json(asdict(result)))
    else:
        counts = (
            counted(result.runs, "run"),
            counted(result.samples, "sample"),
            counted(result.files, "file"),
        )
        verdict = counted(len(problems), "problem") if problems else "all as written"
        verdict = verdict if result.files or problems else "nothing is stored there"
        typer.echo("\n".join([*problems, f"{', '.join(counts)}: {verdict}."]))
    raise typer.Exit(StoreError.exit_code if problems else 0)


@app.command(rich_help_panel=UPKEEP, short_help="Say how often unchanged machines would be called changed.")
@skip_damaged
def selftest(
    host: Annotated[str | None, typer.Argument(help="Only this host's runs; default: all.")] = None,
    results: ResultsPath = RESULTS,
    json: Json = False,
) -> None:
    """Say how often a comparison would call your unchanged machines changed.

    Example: fleet selftest rpi5
    """
    from fleet.analysis.base.text import json_text, records
    from fleet.analysis.compare.false_alarms import false_alarms
    from fleet.analysis.views.compare import render_false_alarms

    rates = false_alarms(results, host=host)
    if json:
        typer.echo(json_text(records(rates)))
    else:
        print_text(render_false_alarms(rates, terminal()["width"]))
