"""The options and arguments that many commands take."""

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from fleet.cli import completion
from fleet.cli.inventory_file import apply_settings, expand_group_names
from fleet.cli.results_root import (
    resolve_and_check_root,
    resolve_and_require_typed_root,
)
from fleet.model import Condition, InputError, LockPolicy
from fleet.plan.grammars import (
    CONDITIONS,
    LONGEST_WAIT_S,
    Grammar,
    format_duration,
    make_duration_grammar,
)

CONNECT_TIMEOUT_S = 15.0
RECONNECT_S = 60.0


def option(text: str, usage: str = "", complete: Any = None, **settings: Any) -> Any:
    """Return a typer option. text: its help. usage: flags and metavar, "--cpus -c
    CPUS"; "": typer's own.
    """
    words = usage.split()
    flags = [word for word in words if word.startswith("-")]
    metavar = " ".join(word for word in words if word not in flags)
    return typer.Option(
        *flags,
        metavar=metavar or None,
        help=text,
        autocompletion=complete,
        **settings,
    )


def make_runs_argument(text: str) -> Any:
    """Return an argument that selects runs, where groups of the inventory stand for
    their hosts.
    """
    return typer.Argument(
        help=text,
        show_default=False,
        callback=expand_group_names,
        autocompletion=completion.complete_sides,
    )


def has_summary(texts: Sequence[str]) -> bool:
    """Report whether a word of a selection names a summary, as summary:NAME."""
    return any(text.startswith(completion.SUMMARY) for text in texts)


def join_lists(texts: Sequence[str] | None) -> str | None:
    """Join the values of a repeated option, each a list with commas; None if it was not
    given.
    """
    return ",".join(texts) if texts else None


def _make_duration_option(
    low_s: float, high_s: float, default_s: float, purpose: str
) -> Any:
    """Return an option that takes a duration such as 90, 500ms or 5m; the command gets
    seconds.
    """
    grammar = make_duration_grammar(low_s, high_s)
    text = f"{purpose} [default: {format_duration(default_s)}]"
    return make_parsed_option(grammar, text)


def make_parsed_option(grammar: Grammar, text: str) -> Any:
    """Return an option of this grammar; the command gets its values parsed."""

    def parse_text(value: Any) -> Any:
        try:
            return grammar.read(str(value))
        except InputError as err:
            message = str(err)
            end = "" if message.endswith((".", "?")) else "."
            raise typer.BadParameter(message + end) from err

    return option(text, grammar.metavar, parser=parse_text, show_default=False)


def refuse_json_with_csv(*, json: bool, csv: bool) -> None:
    """Refuse to print both JSON and CSV."""
    if json and csv:
        raise typer.BadParameter("--json or --csv, not both.")


def _log_to_stderr(verbosity: int) -> int:
    """Log each step to a host on stderr; from verbosity 2 on, log paramiko, too. Return
    the verbosity.
    """
    if verbosity:
        import logging

        logging.basicConfig(stream=sys.stderr, format="%(message)s")
        logging.getLogger("fleet").setLevel(logging.INFO)
        if verbosity > 1:
            logging.getLogger("paramiko").setLevel(logging.DEBUG)
    return verbosity


Select = Annotated[
    list[str] | None,
    typer.Argument(
        help=(
            "Hosts: names, groups, globs, kind=board, smt=on, 'age>7d'; !… excludes."
            " Default: all."
        ),
        autocompletion=completion.complete_hosts,
    ),
]
SelectRuns = Annotated[
    list[str] | None,
    make_runs_argument(
        "Hosts, groups, globs, web[01-04], label=value, smt=on, host@kernel=6.13*,"
        " age<7d, run ids; !… excludes."
    ),
]
Benchmarks = Annotated[
    list[str] | None,
    option(
        "Only these, as they are printed: cas/c11, 'chase random'; several by commas;"
        " repeatable.",
        "--benchmark -b NAMES",
        completion.complete_stored_benchmarks,
    ),
]
Cpus = Annotated[
    list[str] | None,
    option(
        "Only these: 0-7; a kind of core (P, E, LP, big, middle, LITTLE); cores: one"
        " CPU of each; or what two CPUs share (llc); several by commas.",
        "--cpus -c LIST",
        completion.complete_kinds,
    ),
]
Limit = Annotated[
    list[str] | None,
    option(
        "Of the hosts selected, keep only these; several by commas; repeatable.",
        "--limit -l HOSTS",
        completion.complete_hosts,
    ),
]
Verbose = Annotated[
    int,
    option(
        "Print each step to a host and why it failed; -vv: the SSH library's log, too.",
        "--verbose -v",
        count=True,
        callback=_log_to_stderr,
        show_default=False,
    ),
]
InventoryPath = Annotated[
    Path,
    option(
        "The inventory. [$FLEET_INVENTORY, else inventory.yaml]",
        "--inventory -i",
        envvar="FLEET_INVENTORY",
        is_eager=True,
        callback=apply_settings,
        show_default=False,
    ),
]
_make_results_option = partial(
    option,
    "Results: a folder, or s3://…. [$FLEET_RESULTS, else results]",
    "--results -r ROOT",
    envvar="FLEET_RESULTS",
    show_default=False,
)
ResultsPath = Annotated[str, _make_results_option(callback=resolve_and_check_root)]
# of commands that need no runs, and would not notice that the root is not there
TypedResultsPath = Annotated[
    str, _make_results_option(callback=resolve_and_require_typed_root)
]
Parallel = Annotated[int, option("Hosts at once.", "--parallel -p N", min=1, max=1000)]
ConnectTimeout = Annotated[
    float,
    _make_duration_option(
        0.1, 3600, CONNECT_TIMEOUT_S, "Give up on a host that answers later."
    ),
]
Quiet = Annotated[bool, option("No progress.", "--quiet -q")]
DryRun = Annotated[bool, option("Only print what would be done.", "--dry-run -n")]
Json = Annotated[bool, option("Print JSON.")]
Csv = Annotated[bool, option("Print CSV.")]
Lock = Annotated[
    LockPolicy | None,
    option("What to do if another fleet measures there; default: refuse."),
]
Reconnect = Annotated[
    float,
    _make_duration_option(0, 86_400, RECONNECT_S, "Try to reconnect for this long."),
]
Require = Annotated[
    Any,
    make_parsed_option(
        CONDITIONS,
        f"Leave out hosts that are not {', '.join(Condition)}. [default: none]",
    ),
]
Wait = Annotated[
    float | None,
    _make_duration_option(
        0, LONGEST_WAIT_S, 0, "Wait this long for hosts to meet --require."
    ),
]
