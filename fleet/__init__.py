"""Measure core-to-core latency on a fleet of machines over SSH, and keep the raw
samples.

In a notebook: `import fleet`, then `fleet.open("results")` or `fleet.measure("rpi5")`
(docs/reading.md).
"""

import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from fleet import errors
from fleet.late import import_on_access
from fleet.model.version import VERSION

if TYPE_CHECKING:
    from fleet.analysis.results import Results
    from fleet.inventory.reader import InventoryFile
    from fleet.plan.keywords import PlanKeywords
    from fleet.session.events import Outcome
else:  # a type checker then sees a name that is not there
    __getattr__ = import_on_access(__name__)

__all__ = ["Results", "__version__", "errors", "measure", "open"]
__version__ = VERSION
_INVENTORY = Path("inventory.yaml")


def __dir__() -> list[str]:
    return __all__


def open(root: str | Path | None = None) -> "Results":  # noqa: A001  as in `fleet.open`
    """Open a results root, a folder or s3://bucket/prefix. Methods of `Results` read
    its runs when called.

    root: by default, as in commands: $FLEET_RESULTS, `results` of the inventory's
    `fleet:`, or results/.
    """
    from fleet.analysis.results import Results  # noqa: PLC0415  pandas takes a second

    return Results(root or _read_settings(_read_inventory(None))["results"])


def measure(
    hosts: str | Sequence[str] = (),
    benchmarks: str | Sequence[str] | None = None,
    *,
    results: str | Path | None = None,
    inventory: str | Path | None = None,
    labels: Mapping[str, str] | None = None,
    parallel: int | None = None,
    **options: "Unpack[PlanKeywords]",
) -> "Results":
    """Measure hosts as `fleet run` does, store their runs, and return the `Results` of
    only these runs.

    hosts: names and patterns of the inventory; (): all. inventory: a path; None:
    $FLEET_INVENTORY, else inventory.yaml, or this machine if there is no such file. Its
    table `fleet:` has the defaults of results (unless $FLEET_RESULTS is set), labels
    and parallel. options: such as cpus="0-3" (docs/options.md).

    In a notebook a line below the cell shows the progress. Each host that is not
    complete gives a StoreWarning; `failures` of the result maps
    its name to the message. Raises FleetError if no host has a run, and UsageError for
    wrong arguments.
    """
    # Importing fleet is quick, and a session is not.
    from fleet.agent.deploy import check_entries  # noqa: PLC0415
    from fleet.analysis.base import find_last_runs  # noqa: PLC0415
    from fleet.analysis.results import Results  # noqa: PLC0415
    from fleet.console.notebook import notebook_progress  # noqa: PLC0415
    from fleet.inventory.select import (  # noqa: PLC0415
        load_hosts,
        make_local_inventory,
    )
    from fleet.plan.conflicts import require_no_conflicts  # noqa: PLC0415
    from fleet.plan.options import (  # noqa: PLC0415
        naming_keywords,
        parse_keywords,
        parse_labels,
    )
    from fleet.session.runner import make_context, run_session  # noqa: PLC0415
    from fleet.store import Store, new_session_id  # noqa: PLC0415

    with naming_keywords():
        requested = parse_keywords(benchmarks=benchmarks, **options)
    file = _read_inventory(inventory)
    loaded = load_hosts(file) if file else make_local_inventory(_INVENTORY)
    settings = _read_settings(file)
    root = results or settings["results"]
    patterns = [hosts] if isinstance(hosts, str) else hosts
    last_runs = find_last_runs(lambda: root)  # read only if a pattern asks for them
    chosen = loaded.select(patterns, last_runs)
    with naming_keywords():
        require_no_conflicts(chosen, requested)
    check_entries(chosen)  # raises UsageError if the entry of a host cannot work
    store = Store(root)
    store.require_writable()
    # texts of KEY=VALUE, as the inventory's setting is and `parse_labels` takes them
    label_texts = settings.get("label", ())
    if labels:
        label_texts = [f"{key}={value}" for key, value in labels.items()]
    run_labels = parse_labels(label_texts)
    with notebook_progress(chosen) as on_event:
        context = make_context(
            store=store,
            session_id=new_session_id(),
            emit=on_event,
            timeout_s=settings.get("connect_timeout", 15.0),
            requested=requested,
            labels=run_labels,
            parallel=parallel or settings.get("parallel", 32),
            lock=settings.get("lock"),
            reconnect_s=settings.get("reconnect", 60.0),
        )
        outcomes = run_session(chosen, context)
    failures = _list_failures(outcomes)
    run_ids = {str(outcome.run_id) for outcome in outcomes if outcome.is_stored}
    if not run_ids:
        raise errors.FleetError("\n".join(failures.values()))
    for message in failures.values():
        warnings.warn(message, errors.StoreWarning, stacklevel=2)
    return Results(root, run_ids, failures)


def _list_failures(outcomes: "Sequence[Outcome]") -> dict[str, str]:
    """Return by host name the messages of hosts that are not complete. Raises
    KeyboardInterrupt if one was interrupted.
    """
    from fleet.session.events import State  # noqa: PLC0415

    if any(outcome.state is State.INTERRUPTED for outcome in outcomes):
        raise KeyboardInterrupt
    return {
        outcome.host.name: outcome.message
        for outcome in outcomes
        if outcome.state is not State.COMPLETE
    }


def _read_inventory(path: str | Path | None) -> "InventoryFile | None":
    """Read the inventory at `path`, by default $FLEET_INVENTORY, else inventory.yaml;
    None if only that is missing. Raises InventoryError.
    """
    from fleet.inventory.reader import read_inventory  # noqa: PLC0415

    named = path or os.environ.get("FLEET_INVENTORY")
    if not named and not os.path.lexists(_INVENTORY):
        return None
    return read_inventory(Path(named or _INVENTORY), is_named=bool(named))


def _read_settings(file: "InventoryFile | None") -> dict[str, Any]:
    """Return the inventory's default options by parameter; `results` is always set.
    Raises InventoryError.
    """
    settings = file.read_settings() if file else {}
    root = os.environ.get("FLEET_RESULTS") or settings.get("results", "results")
    return {**settings, "results": root}
