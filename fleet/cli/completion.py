"""Completes words in a shell: hosts, groups, labels, runs, benchmarks and the values of options."""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import typer

Completer = Callable[[typer.Context, str], list[str]]
_NEWEST = 50  # runs; more would fill the screen
_LEVELS = ("L1", "L2", "L3", "LLC", "mem")
_GOVERNORS = ("conservative", "ondemand", "performance", "powersave", "schedutil", "userspace")
SUMMARY = "summary:"


def complete_hosts(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete hosts, groups and labels of the inventory; nothing if it cannot be read."""
    return _complete(incomplete, _list_inventory(Path(ctx.params.get("inventory") or "inventory.yaml")))


def complete_runs(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete stored hosts, labels and runs; behind "host@" that host's labels."""
    return _complete(incomplete, _list_runs(_find_results(ctx), incomplete.rpartition(",")[2].lstrip("!")))


def complete_sides(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete stored runs and summaries."""
    return complete_runs(ctx, incomplete) + _complete(incomplete, _list_summaries(_find_results(ctx)))


def complete_stored_benchmarks(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete the stored benchmarks, with and without variants."""
    return _complete(incomplete, _list_stored_benchmarks(_find_results(ctx)))


def complete_benchmarks(_ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete what can be measured, with and without variants."""
    return _complete(incomplete, _list_benchmarks())


def complete_kinds(_ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete the kinds of cores, and the word for one CPU of each."""
    from fleet.model import CORES, KINDS

    return _complete(incomplete, (*KINDS, CORES))


def complete_groups(_ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete the groups of CPUs that `fleet show --cpus-of` lists."""
    from fleet.model import CPU_GROUPS

    return _complete(incomplete, CPU_GROUPS)


def complete_relations(_ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete relations and levels."""
    from fleet.model import Relation

    return _complete(incomplete, (*Relation, *_LEVELS))


def complete_formats(_ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete the formats of an export."""
    from fleet.analysis.exchange.export import DASHBOARDS, EXPORT_FORMATS

    return _complete(incomplete, (*EXPORT_FORMATS, *DASHBOARDS))


def complete_governors(_ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete the governors that Linux has."""
    return _complete(incomplete, _GOVERNORS)


OF_PLAN_OPTIONS = {
    "benchmarks": complete_benchmarks,
    "cpus": complete_kinds,
    "governor": complete_governors,
}


def _find_results(ctx: typer.Context) -> str:
    return str(ctx.params.get("results") or "results")


def _complete(incomplete: str, words: Iterable[str]) -> list[str]:
    """Return the words that begin so; "!" and the items of a list before the last are kept."""
    before, comma, last = incomplete.rpartition(",")
    mark = "!" if last.startswith("!") else ""
    with contextlib.suppress(Exception):  # a traceback on every press of a key would be no help
        chosen = [word for word in dict.fromkeys(words) if word.startswith(last.removeprefix("!"))]
        return [f"{before}{comma}{mark}{word}" for word in chosen]
    return []


def _list_inventory(path: Path) -> Iterator[str]:
    from fleet.hostnames import ALL
    from fleet.inventory.select import load

    inventory = load(path, {})  # no program is started for a completion
    yield from (host.name for host in inventory.hosts)
    yield from inventory.groups
    yield from sorted({f"{key}={value}" for host in inventory.hosts for key, value in host.labels.items()})
    yield ALL


def _list_runs(root: str, incomplete: str) -> Iterator[str]:
    from fleet.store.runs import Listing

    runs = Listing(root).runs
    host, has_label, _ = incomplete.partition("@")
    if has_label:
        labels = {f"{k}={v}" for run in runs if run.host_name == host for k, v in run.labels}
        yield from (f"{host}@{label}" for label in sorted(labels))
        return
    yield from (run.host_name for run in runs)
    yield from sorted({f"{key}={value}" for run in runs for key, value in run.labels})
    yield from (run.run_id for run in runs[: -_NEWEST - 1 : -1])


def _list_summaries(root: str) -> Iterator[str]:
    from fleet.analysis.exchange.imports import load_all_summaries

    yield from (f"{SUMMARY}{name}" for name in load_all_summaries(root)["summary"])


def _list_stored_benchmarks(root: str) -> Iterator[str]:
    from fleet.store.runs import Listing

    kinds = {kind for run in Listing(root).runs for kind in run.benchmarks}
    yield from sorted({kind.partition("/")[0] for kind in kinds} | kinds)


def _list_benchmarks() -> Iterator[str]:
    from fleet.plan.variants import VARIANTS

    yield "all"
    for benchmark, variants in VARIANTS.items():
        yield benchmark
        yield from (f"{benchmark}/{variant}" for variant in variants)
