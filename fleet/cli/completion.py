"""Completes words in a shell: hosts, groups, labels, runs, benchmarks and the values of
options.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path

import typer

from fleet import store
from fleet.analysis import base
from fleet.model import CORES, CPU_GROUPS, KINDS, Relation
from fleet.plan.conditions import FACTS

SUMMARY = "summary:"
_NEWEST = 50  # runs; more would fill the screen
_LEVELS = ("L1", "L2", "L3", "LLC", "mem")
# of Linux
_GOVERNORS = (
    "conservative",
    "ondemand",
    "performance",
    "powersave",
    "schedutil",
    "userspace",
)


def _complete(
    list_words: Callable[[typer.Context, str], Iterable[str]],
) -> Callable[[typer.Context, str], list[str]]:
    """Decorate a function that lists words: return those of them that complete the
    last item typed, behind the items before it in the same word. Return [] on any
    error. Leave out a word that begins with anything but a letter or a digit.
    """

    def complete(ctx: typer.Context, incomplete: str) -> list[str]:
        # of "web,!db" only "db" is completed
        _, _, last_item = incomplete.rpartition(",")
        typed = last_item.removeprefix("!")
        before = incomplete.removesuffix(typed)
        # a traceback on every press of a key would be no help
        with contextlib.suppress(Exception):
            words = dict.fromkeys(list_words(ctx, typed))
            matching = [word for word in words if word.startswith(typed)]
            # Others wrote some of the words, such as labels: none may begin with a sign
            # that means something to the shell, or as an option does.
            return [f"{before}{word}" for word in matching if word[:1].isalnum()]
        return []

    return complete


@_complete
def complete_hosts(ctx: typer.Context, _incomplete: str) -> Iterator[str]:
    """Complete hosts, groups and labels of the inventory."""
    from fleet.hostnames import ALL
    from fleet.inventory.select import load

    path = Path(ctx.params.get("inventory") or "inventory.yaml")
    # {} stands for the hosts that a program lists: a completion starts no program
    inventory = load(path, {})
    yield from (host.name for host in inventory.hosts)
    yield from inventory.groups
    yield from _sort_labels(host.labels.items() for host in inventory.hosts)
    yield ALL


def _sort_labels(labels_by_owner: Iterable[Iterable[tuple[str, str]]]) -> list[str]:
    """Return each label once, as key=value. labels_by_owner: of each host or run."""
    every = chain.from_iterable(labels_by_owner)
    return sorted({f"{key}={value}" for key, value in every})


def _open_listing(ctx: typer.Context) -> "store.Listing":
    return store.Listing(ctx.params.get("results") or "results")


def _list_run_selectors(ctx: typer.Context, incomplete: str) -> Iterator[str]:
    """Yield stored hosts, labels, facts and the newest run IDs; after "host@", only
    that host's labels; after a fact's "smt=", its values.
    """
    listing = _open_listing(ctx)
    runs = listing.runs
    fact, equals, _ = incomplete.partition("=")
    if equals and fact in FACTS:
        yield from _list_facts(listing, fact)
        return
    host, at, _ = incomplete.partition("@")
    if at:
        labels = _sort_labels(run.labels for run in runs if run.host_name == host)
        yield from (f"{host}@{label}" for label in labels)
        return
    yield from (run.host_name for run in runs)
    yield from _sort_labels(run.labels for run in runs)
    newest_first = reversed(runs[-_NEWEST:])
    yield from (run.run_id for run in newest_first)


def _list_facts(listing: store.Listing, name: str) -> list[str]:
    """Return each value of a fact once, as name=value."""
    facts = base.read_facts(listing, listing.runs).values()
    return sorted({f"{name}={each[name]}" for each in facts if name in each})


@_complete
def complete_sides(ctx: typer.Context, incomplete: str) -> Iterator[str]:
    """Complete stored runs and summaries."""
    from fleet.analysis.exchange.imports import load_all_summaries

    yield from _list_run_selectors(ctx, incomplete)
    summaries = load_all_summaries(_open_listing(ctx))
    yield from (f"{SUMMARY}{name}" for name in summaries["summary"])


@_complete
def complete_stored_benchmarks(ctx: typer.Context, _incomplete: str) -> Iterator[str]:
    """Complete the stored benchmarks, with and without variants."""
    runs = _open_listing(ctx).runs
    choices = set(chain.from_iterable(run.benchmarks for run in runs))
    benchmarks = {choice.partition("/")[0] for choice in choices}
    yield from sorted(choices | benchmarks)


@_complete
def complete_benchmarks(_ctx: typer.Context, _incomplete: str) -> Iterator[str]:
    """Complete the benchmarks that can be measured, with and without variants."""
    from fleet.plan.benchmark_names import VARIANTS

    yield "all"
    for benchmark, variants in VARIANTS.items():
        yield benchmark
        yield from (f"{benchmark}/{variant}" for variant in variants)


@_complete
def complete_formats(_ctx: typer.Context, _incomplete: str) -> Iterable[str]:
    """Complete the formats of an export."""
    from fleet.analysis.exchange.export import DASHBOARDS, EXPORT_FORMATS

    return (*EXPORT_FORMATS, *DASHBOARDS)


complete_runs = _complete(_list_run_selectors)
complete_kinds = _complete(lambda *_: (*KINDS, CORES, *Relation))
complete_groups = _complete(lambda *_: CPU_GROUPS)
complete_relations = _complete(lambda *_: (*Relation, *_LEVELS))
complete_governors = _complete(lambda *_: _GOVERNORS)
