"""The command that tests fleet's own claims on what is stored: selftest."""

from typing import Annotated

import typer

from fleet.cli.app import RESULTS, Json, ResultsPath, app, print_text


@app.command(short_help="Say how often unchanged machines would be called changed.")
def selftest(
    host: Annotated[
        str | None, typer.Argument(help="Only the runs of this host; default: all hosts.")
    ] = None,
    aa: Annotated[  # noqa: ARG001  accepted, as before there was no other test
        bool,
        typer.Option("--aa", hidden=True, help="The one test there is."),
    ] = True,
    results: ResultsPath = RESULTS,
    json: Json = False,
) -> None:
    """Say how often a comparison would call your machines changed though they are not.

    Example: fleet selftest rpi5
    """
    from fleet.analysis.compare import false_alarms as analysis

    found = analysis.false_alarms(results, host=host)
    if json:
        typer.echo(found.to_json(orient="records", indent=2))
    else:
        print_text(analysis.false_alarms_text(found))
