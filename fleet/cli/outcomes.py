"""How `run` and `resume` end on the terminal: the outcomes, the numbers, and commands that can be pasted."""

import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from fleet.cli.app import INVENTORY, RESULTS, terminal

if TYPE_CHECKING:
    from fleet.console.summary import Hints
    from fleet.session.outcome import Outcome
    from fleet.store import Store


def hints(results: str, inventory: Path, logs: str) -> "Hints":
    """The options to repeat in a command: those that are not what the command would take anyway."""
    from fleet.console.summary import Hints

    usual = (os.environ.get("FLEET_RESULTS", RESULTS), os.environ.get("FLEET_INVENTORY", str(INVENTORY)))
    given = (("-r", results, usual[0]), ("-f", str(inventory), usual[1]))
    at, of = (f"{flag} {shlex.quote(value)}" if value != default else "" for flag, value, default in given)
    return Hints(at, of, logs)


def print_outcomes(
    store: "Store", outcomes: "Sequence[Outcome]", hints: "Hints", *, json: bool, without: str = ""
) -> None:
    """Print the end of a session, for programs or for people; `without` where nothing has become of it."""
    from fleet.console.summary import outcomes_json

    if json:
        typer.echo(outcomes_json(outcomes))
        return
    from fleet.analysis.views.text import fitted
    from fleet.console.numbers import medians_text
    from fleet.console.summary import outcomes_text

    page = terminal()
    text = outcomes_text(outcomes, hints, medians_text(store, outcomes, **page)) if outcomes else without
    typer.echo(fitted(text, page["width"]))
