"""The commands that judge runs: compare, accept."""

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from fleet.cli import app as cli
from fleet.cli.completion import complete_sides
from fleet.errors import EXIT_AT_ANOTHER_LEVEL, EXIT_BELOW, EXIT_CHANGED, UsageError

if TYPE_CHECKING:
    from fleet.store import Listing

EXPECTED = "expected.yaml"


@cli.app.command(short_help="Say what changed between runs, and what is equivalent.")
@cli.skip_damaged
def compare(
    sides: Annotated[
        list[str] | None,
        typer.Argument(
            help="A host, group, label=value, host@label=value, a run, several by commas, or summary:NAME.",
            callback=cli.expand_groups,
            show_default=False,
            autocompletion=complete_sides,
        ),
    ] = None,
    results: cli.ResultsPath = cli.RESULTS,
    benchmark: cli.Benchmarks = None,
    cpus: cli.Cpus = None,
    point: Annotated[
        str | None, typer.Option(help="Compare this point of a ladder: random.512K.huge.")
    ] = None,
    threshold: Annotated[
        str | None, typer.Option(help="The change that matters. [default: 3%]", metavar="SHARE")
    ] = None,
    blocks: Annotated[str | None, typer.Option(help="Compare within blocks: time, or a label.")] = None,
    siblings: Annotated[bool, typer.Option(help="Which of equal machines is odd?")] = False,
    selftest: Annotated[
        bool, typer.Option(help="How often would a host's unchanged runs, or all, be called changed?")
    ] = False,
    fail_on_change: Annotated[
        bool,
        typer.Option(
            help="Exit with 20 for a change or an odd machine, 22 for another level, 2 without a verdict."
        ),
    ] = False,
    json: cli.Json = False,
    csv: cli.Csv = False,
) -> None:
    """Say what changed from the first side to the others, and what is equivalent.

    With a single selection: what changed on which night.

    Example: fleet compare kernel=6.12 kernel=6.13
    """
    from fleet.analysis.exchange import beside
    from fleet.analysis.reduce.comparison_rows import Only

    if json and csv:
        raise typer.BadParameter("--json or --csv, not both.")
    if not (sides or selftest):
        raise UsageError("Name two sides, or one to see what changed when: fleet compare rome milan.")
    root, width, chosen = cli.open_listing(results), cli.describe_terminal()["width"], sides or []
    options = {"threshold": read_share(threshold), "only": Only(cli.join_lists(benchmark), cpus)}
    if selftest:
        answer = _count_false_alarms(root, chosen, width)
    elif siblings or (len(chosen) < 2 and not beside.has_summary(chosen)):
        if point is not None or blocks is not None:
            raise UsageError("--point and --blocks: only to compare two sides or more.")
        compare_runs = _compare_siblings if siblings else _find_changes
        answer = compare_runs(root, chosen, width, **options)
    elif beside.has_summary(chosen):
        answer = _set_beside(root, chosen, [cli.join_lists(benchmark), cpus, point, blocks])
    else:
        answer = _compare_sides(root, chosen, width, **options, point=point, blocks=blocks)
    if json or csv:
        typer.echo((answer.json if json else answer.csv)(answer.result))
    else:
        cli.print_paged(answer.text(answer.result))
    if fail_on_change:
        raise typer.Exit(_exit_code(answer))


class _Answer(NamedTuple):
    """The result of a comparison, what renders it, and what decides --fail-on-change."""

    result: Any
    text: Callable[[Any], str]
    json: Callable[[Any], str]
    csv: Callable[[Any], str]
    has_verdict: bool = False
    has_changed: bool = False
    is_at_another_level: bool = False


def _exit_code(answer: _Answer) -> int:
    """Return the exit code of --fail-on-change."""
    if not answer.has_verdict:
        raise UsageError("--fail-on-change: no verdict is possible, for the reason given above.")
    return EXIT_CHANGED if answer.has_changed else EXIT_AT_ANOTHER_LEVEL if answer.is_at_another_level else 0


def _compare_sides(root: "Listing", sides: list[str], width: int | None, **options: Any) -> _Answer:
    from fleet.analysis.compare.comparison import compare
    from fleet.analysis.views import compare as views

    results = compare(root, sides, **options)
    text = partial(views.render_comparisons, width=width)
    return _Answer(
        *(results, text, views.comparisons_as_json, views.comparisons_as_csv),
        has_verdict=all(result.has_verdict for result in results),
        has_changed=any(result.has_changed for result in results),
        is_at_another_level=any(result.is_at_another_level for result in results),
    )


def _compare_siblings(root: "Listing", sides: list[str], width: int | None, **options: Any) -> _Answer:
    from fleet.analysis.compare.siblings import compare_siblings
    from fleet.analysis.views import siblings as views

    groups = compare_siblings(root, sides, **options)
    return _Answer(
        *(groups, partial(views.render_siblings, width=width), views.siblings_as_json, views.siblings_as_csv),
        has_verdict=any(group.has_verdict for group in groups),
        has_changed=any(group.odd_hosts for group in groups),
    )


def _find_changes(root: "Listing", sides: list[str], _width: int | None, **options: Any) -> _Answer:
    from fleet.analysis.compare.history import find_changes_over_time
    from fleet.analysis.views.over_time import changes_as_csv, changes_as_json, render_changes

    past = find_changes_over_time(root, sides, **options)
    return _Answer(past, render_changes, changes_as_json, changes_as_csv, past.has_verdict, past.has_changed)


def _count_false_alarms(root: "Listing", sides: list[str], width: int | None) -> _Answer:
    from fleet.analysis.compare.false_alarms import count_false_alarms
    from fleet.analysis.views.compare import render_false_alarms

    if len(sides) > 1:
        raise UsageError("--selftest: name one host, or none for all.")
    rates = count_false_alarms(root, host=next(iter(sides), None))
    return _render_table("selftest", rates, partial(render_false_alarms, width=width))


def _set_beside(root: "Listing", sides: list[str], limits: Sequence[str | None]) -> _Answer:
    from fleet.analysis.exchange import beside

    if any(limit is not None for limit in limits):
        raise UsageError("--benchmark, --cpus, --point and --blocks: a summary is shown whole.")
    return _render_table("beside", beside.lay_out_beside(root, sides), beside.render_beside)


def _render_table(name: str, rows: Any, text: Callable[[Any], str]) -> _Answer:
    from fleet.analysis.base.text import format_csv, format_document

    return _Answer(rows, text, partial(format_document, name), lambda rows: format_csv(rows).rstrip("\n"))


def read_share(text: str | None) -> float | None:
    """Parse "2%" or "0.02" -> 0.02; None -> None. Raises UsageError unless 0 < share < 1."""
    if text is None:
        return None
    try:
        share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        share = 0.0
    if not 0 < share < 1:
        raise UsageError(f"--threshold {text}: not a share of more than 0 and less than 100%; try 3%.")
    return share


@cli.app.command(short_help="Say whether machines are as good as they should be.")
@cli.skip_damaged
def accept(
    select: cli.SelectRuns = None,
    expected: Annotated[
        Path | None, typer.Option(help="Ranges set by hand. [default: expected.yaml beside the inventory]")
    ] = None,
    write: Annotated[
        bool, typer.Option(help="Write such a file from these machines' runs, and judge nothing.")
    ] = False,
    run: Annotated[bool, typer.Option(help="Measure the hosts first, as `fleet run` does.")] = False,
    threshold: Annotated[
        str | None, typer.Option(help="A smaller deviation is as expected. [default: 3%]", metavar="SHARE")
    ] = None,
    benchmark: cli.Benchmarks = None,
    cpus: cli.Cpus = None,
    inventory: cli.InventoryPath = cli.INVENTORY,
    results: cli.ResultsPath = cli.RESULTS,
    json: cli.Json = False,
    csv: cli.Csv = False,
) -> None:
    """Hold each host's last run against what is expected: ranges, its earlier runs, and equal machines.

    Exit code 21 if a host is below what is expected, else that of --run, 2 if nothing can be told of one.

    Example: fleet accept node7
    """
    from fleet.analysis.compare import Outcome, judge_last_runs
    from fleet.analysis.exchange import load_model
    from fleet.analysis.reduce.comparison_rows import Only
    from fleet.analysis.views import accept as views
    from fleet.inventory.expected import read_expected
    from fleet.store.files import write_output

    if json and csv:
        raise typer.BadParameter("--json or --csv, not both.")
    path = expected or inventory.parent / EXPECTED
    only, code = Only(cli.join_lists(benchmark), cpus), 0
    if run:
        select, code = _measure(inventory, results, select, only.benchmark)
    root = cli.open_listing(results)
    tables = partial(load_model, root)
    if write:
        proposal = views.propose_ranges(
            judge_last_runs(root, select or ("all",), load_tables=tables, only=only)
        )
        write_output(path, [proposal])
        typer.echo(f"Wrote {path}. Read it before you rely on it.")
        return
    ranges = read_expected(path) if expected or path.exists() else []
    acceptances = judge_last_runs(
        root, select or ("all",), ranges, load_tables=tables, threshold=read_share(threshold), only=only
    )
    if ranges and not any(
        acceptance.rows["source"].str.startswith(f"{path.name}:").any() for acceptance in acceptances
    ):
        typer.echo(f"fleet: no entry of {path} is about a number of these hosts.", err=True)
    if json or csv:
        typer.echo((views.acceptances_json if json else views.acceptances_csv)(acceptances))
    else:
        typer.echo(views.acceptances_text(acceptances))  # a line stays one
    outcomes = {acceptance.outcome for acceptance in acceptances}
    if Outcome.BELOW in outcomes:
        raise typer.Exit(EXIT_BELOW)
    if code or Outcome.CANNOT_TELL in outcomes:
        raise typer.Exit(code or UsageError.exit_code)


def _measure(
    inventory: Path, results: str, select: list[str] | None, benchmarks: str | None
) -> tuple[list[str], int]:
    """Measure hosts; return the ids of their runs, and the exit code of `fleet run`. Exits without runs."""
    from fleet.cli.run import measure_session, repeat_options, show_progress
    from fleet.console.summary import render_outcomes
    from fleet.plan.options import parse_requested
    from fleet.session.events import exit_code
    from fleet.store import Store

    hosts = cli.select_hosts(cli.load_inventory(inventory), select, results=results)
    requested = parse_requested({"benchmarks": benchmarks})
    cli.check_hosts(hosts, requested)
    store, started = Store(results), time.monotonic()
    store.make_ready()
    with show_progress(hosts, (), quiet=False, json=False) as on_event:
        outcomes, logs = measure_session(store, hosts, on_event, requested=requested)
    if code := exit_code(outcomes):
        hints = repeat_options(results, inventory, logs)
        cli.print_text(render_outcomes(outcomes, time.monotonic() - started, hints), err=True)
    run_ids = [str(outcome.run_id) for outcome in outcomes if outcome.is_stored]
    if not run_ids:
        raise typer.Exit(code)
    return run_ids, code
