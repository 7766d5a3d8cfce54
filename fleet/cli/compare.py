"""The commands that judge runs: compare, accept."""

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from fleet import store
from fleet.analysis import base, compare, exchange, reduce, views
from fleet.cli import app as cli
from fleet.cli.app import option
from fleet.errors import EXIT_AT_ANOTHER_LEVEL, EXIT_CHANGED, EXIT_WORSE, UsageError
from fleet.plan.grammars import AGE

if TYPE_CHECKING:
    from fleet.analysis.compare.accept import Acceptance

EXPECTED = "expected.yaml"


@cli.app.command(
    "compare", short_help="Say what changed between runs, and what is equivalent."
)
@cli.skip_damaged
def compare_runs(
    sides: Annotated[
        list[str] | None,
        cli.make_runs_argument(
            "A host, group, label=value, smt=on, host@kernel=6.13*, host@cpus=E, a run,"
            " several by commas, or summary:NAME."
        ),
    ] = None,
    results: cli.ResultsPath = cli.RESULTS,
    benchmark: cli.Benchmarks = None,
    cpus: cli.Cpus = None,
    point: Annotated[
        str | None, option("Compare this point of a ladder: random.512K.huge.")
    ] = None,
    threshold: Annotated[
        str | None, option("The change that matters. [default: 3%]", "SHARE")
    ] = None,
    blocks: Annotated[
        str | None, option("Compare within blocks: time, or a label.")
    ] = None,
    siblings: Annotated[bool, option("Find which of equal machines is odd.")] = False,
    fail_on_change: Annotated[
        bool,
        option(
            "Exit with 20 for a change or an odd machine, 22 for another level, 2"
            " without a verdict."
        ),
    ] = False,
    since: Annotated[
        timedelta | None,
        cli.make_parsed_option(
            AGE, "Only changes dated since, such as 4d; judged by all runs."
        ),
    ] = None,
    json: cli.Json = False,
    csv: cli.Csv = False,
) -> None:
    """Say what changed from the first side to the others, and what is equivalent.

    With a single selection, say what changed on which night.

    Example: fleet compare kernel=6.12 kernel=6.13
    """
    cli.refuse_json_with_csv(json=json, csv=csv)
    if not sides:
        raise UsageError(
            "Name two sides, or one to see what changed when: fleet compare rome milan."
        )
    root = cli.open_listing(results)
    only = reduce.Only(cli.join_lists(benchmark), cli.join_lists(cpus))
    show = partial(_print_answer, json=json, csv=csv)
    limits = {"threshold": read_share(threshold), "only": only}
    if siblings:
        _refuse_point_and_blocks(point, blocks)
        _refuse_since(since)
        code = _print_siblings(root, sides, show, **limits)
    elif cli.has_summary(sides):
        _refuse_since(since)
        _refuse_parts_of_summary(only, point, blocks, threshold)
        _print_beside_summaries(root, sides, show)
        code = None  # no verdict
    elif len(sides) == 1:
        _refuse_point_and_blocks(point, blocks)
        code = _print_changes(root, sides, show, since, **limits)
    else:
        _refuse_since(since)
        code = _print_comparisons(
            root, sides, show, **limits, point=point, blocks=blocks
        )
    if fail_on_change:
        _exit_with_verdict(code)


def _refuse_point_and_blocks(point: str | None, blocks: str | None) -> None:
    if point is not None or blocks is not None:
        raise UsageError("--point and --blocks: only for two or more sides.")


def _refuse_since(since: timedelta | None) -> None:
    if since is not None:
        raise UsageError("--since: only for what changed when, of a single selection.")


def _refuse_parts_of_summary(
    only: "reduce.Only", point: str | None, blocks: str | None, threshold: str | None
) -> None:
    """Refuse options that a summary cannot take: it is shown whole, and not judged."""
    selects_part = only != reduce.Only()
    options = (point, blocks, threshold)
    if selects_part or any(option is not None for option in options):
        raise UsageError(
            "--benchmark, --cpus, --point, --blocks and --threshold: not for a summary."
        )


def _exit_with_verdict(code: int | None) -> NoReturn:
    """Exit with the code of a verdict. code: None if there is no verdict."""
    if code is None:
        raise UsageError(
            "--fail-on-change: no verdict is possible, for the reason given above."
        )
    raise typer.Exit(code)


_Show = Callable[..., None]  # `_print_answer`
_Format = Callable[[Any], str]


def _print_answer(
    answer: Any,
    as_text: _Format,
    as_json: _Format,
    as_csv: _Format,
    *,
    json: bool,
    csv: bool,
) -> None:
    """Print an answer as text, or as JSON or CSV if asked for."""
    if json:
        typer.echo(as_json(answer).rstrip("\n"))
    elif csv:
        typer.echo(as_csv(answer).rstrip("\n"))
    else:
        cli.print_paged(as_text(answer))


def _print_beside_summaries(
    root: "store.Listing", sides: list[str], show: _Show
) -> None:
    rows = exchange.tabulate_side_medians(root, sides)
    as_json = partial(base.format_document, "beside")
    show(rows, exchange.render_sides, as_json, base.format_csv)


def _print_comparisons(
    root: "store.Listing", sides: list[str], show: _Show, **options: Any
) -> int | None:
    """Print a comparison. Return the exit code of --fail-on-change, or None if there is
    no verdict. A relation is at another level if its number moved between values that a
    host may have by chance.
    """
    results = compare.compare(root, sides, **options)
    width = cli.get_width()
    as_text = partial(views.render_comparisons, width=width)
    show(results, as_text, views.comparisons_as_json, views.comparisons_as_csv)
    if any(result.has_changed for result in results):
        return EXIT_CHANGED
    if any(result.is_at_another_level for result in results):
        return EXIT_AT_ANOTHER_LEVEL
    return 0 if all(result.has_verdict for result in results) else None


def _print_siblings(
    root: "store.Listing", sides: list[str], show: _Show, **options: Any
) -> int | None:
    """Print which of equal machines is odd, that is, differs from the others. Return
    the exit code of --fail-on-change, or None if there is no verdict.
    """
    groups = compare.compare_siblings(root, sides, **options)
    width = cli.get_width()
    as_text = partial(views.render_siblings, width=width)
    show(groups, as_text, views.siblings_as_json, views.siblings_as_csv)
    if not any(group.has_verdict for group in groups):
        return None
    has_odd_host = any(group.odd_hosts for group in groups)
    return EXIT_CHANGED if has_odd_host else 0


def _print_changes(
    root: "store.Listing",
    sides: list[str],
    show: _Show,
    since: timedelta | None,
    **options: Any,
) -> int | None:
    """Print what changed on which night. Return the exit code of --fail-on-change, or
    None if there is no verdict. since: how long ago a change to print may be, at most.

    `elsewhere` has the numbers that are at another level since some night: at a value
    that a host may have by chance.
    """
    past = compare.find_changes_over_time(root, sides, **options)
    if since is not None:
        first_moment = datetime.now(UTC) - since
        past = past.keep_new(first_moment.date())
    show(past, views.render_changes, views.changes_as_json, views.changes_as_csv)
    if not past.has_verdict:
        return None
    if past.has_changed:
        return EXIT_CHANGED
    return EXIT_AT_ANOTHER_LEVEL if len(past.elsewhere) else 0


def read_share(text: str | None) -> float | None:
    """Parse "2%" or "0.02" -> 0.02; None -> None. Raises UsageError unless 0 < share <
    1.
    """
    if text is None:
        return None
    try:
        share = float(text.removesuffix("%"))
        if text.endswith("%"):
            share /= 100
    except ValueError:
        share = 0.0
    if not 0 < share < 1:
        raise UsageError(
            f"--threshold {text}: not a share of more than 0 and less than 100%;"
            " try 3%."
        )
    return share


@cli.app.command(short_help="Say whether machines are as good as they should be.")
@cli.skip_damaged
def accept(
    select: cli.SelectRuns = None,
    expected: Annotated[
        Path | None,
        option("Ranges set by hand. [default: expected.yaml beside the inventory]"),
    ] = None,
    write: Annotated[
        bool, option("Write such a file from these machines' runs, and judge nothing.")
    ] = False,
    run: Annotated[
        bool, option("Measure the hosts first, as `fleet run` does.")
    ] = False,
    threshold: Annotated[
        str | None, option("A smaller deviation is as expected. [default: 3%]", "SHARE")
    ] = None,
    benchmark: cli.Benchmarks = None,
    cpus: cli.Cpus = None,
    inventory: cli.InventoryPath = cli.INVENTORY,
    results: cli.ResultsPath = cli.RESULTS,
    quiet: cli.Quiet = False,
    json: cli.Json = False,
    csv: cli.Csv = False,
) -> None:
    """Hold each host's last run against what is expected: ranges, its earlier runs, and
    equal machines.

    Exit code: 21 if a host is slower, or does less, than expected; else that of --run;
    else 2 if a host cannot be judged.

    Example: fleet accept node7
    """
    from fleet.inventory.expected import read_expected

    cli.refuse_json_with_csv(json=json, csv=csv)
    path = expected or inventory.parent / EXPECTED
    only = reduce.Only(cli.join_lists(benchmark), cli.join_lists(cpus))
    selected: Sequence[str] = select or ("all",)
    code_of_run = 0
    if run:
        plan_texts = {"benchmarks": only.benchmark, "cpus": only.cpus}
        run_ids, code_of_run = _measure(
            inventory, results, select, plan_texts, quiet=quiet
        )
        selected = run_ids  # judge the runs just stored, not earlier ones
    root = cli.open_listing(results)
    judge = partial(
        compare.judge_last_runs,
        root,
        selected,
        load_tables=partial(exchange.compute_model_medians, root),
        only=only,
    )
    if write:
        # the new ranges are of machines as they are since their last changes
        _write_ranges(path, judge(accepts_changes=True))
        return
    ranges = []
    if expected or path.exists():
        ranges = read_expected(path, root.runs)
    acceptances = judge(ranges=ranges, threshold=read_share(threshold))
    if ranges and not _uses_entry_of(path, acceptances):
        text = f"fleet: no entry of {path} is about a number of these hosts."
        typer.echo(text, err=True)
    _print_acceptances(acceptances, json=json, csv=csv)
    code = _choose_exit_code(acceptances, code_of_run)
    if code:
        raise typer.Exit(code)


def _choose_exit_code(acceptances: "Sequence[Acceptance]", code_of_run: int) -> int:
    """Choose the exit code: of a machine that is worse than expected, else that of the
    run before, else of one that cannot be judged; 0 if all is well.
    """
    outcomes = {acceptance.outcome for acceptance in acceptances}
    if any(outcome.is_worse for outcome in outcomes):
        return EXIT_WORSE
    if code_of_run:
        return code_of_run
    if compare.Outcome.CANNOT_TELL in outcomes:
        return UsageError.exit_code
    return 0


def _write_ranges(path: Path, acceptances: "Sequence[Acceptance]") -> None:
    """Write ranges around what is expected, as a file to be read and edited."""
    from fleet.analysis.views import accept as views
    from fleet.store.files import write_output

    write_output(path, [views.propose_ranges(acceptances)])
    typer.echo(f"Wrote {path}. Read it before you rely on it.")


def _uses_entry_of(path: Path, acceptances: "Sequence[Acceptance]") -> bool:
    """Report whether a number was judged by an entry of the file."""
    for acceptance in acceptances:
        for source in acceptance.rows["source"]:
            if source.startswith(f"{path.name}:"):
                return True
    return False


def _print_acceptances(
    acceptances: "Sequence[Acceptance]", *, json: bool, csv: bool
) -> None:
    """Print machines as a line each, or as JSON or CSV if asked for."""
    from fleet.analysis.views import accept as views

    if json:
        typer.echo(views.acceptances_as_json(acceptances))
    elif csv:
        typer.echo(views.acceptances_as_csv(acceptances))
    else:
        # A scheduler reads stdout: a line per host, not wrapped, and nothing else. So
        # the explanation goes to stderr.
        typer.echo(views.render_acceptances(acceptances))
        explanation = views.explain_acceptances(acceptances)
        if explanation:
            typer.echo(explanation, err=True)


def _measure(
    inventory: Path,
    results: str,
    select: list[str] | None,
    plan_texts: Mapping[str, str | None],
    *,
    quiet: bool,
) -> tuple[list[str], int]:
    """Measure hosts. Return the IDs of the stored runs, and the exit code of `fleet
    run`; without stored runs, exit with it. plan_texts: options of the plan by name,
    each as it was given, or None.
    """
    from fleet.cli.run import make_hints, measure_session, show_progress
    from fleet.console.summary import render_outcomes
    from fleet.plan.options import parse_requested
    from fleet.session.events import exit_code

    hosts = cli.select_hosts(cli.load_inventory(inventory), select, results=results)
    requested = parse_requested(plan_texts)
    cli.require_usable(hosts, requested)
    started = time.monotonic()
    root = store.Store(results)
    root.require_writable()
    with show_progress(hosts, (), quiet=quiet, json=False) as on_event:
        outcomes, logs = measure_session(root, hosts, on_event, requested=requested)
    code = exit_code(outcomes)
    if code:
        hints = make_hints(results, inventory, logs)
        seconds = time.monotonic() - started
        cli.print_text(render_outcomes(outcomes, seconds, hints), err=True)
    run_ids = [str(outcome.run_id) for outcome in outcomes if outcome.is_stored]
    if not run_ids:
        raise typer.Exit(code)
    return run_ids, code
