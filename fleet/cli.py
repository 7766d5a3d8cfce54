"""The commands: parse, call one function, print. Floor 5; nobody imports it.

Heavy imports stand inside the commands that need them, so that `fleet --help` answers at once.
"""

import io
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import typer

from fleet import __version__
from fleet.errors import EXIT_INTERRUPTED, FleetError

app = typer.Typer(
    name="fleet",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Select = Annotated[
    list[str] | None,
    typer.Argument(help="Hosts: names, groups, globs, label=value; !… excludes. Default: all."),
]
InventoryPath = Annotated[
    Path, typer.Option("--inventory", "-f", envvar="FLEET_INVENTORY", help="The inventory file.")
]
ResultsPath = Annotated[
    Path, typer.Option("--results", "-r", envvar="FLEET_RESULTS", help="The results root.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
INVENTORY = Path("inventory.yaml")
RESULTS = Path("results")


def _say_version(asked: bool) -> None:
    if asked:
        typer.echo(f"fleet {__version__}")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_say_version, is_eager=True, help="Say the version and exit."),
    ] = False,
) -> None:
    """Core-to-core latency of a fleet of machines: measured over SSH, raw samples kept."""


@app.command()
def init(
    inventory: InventoryPath = INVENTORY,
    from_ssh_config: Annotated[
        bool, typer.Option("--from-ssh-config", help="List the hosts of ~/.ssh/config in it.")
    ] = False,
) -> None:
    """Write a commented inventory.yaml; an existing one is never touched.

    Example: fleet init --from-ssh-config
    """
    from fleet.inventory import starter

    text = (
        starter.from_ssh_config(Path("~/.ssh/config").expanduser()) if from_ssh_config else starter.starter()
    )
    starter.write_new(inventory, text)
    typer.echo(f"Wrote {inventory}. Next: fleet hosts, then fleet run.")


@app.command()
def hosts(select: Select = None, inventory: InventoryPath = INVENTORY, json: Json = False) -> None:
    """Show what the inventory resolves to; connects to nothing.

    Example: fleet hosts 'rpi*' rack=b2 '!rpi-old'
    """
    from fleet import listing
    from fleet.inventory import load

    chosen = load(inventory).select(select or [])
    typer.echo(listing.hosts_json(chosen) if json else listing.hosts_text(chosen))


@app.command()
def run(
    select: Select = None,
    inventory: InventoryPath = INVENTORY,
    results: ResultsPath = RESULTS,
    benchmark: Annotated[
        str | None, typer.Option("--benchmark", "-b", help="cas, readwrite, clock or all, comma-separated.")
    ] = None,
    variant: Annotated[
        str | None,
        typer.Option(
            help="Instructions: auto (the best the CPU has), all, a name, or cas=lse,readwrite=ldar."
        ),
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(help="Sample and estimate as core_latency, core-to-core-latency or c2clat does."),
    ] = None,
    samples: Annotated[
        int | None, typer.Option("--samples", "-s", min=1, max=10_000, help="Samples in a burst.")
    ] = None,
    iterations: Annotated[
        int | None,
        typer.Option(
            "--iterations", "-i", min=1, max=100_000_000, help="Round trips a sample; default: per pair."
        ),
    ] = None,
    warmup: Annotated[int | None, typer.Option(min=0, max=1_000, help="Warm-up samples a burst.")] = None,
    rounds: Annotated[
        int | None,
        typer.Option(
            min=1, max=100_000, help="Visits to every pair; default: 10 over 5 s, then --precision."
        ),
    ] = None,
    precision: Annotated[
        str | None,
        typer.Option(help="Add rounds until each pair is known so well, as 1%, or off; default: 1%."),
    ] = None,
    time_budget: Annotated[
        str | None, typer.Option(help="Seconds after which no round is added; default: generous.")
    ] = None,
    spread: Annotated[
        str | None, typer.Option(help="Seconds the first rounds take at least; default: 5.")
    ] = None,
    pairs: Annotated[
        str | None,
        typer.Option(help="half, ordered (both ways), a list as 0-1,0-4, or per-relation:K; default: half."),
    ] = None,
    ordered: Annotated[bool, typer.Option("--ordered", help="The same as --pairs ordered.")] = False,
    cpus: Annotated[str | None, typer.Option("--cpus", "-c", help="Only these CPUs, as 0-3,8.")] = None,
    order: Annotated[
        str | None, typer.Option(help="Of the pairs in a round: shuffled (default) or sequential.")
    ] = None,
    line: Annotated[
        str | None, typer.Option(help="A fresh cache line for every burst (default), or a fixed one.")
    ] = None,
    owner: Annotated[
        str | None, typer.Option(help="Who touches the lines first: ping (default) or pong.")
    ] = None,
    node: Annotated[
        int | None, typer.Option(min=0, max=65_535, help="Put the lines on this NUMA node.")
    ] = None,
    sep: Annotated[
        int | None, typer.Option(min=4, max=1 << 20, help="Bytes between the two lines of readwrite.")
    ] = None,
    huge_page: Annotated[bool, typer.Option("--huge-page", help="Put the lines in a huge page.")] = False,
    governor: Annotated[
        str | None, typer.Option(help="Set this frequency governor for the run, then restore the old one.")
    ] = None,
    boost: Annotated[
        str | None, typer.Option(help="Set frequency boost on or off for the run, then restore it.")
    ] = None,
    priority: Annotated[
        int | None, typer.Option(min=1, max=98, help="Realtime priority to ask for; a refusal is noted.")
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, max=2**31 - 1, help="Of the shuffled order.")] = None,
    deadline: Annotated[
        int | None, typer.Option(min=1, help="Seconds after which an agent ends itself; default: generous.")
    ] = None,
    label: Annotated[
        list[str] | None, typer.Option("--label", "-l", help="key=value stored with every run; repeatable.")
    ] = None,
    parallel: Annotated[int, typer.Option("--parallel", "-p", min=1, max=1000, help="Hosts at once.")] = 32,
    connect_timeout: Annotated[
        float, typer.Option(min=0.1, max=3600, help="Seconds a host has to answer before it is given up.")
    ] = 15.0,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", "-n", help="Say what would be done; connect to nothing.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress on stderr.")] = False,
    json: Json = False,
) -> None:
    """Measure every CPU pair of the chosen hosts and store the raw samples.

    Example: fleet run servers -b cas,readwrite --rounds 20 -l kernel=6.12
    """
    from fleet import outcomes, reporting, session, wishes
    from fleet.inventory import load
    from fleet.model import PlanWish
    from fleet.progress import progress
    from fleet.remote.connect import connect
    from fleet.store import Store, new_session_id

    chosen = load(inventory).select(select or [])
    wish = PlanWish(
        benchmarks=wishes.benchmarks(benchmark) if benchmark is not None else None,
        samples=samples,
        iterations=iterations,
        warmup=warmup,
        rounds=rounds,
        cpus=wishes.cpus(cpus) if cpus is not None else None,
        node=node,
        separation_bytes=sep,
        huge_page=huge_page or None,
        seed=seed,
        priority=priority,
        deadline_s=deadline,
        **wishes.plan(
            variant=variant,
            preset=preset,
            precision=precision,
            time_budget_s=time_budget,
            spread_s=spread,
            pairs=pairs or ("ordered" if ordered else None),
            order=order,
            line=line,
            owner=owner,
            governor=governor,
            boost=boost,
        ),
    )
    labels = wishes.labels(label or [])
    if dry_run:
        typer.echo(reporting.plans_json(chosen, wish) if json else reporting.plans_text(chosen, wish))
        return
    store = Store(results)
    store.make_ready()
    with progress(chosen, quiet=quiet) as watcher, stop_on_signals():
        shared = session.Session(
            session_id=new_session_id(),
            store=store,
            watcher=watcher,
            wish=wish,
            labels=labels,
            connect=partial(connect, timeout_s=connect_timeout),
        )
        ended = session.run(chosen, shared, parallel)
    typer.echo(reporting.outcomes_json(ended) if json else reporting.outcomes_text(ended))
    raise typer.Exit(outcomes.exit_code(ended))


@app.command()
def check(
    select: Select = None,
    inventory: InventoryPath = INVENTORY,
    benchmark: Annotated[
        str | None,
        typer.Option("--benchmark", "-b", help="Foretell a run of these: cas, readwrite, clock or all."),
    ] = None,
    cpus: Annotated[
        str | None, typer.Option("--cpus", "-c", help="Foretell a run on these CPUs only, as 0-3,8.")
    ] = None,
    pairs: Annotated[
        str | None,
        typer.Option(help="Foretell a run of half, ordered, a list as 0-1,0-4, or per-relation:K."),
    ] = None,
    parallel: Annotated[int, typer.Option("--parallel", "-p", min=1, max=1000, help="Hosts at once.")] = 32,
    connect_timeout: Annotated[
        float, typer.Option(min=0.1, max=3600, help="Seconds a host has to answer before it is given up.")
    ] = 15.0,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress on stderr.")] = False,
    json: Json = False,
) -> None:
    """Name what would disturb a run on each host, its remedy, and what `fleet run` would do; changes nothing.

    Example: fleet check localhost -b cas --pairs per-relation:3
    """
    from fleet import checking, outcomes, wishes
    from fleet.inventory import load
    from fleet.model import PlanWish
    from fleet.progress import progress
    from fleet.remote.connect import connect

    chosen = load(inventory).select(select or [])
    wish = PlanWish(
        benchmarks=wishes.benchmarks(benchmark) if benchmark is not None else None,
        cpus=wishes.cpus(cpus) if cpus is not None else None,
        **wishes.plan(pairs=pairs),
    )
    with progress(chosen, quiet=quiet) as watcher, stop_on_signals():
        checked = checking.check(chosen, partial(connect, timeout_s=connect_timeout), watcher, parallel, wish)
    typer.echo(checking.checks_json(checked) if json else checking.checks_text(checked))
    raise typer.Exit(outcomes.exit_code([one.outcome for one in checked]))


@app.command()
def runs(results: ResultsPath = RESULTS, json: Json = False) -> None:
    """List what is stored: run, host, when, benchmarks, pairs, state.

    Example: fleet runs --json
    """
    from fleet.analysis import runs as views
    from fleet.store import Store

    listed = Store(results).runs()
    typer.echo(views.runs_json(listed) if json else views.runs_text(listed))


@app.command()
def show(
    what: Annotated[
        str | None,
        typer.Argument(help="A run id, the beginning of one, or a host; default: the last session."),
    ] = None,
    results: ResultsPath = RESULTS,
    json: Json = False,
) -> None:
    """Show a run's latencies: by relation, and as a matrix in topology order.

    Example: fleet show rpi5
    """
    from fleet.analysis import show as views
    from fleet.store import Store

    store = Store(results)
    chosen = [store.find(what)] if what is not None else store.last_session()
    if json:
        typer.echo(views.shows_json(results, chosen))
    else:
        typer.echo(views.shows_text(results, chosen, **_terminal()))


def _terminal() -> dict[str, Any]:
    """How wide stdout is and whether it shows colours; no width where nobody looks."""
    if not sys.stdout.isatty():
        return {"width": None, "colour": False}
    return {"width": shutil.get_terminal_size().columns, "colour": "NO_COLOR" not in os.environ}


@contextmanager
def stop_on_signals() -> Iterator[None]:
    """Make SIGTERM end a session as Ctrl-C does, and a second signal end the program at once.

    Nothing is lost by the second: the journals hold what arrived, the agents end with their connections.
    """
    count = 0

    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        nonlocal count
        count += 1
        if count > 1:
            os._exit(EXIT_INTERRUPTED)
        typer.echo("stopping the agents; once more to leave at once", err=True)
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def main() -> None:
    """Run the program; every known error becomes one message and its exit code, never a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a label may hold what the terminal cannot show
    try:
        app()
    except FleetError as err:
        typer.echo(f"fleet: {err}", err=True)
        sys.exit(err.exit_code)
    except OSError as err:
        typer.echo(f"fleet: cannot print the result: {err.strerror or err}", err=True)
        sys.exit(1)
    except KeyboardInterrupt:
        typer.echo("fleet: interrupted", err=True)
        sys.exit(EXIT_INTERRUPTED)
