"""Reads runs, groups machines that are equal by facts, and finds odd ones by `odd`."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from fleet.analysis.base.tables import Bools, Floats, Ints
from fleet.analysis.compare.caveats import choose_number_column
from fleet.analysis.compare.judge import ALPHA, apply_student, detectable_change
from fleet.analysis.compare.odd import LEAST_MACHINES, Distances, compare_cpus, measure_distances, reduce_runs
from fleet.analysis.compare.side_runs import CLASS
from fleet.analysis.compare.sides import ComparisonSide, read_selected_runs, reduce_each_host
from fleet.analysis.compare.verdicts import THRESHOLD
from fleet.analysis.reduce.comparison_rows import ALL, Only
from fleet.analysis.reduce.environment import describe_rows_environments
from fleet.analysis.reduce.interval import LEAST_RUNS
from fleet.analysis.reduce.load import drop_points, list_published, merge_descriptions
from fleet.analysis.reduce.matrices import grid
from fleet.hostnames import join_names
from fleet.model import Descriptions, View
from fleet.store.runs import Root
from fleet.text import format_count

_EQUAL = ("cpu_model", "cpu_stepping", "cpus_measured", "smt", "target")
_GIB = 1 << 30
MEAN = "all"  # the row of a machine's mean over relations


@dataclass(frozen=True, slots=True)
class Siblings:
    """Equal machines, and how far each is from the others.

    about: what they have in common, in words. runs: how many were read. rows: a row per host and number:
    `host`, `benchmark`, `variant`, `relation` (or "CPU 3", "node 1", or MEAN), `ns` and `others_ns` (the mean
    of `others` machines), `ratio` with its 95 % interval `low`, `high`, `scatter` (standard deviation between
    machines, relative), `p`, `q`, `odd`; NaN where there is no verdict. smallest: how far apart one relation
    must be, relative, for 8 of 10 such comparisons to find it; NaN without verdicts. environment: of odd
    hosts, `host`, `what`, `value`, and `others`: the value of how many of the others. descriptions: of the
    benchmarks.
    """

    hosts: tuple[str, ...]
    about: str
    runs: int
    threshold: float
    rows: pd.DataFrame
    smallest: float
    environment: pd.DataFrame
    caveats: tuple[str, ...]
    descriptions: Descriptions

    @property
    def judged(self) -> bool:
        """Report whether there are enough machines and runs for a verdict."""
        return bool(self.rows["p"].notna().any())

    @property
    def odd(self) -> list[str]:
        """Return the hosts that differ from their siblings."""
        return list(self.rows.loc[self.rows["odd"], "host"].unique())


def compare_siblings(
    root: Root, texts: Sequence[str], *, threshold: float | None = None, only: Only = ALL
) -> list[Siblings]:
    """Return the groups of equal machines, the largest first; a machine without siblings is its own group.

    Only a host's runs like its last one count. Equal: CPU model, stepping, sockets, CPUs measured, SMT,
    target and memory to the GiB. An unknown CPU model equals no other. threshold: see `compare`. Raises
    UsageError.
    """
    listing, runs, cpus = read_selected_runs(root, texts, only.benchmark)
    keys = equal_facts(runs, cpus)
    last = keys.groupby(runs["host_id"]).transform("last")
    runs = runs[keys == last].assign(key=keys)
    number = choose_number_column(ComparisonSide("", runs))
    parts = (part for _, part in runs.groupby("key", sort=False))
    descriptions = merge_descriptions(list_published(listing, run_id=runs["run_id"]))
    groups = sorted(parts, key=lambda part: -part["host_id"].nunique())
    return [
        _group(listing, part, cpus, number, threshold or THRESHOLD, only, descriptions) for part in groups
    ]


def equal_facts(runs: pd.DataFrame, cpus: pd.DataFrame) -> pd.Series:
    """Return the facts that siblings share, as text; with the host if its CPU model is unknown."""
    sockets = runs["run_id"].map(cpus[cpus["measured"]].groupby("run_id")["package"].nunique())
    memory = np.ceil(runs["memory_bytes"].astype(float) / _GIB)
    keys = zip(*(runs[name] for name in _EQUAL), sockets, memory, strict=True)
    alone = runs["host_id"].where(runs["cpu_model"].isna(), "")
    return pd.Series(map(str, keys), index=runs.index) + alone


def _group(
    root: Root,
    runs: pd.DataFrame,
    cpus: pd.DataFrame,
    number: str,
    threshold: float,
    only: Only,
    descriptions: Descriptions,
) -> Siblings:
    hosts = tuple(sorted(runs["host_id"].unique()))
    of_runs = cpus[cpus["run_id"].isin(runs["run_id"])]
    table, maps, layout = _read(root, runs, of_runs, number, only, descriptions)
    places = {host: place for place, host in enumerate(hosts)}
    machines = runs.set_index("run_id")["host_id"].reindex(table.columns).map(places)
    switches = bool(runs["hypervisor"].notna().any())
    logs, elsewhere, noise = reduce_runs(np.log(table.to_numpy()), machines.to_numpy(), switches=switches)
    names = [*table.index, *[("", "", MEAN)] * (len(logs) > len(table))]
    share, of_cpus = 1.0, list[pd.DataFrame]()
    few = runs["host_id"].value_counts() < LEAST_RUNS
    if maps and len(hosts) >= LEAST_MACHINES and not (few.any() and (switches or elsewhere.any())):
        share = 0.5
        of_cpus.append(_rows(hosts, *_measure_cpus(maps, *layout, threshold), threshold))
    distances = measure_distances(logs, threshold, share, noise)
    rows = pd.concat([_rows(hosts, names, distances, threshold, np.exp(logs)), *of_cpus], ignore_index=True)
    is_judged = ~np.isnan(distances.p)
    smallest = np.nan
    if is_judged.any():
        error, freedom = (
            np.array([np.median(values[is_judged])]) for values in (distances.error, distances.freedom)
        )
        alpha = ALPHA * share / is_judged.sum()
        smallest = float(np.expm1(detectable_change(error, freedom, alpha, float(np.log1p(threshold)))[0]))
    caveats = [
        *_too_few(hosts, distances.p, few.reindex(hosts).to_numpy()),
        *_elsewhere(hosts, table, elsewhere),
    ]
    last = runs.iloc[-1]
    memory = f"{np.ceil(last['memory_bytes'] / _GIB):.0f} GiB" if pd.notna(last["memory_bytes"]) else ""
    model = "unknown CPU" if pd.isna(last["cpu_model"]) else last["cpu_model"]
    words = (model, format_count(last["cpus_measured"], "CPU"), memory)
    about = ", ".join(filter(None, words))
    return Siblings(
        hosts, about, len(runs), threshold, rows, smallest, _unlike(runs, rows), tuple(caveats), descriptions
    )


def _read(
    root: Root, runs: pd.DataFrame, cpus: pd.DataFrame, number: str, only: Only, descriptions: Descriptions
) -> tuple[pd.DataFrame, dict[tuple[str, str], Floats], tuple[list[int], Ints]]:
    """Return the numbers, the maps, and the layout: CPUs and their nodes.

    Numbers: a row per relation, a column per run. Maps: by benchmark, if all machines are laid out alike.
    """
    order = cpus[cpus["measured"]].sort_values("cpu").drop_duplicates("cpu")
    numbers_of = list(order["cpu"])
    nodes = pd.factorize(order["node"], sort=True)[0].clip(0)
    places = cpus[["cpu", "core", "llc", "node", "package"]].drop_duplicates()
    same_layout = len(places) == places["cpu"].nunique()
    parts, maps = [], dict[tuple[str, str], list[Floats]]()
    for _, pairs, medians in reduce_each_host(root, runs, cpus, number, only, descriptions):
        parts.append(medians)
        single = drop_points(pairs, descriptions)
        for kind, rows in single.groupby(CLASS[:2], sort=False):
            if same_layout and descriptions[str(kind[0])].view is View.MATRIX:
                own = maps.setdefault((str(kind[0]), str(kind[1])), [])
                own.append(np.log(grid(rows, numbers_of, number)))
    table = pd.concat(parts).set_index(["run_id", *CLASS])["median_ns"].unstack("run_id")
    stacks = {
        kind: np.array(stack) for kind, stack in maps.items() if len(stack) == runs["host_id"].nunique()
    }
    return table, stacks, (numbers_of, nodes)


def _measure_cpus(
    maps: dict[tuple[str, str], Floats], cpus: Sequence[int], nodes: Ints, threshold: float
) -> tuple[list[tuple[str, str, str]], Distances]:
    names, parts = [], []
    for kind, stack in maps.items():
        own, of_nodes = compare_cpus(stack, nodes)
        names += [(*kind, f"CPU {cpu}") for cpu in cpus]
        parts.append(own)
        if len(of_nodes) > 1:
            names += [(*kind, f"node {node}") for node in range(len(of_nodes))]
            parts.append(of_nodes)
    return names, measure_distances(np.concatenate(parts), threshold, 0.5)


def _rows(
    hosts: Sequence[str],
    names: Sequence[tuple[str, str, str]],
    distances: Distances,
    threshold: float,
    ns: Floats | None = None,
) -> pd.DataFrame:
    """Return a row per host and number that it has. ns: in the rows of the names, but for MEAN."""
    own_ns = np.full(distances.moved.shape, np.nan)
    if ns is not None:
        of = sum(name[-1] != MEAN for name in names)
        own_ns[:of] = ns[:of]
    low, high = np.exp(apply_student(distances.moved, distances.error, distances.freedom)[:2])
    columns = {
        "ns": own_ns,
        "others_ns": np.where(np.isnan(own_ns), np.nan, np.exp(distances.mean)),
        "others": distances.others,
        "ratio": np.exp(distances.moved),
        "low": low,
        "high": high,
        "scatter": np.where(np.isnan(distances.p), np.nan, np.expm1(distances.scatter)),
        "p": distances.p,
        "q": distances.q,
        "odd": distances.found(threshold),
    }
    every = np.repeat(np.array(names, dtype=object), len(hosts), axis=0)
    numbers = {name: values.ravel() for name, values in columns.items()}
    rows = pd.DataFrame(every, columns=CLASS).assign(**numbers)
    rows.insert(0, "host", list(hosts) * len(names))
    return rows[rows["ratio"].notna()]


def _too_few(hosts: Sequence[str], p: Floats, few: Bools) -> Iterator[str]:
    if 1 < len(hosts) < LEAST_MACHINES:
        names = join_names(hosts)
        yield f"{names}: no verdict: {len(hosts)} equal machines; it needs {LEAST_MACHINES} or more."
    elif len(hosts) > 1 and (
        none := [host for index, host in enumerate(hosts) if few[index] and np.isnan(p[:, index]).all()]
    ):
        yield (
            f"{join_names(none)}: no verdict: fewer than {LEAST_RUNS} runs, and these machines switch "
            "levels, or may under their hypervisor."
        )


def _elsewhere(hosts: Sequence[str], table: pd.DataFrame, elsewhere: Bools) -> Iterator[str]:
    for name, row in zip(table.index, elsewhere, strict=True):
        if row.any():
            names = join_names(host for host, has in zip(hosts, row, strict=True) if has)
            yield f"{names}: runs at another level are left out of {name[0]}/{name[1]} {name[2]}."


def _unlike(runs: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    """Return the facts in which an odd host's last run differs from most of the others' last runs."""
    last = runs.groupby("host_id").tail(1).sort_values("host_id")
    hosts, differences, around = list(last["host_id"]), [], describe_rows_environments(last)
    for host in dict.fromkeys(rows.loc[rows["odd"], "host"]):
        index = hosts.index(host)
        for fact, values in around.items():
            others = Counter(values[:index] + values[index + 1 :])
            usual, count = others.most_common(1)[0]
            if values[index] != usual and count * 2 > len(hosts) - 1:
                differences.append((host, fact, values[index], f"{usual} ({count} of {len(hosts) - 1})"))
    return pd.DataFrame(differences, columns=["host", "what", "value", "others"])
