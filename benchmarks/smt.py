"""Find the SMT siblings of published machines in their latencies alone, and hold them against the truth.

Usage: python benchmarks/smt.py [FOLDER]

Without a folder: the published tables that fleet ships, whose cores are known from the vendor. With one: the
tables in it, as core_latency, core-to-core-latency or c2clat print them; only what was found is printed.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from fleet.analysis.exchange import load_published, read_matrices
from fleet.analysis.reduce import SIBLING_NEARER
from fleet.errors import FleetError

FACTORS = (1.3, 1.6)
_KIND = ["summary", "benchmark", "variant"]


def nearest_pairs(pairs: pd.DataFrame, factor: float = SIBLING_NEARER) -> set[tuple[int, int]]:
    """The pairs of CPUs that are each other's nearest, any other CPU being slower by `factor` or more.

    pairs: of one run, benchmark and variant, with `median_ns`; both directions of a pair may have a row. On
    a machine with SMT these are the siblings, whatever the OS says; without SMT there should be none.
    """
    turned = pairs.rename(columns={"ping_cpu": "pong_cpu", "pong_cpu": "ping_cpu"})
    both = pd.concat([pairs, turned]).groupby(["ping_cpu", "pong_cpu"])["median_ns"].mean().reset_index()
    nearest: dict[int, int] = {}
    for cpu, rows in both.sort_values("median_ns", kind="stable").groupby("ping_cpu"):
        times = rows["median_ns"].to_numpy()
        if len(times) > 1 and times[1] >= factor * times[0]:
            nearest[int(str(cpu))] = int(rows["pong_cpu"].iloc[0])
    return {(a, b) for a, b in nearest.items() if a < b and nearest.get(b) == a}


def check_published() -> pd.DataFrame:
    """A row per published table: `smt` (known sibling pairs), and per factor `found` and `wrong` ones."""
    rows = []
    for (summary, benchmark, variant), part in load_published().groupby(_KIND, sort=False):
        is_sibling = part[part["relation"] == "smt"]
        ends = zip(is_sibling["ping_cpu"], is_sibling["pong_cpu"], strict=True)
        true = {(min(pair), max(pair)) for pair in ends}
        row = {"summary": summary, "benchmark": benchmark, "variant": variant, "smt": len(true)}
        for factor in FACTORS:
            nearest = nearest_pairs(part.rename(columns={"latency_ns": "median_ns"}), factor)
            row |= {f"found_{factor}": len(nearest & true), f"wrong_{factor}": len(nearest - true)}
        rows.append(row)
    return pd.DataFrame(rows)


def print_folder(folder: Path) -> None:
    """Print what is found in each table of a folder."""
    for file in sorted(folder.glob("*.txt")):
        try:
            _, grids = read_matrices(file.read_text(), file.name)
        except FleetError as err:
            print(f"{file.name}: {err}")
            continue
        for grid in grids:
            cells = [(a, b, ns) for (a, b), ns in grid.cells.items()]
            nearest = nearest_pairs(pd.DataFrame(cells, columns=["ping_cpu", "pong_cpu", "median_ns"]))
            print(f"{file.name}: {len(nearest)} pairs: {sorted(nearest)}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a row per table."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    if words:
        print_folder(Path(words[0]))
    else:
        print(check_published().to_string(index=False))


if __name__ == "__main__":
    main()
