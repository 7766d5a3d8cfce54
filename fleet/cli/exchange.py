"""The commands that publish results and take in those of others: report, import,
export.
"""

import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from fleet import store
from fleet.analysis import base, compare, exchange, reduce, report, views
from fleet.cli import app as cli
from fleet.cli.app import option
from fleet.cli.completion import SUMMARY, complete_formats
from fleet.cli.waiting import Count, show_elapsed
from fleet.errors import UsageError
from fleet.text import format_count, one_line, printable

if TYPE_CHECKING:
    from fleet.inventory.expected import ExpectedRange


@cli.app.command(
    "report", short_help="Write an HTML page, a card of one run, or a site."
)
@cli.skip_damaged
def write_report(
    select: cli.SelectRuns = None,
    output: Annotated[
        str,
        option(
            "page.html; card.svg, card.png: a host's last run, or several hosts;"
            " FOLDER/: a site; -: stdout.",
            "--output -o",
        ),
    ] = "fleet-report.html",
    title: Annotated[str | None, option("The heading of a page or picture.")] = None,
    force: Annotated[bool, option("Replace a file that is not a report.")] = False,
    benchmark: cli.Benchmarks = None,
    sides: Annotated[
        tuple[str, str] | None,
        option("Two sides, as `fleet compare` takes them.", "--compare A B"),
    ] = None,
    open_: Annotated[bool, option("Show it in a browser.", "--open")] = False,
    results: cli.ResultsPath = cli.RESULTS,
) -> None:
    """Write one self-contained HTML page about hosts, by default those of the last
    session.

    A card is a picture of a host's last run, or of the numbers of several hosts; what
    to paste beside it goes to stdout.

    Example: fleet report rpi5 server1 -o today.html
    """
    import logging

    from fleet.store.files import write_output

    # it warns of a home that it cannot write to
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    file = Path(output)
    benchmarks = cli.join_lists(benchmark)
    to_stdout = output == "-"
    to_folder = output.endswith("/") or file.is_dir()
    is_picture = file.suffix in report.CARDS and not to_folder
    if sides and (select or is_picture):
        raise UsageError(
            "--compare A B already names the runs, and draws a page: give no other"
            " selection, and -o page.html."
        )
    if benchmarks and to_folder:
        raise UsageError("--benchmark is for pages: a site shows all benchmarks.")
    root = cli.open_listing(results)
    words = [word for word in select or () if not word.startswith(SUMMARY)]
    summaries = [word for word in select or () if word.startswith(SUMMARY)]
    if summaries and not to_folder:
        raise UsageError(
            f"{summaries[0]}: a summary is part of a site; name a folder, -o site/."
        )
    runs = list[store.RunSummary]()
    heading = ""
    # Summaries make a site alone; words beside them add runs, if any are stored.
    adds_runs_to_summaries = words and root.runs
    if not summaries or adds_runs_to_summaries:
        runs, heading = _select_runs_with_heading(root, words, sides, benchmarks)
    ranges = _read_ranges(root, runs)
    if to_folder:
        tables = exchange.find_summaries(root, summaries)
        with show_elapsed(f"drawing {format_count(len(runs), 'run')}"):
            done = report.write_site(root, runs, file, title, tables, heading, ranges)
        typer.echo(done)
        return
    if not to_stdout:
        report.require_writable_output(file, force=force)
    if is_picture:
        _write_picture(root, runs, file, title, benchmarks, ranges)
        return
    count = Count("drawing", len(runs))
    with show_elapsed(count):
        page = report.render(
            root,
            [run.run_id for run in runs],
            title=title,
            sides=sides,
            selection=words or sorted({run.host_id for run in runs}),
            benchmark=benchmarks,
            heading=heading,
            ranges=ranges,
            on_run=count.step,
        )
    if to_stdout:
        sys.stdout.write(page)
        return
    write_output(file, [page], replace=True)
    megabytes = len(page.encode()) / 1e6
    typer.echo(f"{output}: {format_count(len(runs), 'run')}, {megabytes:.1f} MB")
    if open_:
        typer.launch(file.absolute().as_uri())


def _write_picture(
    root: "store.Listing",
    runs: "Sequence[store.RunSummary]",
    file: Path,
    title: str | None,
    benchmarks: str | None,
    ranges: "Sequence[ExpectedRange]",
) -> None:
    """Write the card of a host's last run, or the numbers of several hosts as dots;
    print what to paste beside it. Raises UsageError.
    """
    from fleet.store.files import write_output

    picture: str | bytes
    host_ids = {run.host_id for run in runs}
    if len(host_ids) > 1:
        usual = views.load_usual_numbers(root, runs, reduce.Only(benchmarks))
        layout = report.lay_out_host_picture(usual, title)
        picture = report.draw_hosts(layout, file.suffix)
        paste_text = report.render_hosts_paste_text(layout, file.name)
    else:
        if benchmarks:
            raise UsageError(
                "--benchmark: a card of one run shows its first benchmark."
            )
        last = _find_last(runs)
        card = report.make_card(root, last.run_id, ranges, title or "")
        draw = report.FORMATS[file.suffix]
        picture = draw(card)
        paste_text = report.render_paste_text(card, file.name)
    write_output(file, [picture], replace=True)
    typer.echo(paste_text)


def _read_ranges(
    root: "store.Listing", runs: "Sequence[store.RunSummary]"
) -> "list[ExpectedRange]":
    """Read the expected ranges from the file EXPECTED in the current folder; return []
    if there is none. Raises UsageError.
    """
    from fleet.cli.compare import EXPECTED
    from fleet.inventory.expected import read_expected

    path = Path(EXPECTED)
    if not path.exists():
        return []
    # Ranges may name variants that only a stored run knows. A site of summaries alone
    # reports on no runs, so the root's are not read for that.
    runs_with_variants = root.runs if runs else ()
    return read_expected(path, runs_with_variants)


def _select_runs_with_heading(
    root: "store.Listing",
    words: list[str],
    sides: tuple[str, str] | None,
    benchmarks: str | None,
) -> tuple[list["store.RunSummary"], str]:
    """Return the runs to report on that have these benchmarks, and a heading. They are
    the runs of both `sides`, or without sides those that `words` select. Raises
    UsageError.
    """
    if sides:
        run_by_id = {run.run_id: run for run in root.runs}
        run_ids = dict[str, None]()  # each once, in order
        for side in compare.resolve_sides(root, sides):
            run_ids |= dict.fromkeys(side.runs["run_id"])
        selected = [run_by_id[run_id] for run_id in run_ids]
        runs = base.filter_runs(root, selected, benchmarks)
        return runs, views.render_heading(runs, command="report")
    to_show = views.select_runs_to_show(root, words, benchmarks)
    runs = base.filter_runs(root, to_show.runs, benchmarks)
    left_out = to_show.left_out
    heading = views.render_heading(runs, left_out, to_show.missing, command="report")
    return runs, heading


@cli.app.command(
    "import", short_help="Store matrices of other tools, or runs that others exported."
)
def import_(
    files: Annotated[
        list[Path],
        typer.Argument(
            help="What the tools printed (-: stdin), or runs: .parquet, .zip."
        ),
    ],
    name: Annotated[
        str | None, option("Name of the summary, or host of the runs.", "--name")
    ] = None,
    results: cli.ResultsPath = cli.RESULTS,
    agent: Annotated[
        bool, option("The files are output of `fleet check --script`.")
    ] = False,
    tool: Annotated[
        str | None,
        option(
            "core_latency, c2clat, core-to-core-latency or csv. [default: detected]"
        ),
    ] = None,
    benchmark: Annotated[
        list[str] | None,
        option(
            "Where the files do not say: of each matrix in order, cas,readwrite/c11.",
            "--benchmark -b LIST",
        ),
    ] = None,
    variant: Annotated[
        str | None, option("The instructions it used: cmpxchg, llsc, …")
    ] = None,
    estimator: Annotated[
        str | None, option("median, mean or min. [default: the tool's]")
    ] = None,
    cpus: Annotated[
        str | None,
        option("CPUs of rows and columns: 0-3,8. [default: 0, 1, …]", "--cpus -c"),
    ] = None,
    topology: Annotated[
        str | None, option("A host or run that says what two CPUs share.")
    ] = None,
    sockets: Annotated[
        int, option("Sockets, to guess what two CPUs share.", min=1, max=64)
    ] = 1,
    cpu_model: Annotated[str | None, option("The CPU model.")] = None,
    os: Annotated[str | None, option("linux, qnx, …")] = None,
    conditions: Annotated[str | None, option("Other conditions: 'boost off'.")] = None,
    source: Annotated[
        str | None, option("Where it comes from. [default: the file]")
    ] = None,
    label: Annotated[
        list[str] | None, option("key=value, stored with it; repeatable.")
    ] = None,
) -> None:
    """Store matrices of other tools as a summary, or runs that `fleet export` wrote
    with all samples.

    Example: fleet import friend.csv --name friend-9950x -b cas --cpu-model 'Ryzen 9
    9950X'
    """
    from fleet.analysis.exchange import run_files
    from fleet.plan import benchmark_names, grammars, options

    if agent:
        # `fleet check --script` prints a script that a scheduler, such as Slurm, runs
        # as a step on each host; a file has the output of one step
        labels = options.parse_labels(label or [])
        _import_scheduler_steps_and_exit(files, results, labels)
    if all(file.suffix in run_files.SUFFIXES for file in files):
        typer.echo(run_files.import_runs(results, files, name))
        return
    if name is None:
        raise UsageError("--name is missing: give the summary a name.")

    benchmarks = tuple[benchmark_names.BenchmarkName, ...]()
    if benchmark:
        text = ",".join(benchmark)
        benchmarks = benchmark_names.parse_benchmark_names(text)
    cpu_numbers = None
    if cpus is not None:
        cpu_numbers = options.parse_option("--cpus", cpus, grammars.CPU_NUMBERS)
    metadata = exchange.ImportMetadata(
        tool=tool,
        benchmarks=benchmarks,
        variant=variant,
        estimator=estimator,
        cpus=cpu_numbers,
        cpu_model=cpu_model,
        os=os,
        conditions=conditions,
        source=source,
        topology=topology,
        sockets=sockets,
        labels=options.parse_labels(label or []),
    )
    typer.echo(exchange.import_files(results, files, name, metadata))


def _import_scheduler_steps_and_exit(
    files: list[Path], results: str, labels: Mapping[str, str]
) -> NoReturn:
    """Store what the agents of a scheduler's steps printed, print the outcomes, and
    exit with the code that `fleet run` would have.
    """
    from fleet.cli.run import make_hints, print_outcomes
    from fleet.remote.connect import connect
    from fleet.session.context import HostAccess
    from fleet.session.events import exit_code
    from fleet.session.scheduler_files import import_step_files

    started = time.monotonic()
    root = store.Store(results)
    root.require_writable()
    # Files are imported as hosts are measured: several at once, each with an outcome.
    # That takes an access to hosts, though nothing connects to one.
    access = HostAccess(connect=connect, emit=lambda _: None, parallel=4)
    outcomes = import_step_files(files, root, labels, access)
    hints = replace(make_hints(results, cli.INVENTORY, ""), resumes=False)
    print_outcomes(root, outcomes, started, hints, json=False)
    raise typer.Exit(exit_code(outcomes))


@cli.app.command(short_help="Write a run as CSV, or as another tool prints it.")
@cli.skip_damaged
def export(
    select: Annotated[
        list[str] | None,
        cli.make_runs_argument(
            "Runs, or summary:NAME; default: all. A matrix is of the last run."
        ),
    ] = None,
    results: cli.ResultsPath = cli.RESULTS,
    format_: Annotated[
        str,
        option(
            "Matrix: csv, core-to-core-latency, hwloc. Every sample: samples. Every"
            " number of each run: numbers. Of hosts: table (CSV; -o x.md, x.tex), bmf,"
            " openmetrics, markdown.",
            "--format -F",
            complete_formats,
        ),
    ] = "csv",
    benchmark: cli.Benchmarks = None,
    value: Annotated[
        str | None,
        option(
            "A pair's number: median, mean, min, p10, p99 or max. [default: the tool's]"
        ),
    ] = None,
    output: Annotated[
        Path | None,
        option(
            "The file; .parquet: the run itself, .zip: all selected, without names."
            " [default: stdout]",
            "--output -o",
        ),
    ] = None,
    keep: Annotated[
        list[str] | None,
        option("Keep in a file of runs: labels, hostname; repeatable."),
    ] = None,
    without_samples: Annotated[
        bool,
        option(
            "Write medians with intervals to a file of runs, not samples.", "--medians"
        ),
    ] = False,
) -> None:
    """Write a run as CSV, as another tool prints it, or runs whole, for `fleet import`.

    Example: fleet export rpi5 -b cas -o rpi5.csv
    """
    from fleet.analysis.exchange import export as exports
    from fleet.analysis.exchange.number_table import TABLE
    from fleet.analysis.exchange.run_files import SUFFIXES
    from fleet.plan.options import parse_choice

    parse_choice("--format", format_, (*exports.EXPORT_FORMATS, *exports.DASHBOARDS))
    if value is not None:
        parse_choice("--value", value, exports.VALUES)
        exports.require_matrix_format(format_)
    is_run_file = output is not None and output.suffix in SUFFIXES
    if without_samples and not is_run_file:
        raise UsageError(
            "--medians needs --output with the name of a .parquet or .zip file."
        )
    root = store.Listing(results, must_exist=True)
    benchmarks = cli.join_lists(benchmark)
    if output is not None and is_run_file:
        if benchmarks:
            raise UsageError(
                "--benchmark: a file of runs holds whole runs; leave the option out."
            )
        _export_whole_runs(root, select, output, keep or (), medians=without_samples)
        return
    pieces: Iterable[str]
    progress: object = "writing"  # for the terminal: a text, or a count of runs
    if format_ in (*exports.DASHBOARDS, TABLE):
        pieces = [_format_hosts(root, select, format_, benchmarks, output)]
    elif format_ in (exports.SAMPLES, exports.NUMBERS):
        runs = base.select_runs(root.runs, select or ["all"], root)
        count = Count("writing", len(runs))
        pieces = exports.export_rows(root, runs, format_, benchmarks, count.step)
        # numbers are formatted all at once, and never step the count
        if format_ == exports.SAMPLES:
            progress = count
    else:
        pieces = [_format_matrix(root, select, format_, benchmarks, value)]
    _write(pieces, output, progress)


def _export_whole_runs(
    root: "store.Listing",
    select: list[str] | None,
    output: Path,
    keep: Sequence[str],
    *,
    medians: bool,
) -> None:
    """Write all selected runs to a .zip, or the last of them to a .parquet. keep: what
    is not made anonymous. medians: write these instead of samples.
    """
    from fleet.analysis.exchange.run_files import export_runs

    if output.suffix == ".zip":
        run_ids = _select_run_ids(root, select)
    else:
        run_ids = [_select_last_run_id(root, select)]
    text = export_runs(root, run_ids, output, keep, medians=medians)
    cli.print_text(text)


def _format_matrix(
    root: "store.Listing",
    select: list[str] | None,
    format_: str,
    benchmarks: str | None,
    value: str | None,
) -> str:
    """Format the matrix of a summary, or of the last selected run."""
    from fleet.analysis.exchange.export import export_matrix

    words = " ".join(select or ())
    if words.startswith(SUMMARY):
        # Several words are no summary's name: `export_matrix` then raises UsageError
        # and suggests the names that contain all of these words.
        return export_matrix(root, words, format_, benchmarks, value)
    run_id = _select_last_run_id(root, select, benchmarks)
    return export_matrix(root, run_id, format_, benchmarks, value)


def _format_hosts(
    root: "store.Listing",
    select: list[str] | None,
    format_: str,
    benchmarks: str | None,
    output: Path | None,
) -> str:
    """Format the number of each host for another program, or as a table. The suffix of
    `output`, such as .md, gives the table's form.
    """
    from fleet.analysis.exchange.export import export_numbers
    from fleet.analysis.exchange.number_table import TABLE, write_number_table

    runs = views.select_runs_to_show(root, select or (), benchmarks).runs
    only = reduce.Only(benchmarks)
    if format_ == TABLE:
        usual = views.load_usual_numbers(root, runs, only)
        return write_number_table(usual, output.suffix if output else "")
    ranges = _read_ranges(root, runs)
    return export_numbers(root, runs, format_, only, ranges)


def _select_run_ids(root: "store.Listing", select: list[str] | None) -> list[str]:
    """Return the IDs of the selected runs, by default all."""
    runs = base.select_runs(root.runs, select or ["all"], root)
    return [run.run_id for run in runs]


def _select_last_run_id(
    root: "store.Listing", select: list[str] | None, benchmark: str | None = None
) -> str:
    """Return the ID of the last selected run that has samples of `benchmark`; if it is
    not the only one, say so on stderr. Raises UsageError if none measured it.
    """
    selected = base.select_runs(root.runs, select or ["all"], root)
    runs = base.filter_runs(root, selected, benchmark)
    return _find_last(runs, len(selected)).run_id


def _find_last(
    runs: "Sequence[store.RunSummary]", selected: int = 0
) -> "store.RunSummary":
    """Return the last run that has samples. If several runs were selected, say on
    stderr which one this is.

    selected: how many runs were selected, if `runs` are only a part of them; 0: `runs`
    are all.
    """
    last = base.find_last_with_samples(runs)
    count = selected or len(runs)
    if count > 1:
        name = one_line(last.host_name)
        words = f"1 of {count} runs: the last, {last.run_id} of {name}."
        cli.print_text(words, err=True)
    return last


def _write(
    text: Iterable[str], output: Path | None, progress: object = "writing"
) -> None:
    """Write text to a file or to stdout. progress: what a terminal shows meanwhile."""
    from fleet.store.files import write_output

    file = output
    if str(output) == "-":
        file = None  # stdout
    if file is None and sys.stdout.isatty():  # text on a terminal is progress enough
        sys.stdout.writelines(text)
        return
    with show_elapsed(progress):
        if file is None:
            # the program has made stdout escape control characters, as `printable` does
            sys.stdout.writelines(text)
        else:
            write_output(file, (printable(piece, kept="\n\t") for piece in text))
