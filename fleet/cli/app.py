"""The typer app, the options that many commands take, signals, and printing to a
terminal.
"""

import os
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial, wraps
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, TextIO, TypeVar, cast

import typer

from fleet import store
from fleet.cli import completion
from fleet.cli.parser import ParserError, Program, is_given
from fleet.cli.streams import escape_controls
from fleet.errors import EXIT_INTERRUPTED, MemoryLimitError, UsageError
from fleet.model import Condition, Host, InputError, LockPolicy, RequestedOptions
from fleet.model.version import VERSION
from fleet.plan.kinds import (
    CONDITIONS,
    LONGEST_WAIT_S,
    Kind,
    format_duration,
    make_duration_kind,
)

if TYPE_CHECKING:
    from fleet.inventory.reader import InventoryFile
    from fleet.inventory.select import Inventory

_Function = TypeVar("_Function", bound=Callable[..., Any])
app = Program(
    name="fleet",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
# for what is needed now and then
upkeep_command = partial(app.command, rich_help_panel="Upkeep")

INVENTORY = Path("inventory.yaml")


def option(text: str, usage: str = "", complete: Any = None, **settings: Any) -> Any:
    """Return a typer option. text: its help. usage: flags and metavar, "--cpus -c
    CPUS"; "": typer's own.
    """
    flags = [word for word in usage.split() if word.startswith("-")]
    metavar = " ".join(word for word in usage.split() if word not in flags) or None
    return typer.Option(
        *flags, metavar=metavar, help=text, autocompletion=complete, **settings
    )


Select = Annotated[
    list[str] | None,
    typer.Argument(
        help=(
            "Hosts: names, groups, globs, label=value, 'age>7d'; !… excludes. Default:"
            " all."
        ),
        autocompletion=completion.complete_hosts,
    ),
]


def find_inventory() -> Path:
    """Return the inventory's path when no option names it: $FLEET_INVENTORY, else
    inventory.yaml.
    """
    return Path(os.environ.get("FLEET_INVENTORY") or INVENTORY)


def read_inventory(path: Path) -> "InventoryFile | None":
    """Read the inventory once for the running command; None if there is no such file.
    Raises InventoryError.
    """
    if not os.path.lexists(path):
        return None
    is_named = is_given("inventory") or bool(os.environ.get("FLEET_INVENTORY"))
    return _read_inventory_once(path, is_named)


@cache
def _read_inventory_once(path: Path, is_named: bool) -> "InventoryFile":
    # it takes 30 ms to load, which commands without an inventory need not pay
    from fleet.inventory import reader

    return reader.read_inventory(path, is_named=is_named)


def load_settings(path: Path) -> dict[str, Any]:
    """Return option defaults by parameter name from an inventory's table `fleet:`.
    Raises InventoryError.
    """
    file = read_inventory(path)
    return file.read_settings() if file else {}


def expand_group_names(
    context: typer.Context, texts: list[str] | None
) -> list[str] | None:
    """Replace inventory groups by their hosts in words that select runs; without
    groups, or while a shell completes a word, return `texts`.
    """
    if context.resilient_parsing:
        return texts
    words = {part for text in texts or () for part in text.removeprefix("!").split(",")}
    file = read_inventory(find_inventory()) if words else None
    if file is None or words.isdisjoint(file.values.get("groups", ())):
        return texts
    from fleet.inventory.select import load_hosts

    # only a program of its own could say which hosts a group has
    inventory = load_hosts(file, None if "hosts_from" in file.values else {})
    members = {
        name: ",".join(hosts) for name, hosts in inventory.groups.items() if hosts
    }
    return [
        "!" * text.startswith("!")
        + ",".join(members.get(p, p) for p in text.removeprefix("!").split(","))
        for text in texts or ()
    ]


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


SelectRuns = Annotated[
    list[str] | None,
    make_runs_argument(
        "Hosts, groups, globs, web[01-04], label=value, host@label=value, age<7d, run"
        " ids; !… excludes."
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
    str | None,
    option(
        "Only these: 0-7, a kind of core (P, E, big, middle, LITTLE), or cores: one CPU"
        " of each.",
        "--cpus -c CPUS",
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


def _apply_settings(context: typer.Context, path: Path) -> Path:
    """Set the defaults of the command's options from the inventory's table `fleet:`;
    return its path.
    """
    context.default_map = load_settings(path)
    return path


InventoryPath = Annotated[
    Path,
    option(
        "The inventory. [$FLEET_INVENTORY, else inventory.yaml]",
        "--inventory -i",
        envvar="FLEET_INVENTORY",
        is_eager=True,
        callback=_apply_settings,
        show_default=False,
    ),
]


def _resolve_and_check_root(context: typer.Context, text: str) -> str:
    if not is_given("results"):
        text = load_settings(context.params.get("inventory") or find_inventory()).get(
            "results", text
        )
    # of addresses: libraries and threads reserve many
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if (
        limit != resource.RLIM_INFINITY and limit < NEEDED_BYTES
    ):  # pyarrow, numpy or scipy would abort
        raise MemoryLimitError(
            f"the address space of this process is limited to {limit >> 20} MiB"
            f" (`ulimit -v`), and fleet needs {NEEDED_BYTES >> 20} MiB to read or write"
            " tables. Raise the limit: `ulimit -v unlimited`."
        )
    if not text.strip():
        raise typer.BadParameter(
            "names no place; give a folder, or s3://bucket/prefix."
        )
    if (
        not text.isprintable()
    ):  # nor are bytes other than UTF-8, which pyarrow cannot write to
        raise typer.BadParameter("the name is not plain text in UTF-8.")
    path = os.path.expanduser(text)  # noqa: PTH111  as the two below it raises nothing
    if os.path.islink(path) and not os.path.exists(path):  # noqa: PTH110, PTH114
        raise typer.BadParameter(
            f"{text} is a symbolic link to nothing; make the folder that it names."
        )
    if os.path.exists(path) and not os.path.isdir(path):  # noqa: PTH110, PTH112
        raise typer.BadParameter(f"{text} is a file; a results root is a folder.")
    return text


def _make_duration_option(
    low_s: float, high_s: float, default_s: float, purpose: str
) -> Any:
    """Return an option that takes a duration such as 90, 500ms or 5m; the command gets
    seconds.
    """
    kind = make_duration_kind(low_s, high_s)
    return _make_parsed_option(
        kind, f"{purpose} [default: {format_duration(default_s)}]"
    )


def _make_parsed_option(kind: Kind, text: str) -> Any:
    """Return an option that takes values of this kind; the command gets them parsed."""

    def parse_text(value: Any) -> Any:
        try:
            return kind.read(str(value))
        except InputError as err:
            raise typer.BadParameter(
                f"{err}" if f"{err}"[-1] in ".?" else f"{err}."
            ) from err

    return option(text, kind.metavar, parser=parse_text, show_default=False)


ResultsPath = Annotated[
    str,
    option(
        "Results: a folder, or s3://…. [$FLEET_RESULTS, else results]",
        "--results -r ROOT",
        envvar="FLEET_RESULTS",
        callback=_resolve_and_check_root,
        show_default=False,
    ),
]
Parallel = Annotated[int, option("Hosts at once.", "--parallel -p N", min=1, max=1000)]
NEEDED_BYTES = 1 << 30  # of address space
CONNECT_TIMEOUT_S = 15.0
RECONNECT_S = 60.0
SAME_SIGNAL_S = 1.0
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
    _make_parsed_option(
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
RESULTS = "results"


def join_lists(texts: Sequence[str] | None) -> str | None:
    """Join the values of a repeated option, each a list with commas; None if it was not
    given.
    """
    return ",".join(texts) if texts else None


def load_inventory(path: Path, listed: Mapping[str, Any] | None = None) -> "Inventory":
    """Load the inventory, or just this machine if the default file is missing. Raises
    InventoryError.

    listed: replaces what `hosts_from` lists. {}: the command only names the hosts, for
    which the file need not be trusted.
    """
    from fleet.inventory.reader import read_inventory as read_existing
    from fleet.inventory.select import load_hosts, make_local_inventory

    file = read_inventory(path)
    if file is None and path == INVENTORY:
        typer.echo(
            f"fleet: no {INVENTORY} here: this machine alone. `fleet init` writes one.",
            err=True,
        )
        return make_local_inventory(path)
    return load_hosts(file or read_existing(path, is_named=True), listed)


def select_hosts(
    loaded: "Inventory",
    select: Sequence[str] | None,
    limit: Sequence[str] | None = None,
    results: str | None = None,
) -> tuple[Host, ...]:
    """Return the hosts in both selections. results: a root, read only to select by age;
    None: the one that other commands read. Raises UsageError.
    """

    def find_last_runs() -> dict[str, Any]:
        root = results or os.environ.get("FLEET_RESULTS")
        root = root or load_settings(loaded.path).get("results", RESULTS)
        runs = store.Listing(root).runs
        return {run.host_id: run.started_utc for run in runs}

    within = loaded.select(limit or (), find_last_runs)
    hosts = tuple(
        host for host in loaded.select(select or (), find_last_runs) if host in within
    )
    if not hosts:
        raise UsageError(
            f"--limit {','.join(limit or ())}: leaves none of these hosts. See `fleet"
            " hosts`."
        )
    return hosts


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


def get_width_and_colour(stream: TextIO | None = None) -> dict[str, Any]:
    """Return a stream's "width" (None for a pipe without $COLUMNS), and in "colour"
    whether to use colour.
    """
    is_terminal = bool(chosen := stream or sys.stdout) and chosen.isatty()
    has_width = is_terminal or os.environ.get("COLUMNS", "").isdigit()
    width = shutil.get_terminal_size().columns if has_width else None
    return {
        "width": width or None,
        "colour": is_terminal and "NO_COLOR" not in os.environ,
    }


def require_usable(hosts: Sequence[Host], requested: RequestedOptions) -> None:
    """Raise UsageError, before any connection, for options that conflict or entries
    that cannot work.
    """
    from fleet.agent.deploy import check_entries
    from fleet.plan.conflicts import require_no_conflicts

    require_no_conflicts(hosts, requested)
    check_entries(hosts)


def skip_damaged(command: _Function) -> _Function:
    """Decorate a command that reads runs: repeat it without damaged runs, then warn of
    them.
    """

    @wraps(command)
    def run_without_damaged(**arguments: Any) -> None:
        from fleet.store.runs import skip_damaged_runs

        def call_command() -> Exception | None:
            try:
                command(**arguments)
            except (ParserError, typer.Exit) as ended:
                return ended
            return None

        if (ended := skip_damaged_runs(call_command)()) is not None:
            raise ended

    return cast("_Function", run_without_damaged)


def open_listing(results: str) -> "store.Listing":
    """Return the listing of a results root. It reports slow steps on stderr."""
    return store.Listing(results, partial(print_text, err=True))


def wrap(text: str, stream: TextIO | None = None) -> str:
    """Wrap a text to the width of a stream's terminal, by default that of stdout."""
    from fleet.analysis.base.text import wrap_to_width

    return wrap_to_width(text, get_width_and_colour(stream)["width"])


def print_text(text: str, *, err: bool = False) -> None:
    """Print a text, wrapped to the terminal."""
    typer.echo(wrap(text, sys.stderr if err else None), err=err)


def print_paged(text: str) -> None:
    """Print a text, wrapped; if it is higher than the terminal, show it in $PAGER."""
    text = wrap(text)
    if (
        sys.stdout.isatty()
        and sys.stdin.isatty()
        and text.count("\n") + 2 > shutil.get_terminal_size().lines
    ):
        # leave at once what fits, keep colours, keep the screen
        os.environ.setdefault("LESS", "FRX")
        failure = _try_pager(text)
        if failure is None:
            return
        if os.environ.get("PAGER"):
            typer.echo(wrap(f"fleet: {failure}; the text follows."), err=True)
    typer.echo(text)


def _try_pager(text: str) -> str | None:
    """Show a text in $PAGER, by default less, but cat on a dumb terminal; return why
    that failed, or None.
    """
    name = os.environ.get("PAGER", "").strip() or (
        "cat" if os.environ.get("TERM") == "dumb" else "less"
    )
    # less then starts no program, and opens and writes no file
    environment = {**os.environ, "LESSSECURE": "1"}
    try:
        pager = subprocess.Popen(
            shlex.split(name), stdin=subprocess.PIPE, env=environment
        )
    except (OSError, ValueError) as err:
        return (
            f"$PAGER, {name}, cannot be started"
            f" ({getattr(err, 'strerror', None) or err})"
        )
    rest: bytes | None = f"{escape_controls(text, colours=True)}\n".encode(
        errors="backslashreplace"
    )
    while pager.returncode is None:
        try:
            pager.communicate(rest)
        except KeyboardInterrupt:  # the pager has it too, and may stay
            rest = None
    code = pager.returncode
    ending = (
        f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
    )
    return None if code in (0, -signal.SIGINT) else f"$PAGER, {name}, {ending}"


@contextmanager
def stop_on_signals(
    on_second_signal: Callable[[], None] = lambda: None,
) -> Iterator[None]:
    """Make SIGTERM end a session as Ctrl-C does, and a second signal end the program at
    once.

    Signals within SAME_SIGNAL_S count as one, since `timeout` signals its child and
    then the process group.
    on_second_signal: called before the program ends at once. Journals keep what
    arrived.
    """
    first = None

    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        nonlocal first
        if first is None:
            first = time.monotonic()
            typer.echo("stopping the agents; once more to leave at once", err=True)
            raise KeyboardInterrupt
        if time.monotonic() - first > SAME_SIGNAL_S:
            on_second_signal()
            os._exit(EXIT_INTERRUPTED)

    before = {
        number: signal.signal(number, interrupt)
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for (
            number,
            handler,
        ) in before.items():  # once signalled, the same may come again while we end
            signal.signal(number, handler if first is None else signal.SIG_IGN)
