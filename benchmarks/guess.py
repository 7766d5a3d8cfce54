"""Guess the topology of machines whose facts are known from their latencies alone, and
count what is right.

Usage: python -m benchmarks.guess [ROOT]

ROOT: a results root; without one, the shipped tables whose relations the vendor
describes. `pairs`: the share of pairs whose relation is named right; `relations`: those
of the machine, and what was guessed instead.
"""

import sys
from collections import Counter
from collections.abc import Iterator, Sequence

import pandas as pd

from fleet.analysis.exchange import (
    guess_topology,
    is_guessed,
    load_published,
    make_grid,
    make_summary_rows,
)
from fleet.analysis.reduce import load_pairs
from fleet.store import Listing


def read_tables(arguments: Sequence[str]) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield the name of each machine and its pairs of one benchmark, in the columns of
    `summaries`.
    """
    if not arguments:
        rows = load_published()
        is_known = (rows["relation"] != "unknown") & ~is_guessed(rows)
        rows = rows[(rows["benchmark"] == "cas") & is_known]
        yield from (
            (str(name), part)
            for (name, _), part in rows.groupby(["summary", "variant"], sort=False)
        )
        return
    listing = Listing(arguments[0])
    last = {run.host_id: run.run_id for run in listing.runs}
    for host, run_id in last.items():
        pairs = load_pairs(listing, run_id=run_id)
        pairs = pairs[(pairs["benchmark"] == "cas") & pairs["point"].isna()]
        if len(pairs):
            extra = dict.fromkeys(("samples", "iterations", "cpu_model"))
            yield (
                host,
                pairs.assign(latency_ns=pairs["median_ns"].astype(float), **extra),
            )


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a row per machine, then the totals."""
    total = 0
    right = 0
    exact = 0
    machines = 0
    for name, rows in read_tables(sys.argv[1:] if arguments is None else arguments):
        relations = rows["relation"].astype(str)
        sockets = 2 if (relations == "system").any() else 1
        grid = make_grid(rows)
        guess = make_summary_rows(
            name, "core_latency", grid, {}, guess_topology(grid, sockets)
        )
        names = [row["relation"] for row in guess]
        pairs = Counter(zip(relations, names, strict=True))
        hits = sum(count for (own, other), count in pairs.items() if own == other)
        total += len(rows)
        right += hits
        machines += 1
        exact += hits == len(rows)
        wrong = [f"{own} as {other}" for own, other in pairs if own != other]
        print(
            f"{name:28}{hits / len(rows):>6.0%} of {len(rows):>5} pairs "
            f" {', '.join(wrong)}"
        )
    print(f"{exact} of {machines} machines whole; {right / total:.1%} of {total} pairs")


if __name__ == "__main__":
    main()
