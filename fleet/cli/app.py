"""The typer app, and what the modules of commands use as `cli`: common options, the
inventory, the results root, printing and signals.
"""

from functools import partial
from typing import Annotated

import typer

from fleet.cli.inventory_file import (
    INVENTORY,
    RESULTS,
    load_inventory,
    load_settings,
    require_usable,
    select_hosts,
)
from fleet.cli.options import (
    CONNECT_TIMEOUT_S,
    RECONNECT_S,
    Benchmarks,
    ConnectTimeout,
    Cpus,
    Csv,
    DryRun,
    InventoryPath,
    Json,
    Limit,
    Lock,
    Parallel,
    Quiet,
    Reconnect,
    Require,
    ResultsPath,
    Select,
    SelectRuns,
    TypedResultsPath,
    Verbose,
    Wait,
    has_summary,
    join_lists,
    make_parsed_option,
    make_runs_argument,
    option,
    refuse_json_with_csv,
)
from fleet.cli.pager import print_paged
from fleet.cli.parser import Program
from fleet.cli.results_root import open_listing, skip_damaged
from fleet.cli.signals import stop_on_signals
from fleet.cli.terminal import get_width, get_width_and_colour, print_text, wrap
from fleet.model.version import VERSION

__all__ = [
    "CONNECT_TIMEOUT_S",
    "INVENTORY",
    "RECONNECT_S",
    "RESULTS",
    "Benchmarks",
    "ConnectTimeout",
    "Cpus",
    "Csv",
    "DryRun",
    "InventoryPath",
    "Json",
    "Limit",
    "Lock",
    "Parallel",
    "Quiet",
    "Reconnect",
    "Require",
    "ResultsPath",
    "Select",
    "SelectRuns",
    "TypedResultsPath",
    "Verbose",
    "Wait",
    "app",
    "get_width",
    "get_width_and_colour",
    "has_summary",
    "join_lists",
    "load_inventory",
    "load_settings",
    "make_parsed_option",
    "make_runs_argument",
    "open_listing",
    "option",
    "print_paged",
    "print_text",
    "refuse_json_with_csv",
    "require_usable",
    "select_hosts",
    "skip_damaged",
    "stop_on_signals",
    "upkeep_command",
    "wrap",
]

app = Program(
    name="fleet",
    no_args_is_help=True,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "color": True,  # streams.py decides, and not the parser's echo
    },
)
# for what is needed now and then
upkeep_command = partial(app.command, rich_help_panel="Upkeep")


def _show_version(is_given: bool) -> None:
    if is_given:
        typer.echo(f"fleet {VERSION}")
        raise typer.Exit


@app.callback()
def common_options(
    version: Annotated[
        bool,
        option(
            "Show the version.", "--version -V", callback=_show_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Core-to-core latency of a fleet of machines: measured over SSH, raw
    samples kept.
    """
