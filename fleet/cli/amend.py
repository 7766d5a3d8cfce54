"""The commands that amend published runs: label, withdraw."""

from typing import Annotated

import typer

from fleet.cli import completion
from fleet.cli.app import RESULTS, ResultsPath, app, print_text, terminal


@app.command(short_help="Set or remove labels of stored runs.")
def label(
    select: Annotated[
        str,
        typer.Argument(
            help="The runs, as `fleet runs` selects them.", autocompletion=completion.complete_runs
        ),
    ],
    labels: Annotated[list[str], typer.Argument(help="key=value to set, key= to remove.")],
    results: ResultsPath = RESULTS,
) -> None:
    """Set labels of stored runs; samples stay as they were written.

    Example: fleet label rome@kernel=old bios=2.1
    """
    from fleet.analysis.base.selection import select as select_runs
    from fleet.errors import UsageError
    from fleet.hostnames import join_names
    from fleet.plan.options import parse_labels
    from fleet.store import Store
    from fleet.text import counted

    removed = [text[:-1] for text in labels if text.endswith("=")]
    values = parse_labels([text for text in labels if not text.endswith("=")])
    if both := sorted(values.keys() & set(removed)):
        raise UsageError(f"{both[0]}: either set it or remove it.")
    store = Store(results)
    runs = select_runs(store.list_runs(), [select], store.place)
    store.label([run.run_id for run in runs], {**values, **dict.fromkeys(removed)})
    hosts = join_names(run.host_name for run in runs)
    print_text(f"Labelled {counted(len(runs), 'run')} of {hosts}: {' '.join(labels)}.")


@app.command(short_help="Keep runs, but read them no longer.")
def withdraw(
    select: Annotated[
        list[str] | None,
        typer.Argument(help="Runs; default: list those withdrawn.", autocompletion=completion.complete_runs),
    ] = None,
    undo: Annotated[bool, typer.Option("--undo", help="Read the runs again.")] = False,
    results: ResultsPath = RESULTS,
) -> None:
    """Keep runs, but read them no longer, until --undo.

    Example: fleet withdraw r20261121T170344Z-10246bc8
    """
    from fleet.analysis.base.selection import select as select_runs
    from fleet.analysis.views.runs import render_runs
    from fleet.store import Listing, Store
    from fleet.text import counted

    store, root = Store(results), Listing(results)
    counting = {run.run_id for run in root.runs}
    listed = [run for run in root.all_runs if (run.run_id in counting) != (undo or not select)]
    if not select:
        width = terminal()["width"]
        print_text(render_runs(listed, width=width) if listed else "No run is withdrawn.")
        return
    runs = select_runs(listed, select, store.place)
    store.withdraw([run.run_id for run in runs], undo=undo)
    done = "Read again" if undo else "Withdrawn, and kept"
    print_text(f"{done}: {counted(len(runs), 'run')}. `fleet withdraw` lists those withdrawn.")
