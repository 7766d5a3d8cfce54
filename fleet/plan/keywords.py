"""The types of plan options given as keywords of `fleet.measure`, for type checkers.
`fleet.plan.options` parses them.
"""

from collections.abc import Sequence
from typing import TypedDict

Integer = int | str | None
Number = float | str | None  # a duration in seconds or "5m"; a share, 0.01 or "1%"
Several = float | str | Sequence[float | str] | None  # "0,2" is as good as [0, 2]


class PlanKeywords(TypedDict, total=False):
    """The options of docs/options.md but `benchmarks`. None: not given."""

    preset: str | None
    samples: Integer
    iterations: Integer
    warmup: Integer
    rounds: Integer
    precision: Number
    time_budget_s: Number
    spread_s: Number
    pairs: Several
    few_pairs: Several
    order: str | None
    line: str | None
    owner: str | None
    node: Integer
    nodes: Several
    separation_bytes: Integer
    sizes: Several
    stride_bytes: Integer
    pages: str | None
    operations: Several
    threads: Several
    load: Several
    reads: Several
    share: Several
    states: Several
    blocks: Several
    message_lines: Several
    shape: str | None
    counters: Several
    governor: str | None
    boost: str | None
    cpus: Several
    seed: Integer
    priority: Integer
    deadline_s: Integer
