"""What a shell offers for arguments: hosts, groups and labels of the inventory; stored hosts and runs."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import typer

_NEWEST = 50  # runs; more would fill the screen
SUMMARY = "summary:"


def inventory_words(ctx: typer.Context, incomplete: str) -> list[str]:
    """The words of `Select` that begin so. Whatever is wrong with the inventory, there are none."""
    return _beginning(incomplete, _of_inventory(Path(ctx.params.get("inventory") or "inventory.yaml")))


def stored_words(ctx: typer.Context, incomplete: str) -> list[str]:
    """The words of `SelectRuns` that begin so."""
    return _beginning(incomplete, _of_results(_root(ctx)))


def side_words(ctx: typer.Context, incomplete: str) -> list[str]:
    """Stored runs or summaries that begin so, for commands that take both."""
    named = (f"{SUMMARY}{name}" for name in _of_summaries(_root(ctx)))
    return stored_words(ctx, incomplete) + _beginning(incomplete, named)


def benchmark_words(ctx: typer.Context, incomplete: str) -> list[str]:
    """The stored benchmarks and variants that begin so."""
    return _beginning(incomplete, _of_benchmarks(_root(ctx)))


def kind_words(ctx: typer.Context, incomplete: str) -> list[str]:  # noqa: ARG001
    """The kinds of cores that begin so."""
    from fleet.model import KINDS

    return _beginning(incomplete, iter(KINDS))


def _root(ctx: typer.Context) -> str:
    return str(ctx.params.get("results") or "results")


def _beginning(incomplete: str, words: Iterator[str]) -> list[str]:
    mark = "!" if incomplete.startswith("!") else ""
    with contextlib.suppress(Exception):  # a traceback on every press of a key would be no help
        return [mark + word for word in dict.fromkeys(words) if word.startswith(incomplete.removeprefix("!"))]
    return []


def _of_inventory(path: Path) -> Iterator[str]:
    from fleet.hostnames import ALL
    from fleet.inventory.select import load

    found = load(path, {})  # no program is started for a completion
    yield from (host.name for host in found.hosts)
    yield from found.groups
    yield from sorted({f"{key}={value}" for host in found.hosts for key, value in host.labels.items()})
    yield ALL


def _of_results(root: str) -> Iterator[str]:
    from fleet.store.runs import Listing

    runs = Listing(root).runs
    yield from (run.host_name for run in runs)
    yield from sorted({f"{key}={value}" for run in runs for key, value in run.labels})
    yield from (run.run_id for run in runs[: -_NEWEST - 1 : -1])


def _of_summaries(root: str) -> Iterator[str]:
    from fleet.analysis.exchange.imports import all_summaries

    yield from all_summaries(root)["summary"]


def _of_benchmarks(root: str) -> Iterator[str]:
    from fleet.store.runs import Listing

    kinds = {kind for run in Listing(root).runs for kind in run.benchmarks}
    yield from sorted({kind.partition("/")[0] for kind in kinds} | kinds)
