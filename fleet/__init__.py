"""Measure core-to-core latency on a fleet of machines over SSH, and keep the raw samples.

In a notebook: `import fleet`, then `fleet.open("results")` or `fleet.measure("rpi5")` (docs/reading.md).
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fleet.model.version import VERSION

if TYPE_CHECKING:
    from fleet.analysis.results import Results

__version__ = VERSION


def open(root: str | Path = "results") -> "Results":  # noqa: A001  as in `fleet.open`
    """The runs of a results root, a folder or s3://bucket/prefix, as frames and plots; read when used."""
    from fleet.analysis.results import Results  # noqa: PLC0415  pandas takes a second

    return Results(root)


def measure(
    hosts: str | Sequence[str] = (),
    benchmarks: str | Sequence[str] | None = None,
    *,
    results: str | Path = "results",
    inventory: str | Path | None = None,
    labels: Mapping[str, str] | None = None,
    parallel: int = 32,
    **options: object,
) -> "Results":
    """Measure hosts as `fleet run` does, store their runs, and return these alone, as `open` returns all.

    hosts: names and patterns of the inventory; (): all. inventory: None: inventory.yaml, or without one this
    machine. options: of a plan, as docs/options.md names the keys of an inventory: rounds=20, cpus="0-3".
    Raises FleetError if a host is not complete, though the runs of the others are stored; UsageError.
    """
    # Importing fleet is quick, and a session is not.
    from fleet.agent.deploy import check_entries  # noqa: PLC0415
    from fleet.analysis.results import Results  # noqa: PLC0415
    from fleet.errors import FleetError  # noqa: PLC0415
    from fleet.inventory.select import load, this_machine  # noqa: PLC0415
    from fleet.plan.conflicts import require_no_conflicts  # noqa: PLC0415
    from fleet.plan.options import parse_keywords, parse_labels  # noqa: PLC0415
    from fleet.session.events import ignore  # noqa: PLC0415
    from fleet.session.outcome import State  # noqa: PLC0415
    from fleet.session.runner import make_context, run_session  # noqa: PLC0415
    from fleet.store import Store, new_session_id  # noqa: PLC0415

    path, requested = Path(inventory or "inventory.yaml"), parse_keywords(benchmarks=benchmarks, **options)
    has_file = inventory is not None or path.exists()
    loaded = load(path, named=inventory is not None) if has_file else this_machine(path)
    chosen = loaded.select([hosts] if isinstance(hosts, str) else hosts)
    require_no_conflicts(chosen, requested)
    check_entries(chosen)
    words = [f"{key}={value}" for key, value in (labels or {}).items()]
    store = Store(results)
    store.make_ready()
    settings = {"requested": requested, "labels": parse_labels(words), "parallel": parallel}
    context, _ = make_context(store, new_session_id(), ignore, 15.0, **settings)
    outcomes = run_session(chosen, context)
    if any(outcome.state is State.INTERRUPTED for outcome in outcomes):
        raise KeyboardInterrupt
    if failures := [outcome.message for outcome in outcomes if outcome.state is not State.COMPLETE]:
        raise FleetError("\n".join(failures))
    return Results(results, {str(outcome.run_id) for outcome in outcomes})
