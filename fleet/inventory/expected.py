"""Reads expected.yaml: ranges that people set for machines (docs/comparing.md)."""

import json
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from fleet.inventory.document import Document, KeyPath, read_yaml
from fleet.model import BENCHMARKS, LOAD, SHIPPED, Relation, View
from fleet.plan.benchmark_names import VARIANTS
from fleet.store import RunSummary
from fleet.text import suggest_similar

SELECTORS = ("cpu_model", "host", "label")
_BENCHMARKS = (*BENCHMARKS, LOAD.name)
_MEMORY = ["LLC", "mem"]
_LEVEL = re.compile(rf"L\d+|{'|'.join(_MEMORY)}")
_NODES = re.compile(r"n\d+-n\d+")
_NUMBER = r"\d{1,12}(?:\.\d{1,12})?"
_RANGE = re.compile(rf"(?P<low>{_NUMBER}) to (?P<high>{_NUMBER})")
_LIMIT = re.compile(rf"at (?P<end>least|most) (?P<limit>{_NUMBER})")
_NAMES = "`fleet accept HOST --csv` lists their names"
_HOW = "write `20 to 28`, `at most 28` or `at least 18`"


@dataclass(frozen=True, slots=True)
class ExpectedRange:
    """A range that one line of expected.yaml sets for a number."""

    # which machines: a glob for their CPU models, names or labels
    selector: str  # one of SELECTORS
    pattern: str
    benchmark: str  # `cas` or `cas/llsc`
    relation: str
    # in the unit that `fleet show` prints, ns or a rate; None: no limit
    low: float | None
    high: float | None
    source: str  # file and line

    def matches(
        self, run: Mapping[str, Any], benchmark: str, variant: str, relation: str
    ) -> bool:
        """Report whether the range is for a run's number for this benchmark, variant
        and relation. run: a row of the table `runs`.
        """
        if self.benchmark not in (benchmark, f"{benchmark}/{variant}"):
            return False
        if self.relation != relation:
            return False
        match self.selector:
            case "label":
                labels = json.loads(run["labels_json"])
                values = [f"{key}={value}" for key, value in labels.items()]
            case "host":
                values = [run["host_name"], run["host_id"]]
            case _:  # the CPU model
                values = [run["cpu_model"] or ""]
        return any(fnmatchcase(value, self.pattern) for value in values)

    def limits_ns(self, *, is_rate: bool) -> tuple[float, float]:
        """Return the lower and upper limit in ns, NaN for none. is_rate: the range is
        written as rates.
        """
        low = math.nan if self.low is None else self.low
        high = math.nan if self.high is None else self.high
        return (1 / high, 1 / low) if is_rate else (low, high)


def read_expected(path: Path, runs: Iterable[RunSummary] = ()) -> list[ExpectedRange]:
    """Read a file of ranges. Variants must be known or in `runs`. Raises InventoryError
    with all mistakes.
    """
    document = read_yaml(path, "`fleet accept --write` proposes one.")
    document.require_no_problems()
    measured: set[str] = set()
    for run in runs:
        measured.update(run.benchmarks)
    ranges = list(_read_entries(document, path, measured))
    document.require_no_problems()
    return ranges


def _read_entries(
    document: Document, path: Path, measured: Collection[str]
) -> Iterator[ExpectedRange]:
    """Yield the ranges of all entries; reject in the document what is wrong. An entry
    says which machines it is for, by a selector and its pattern; its other keys are
    benchmarks.
    """
    entries = document.data
    if not entries or not isinstance(entries, list):
        document.reject(
            (), f"a list of entries is needed, each with one of {', '.join(SELECTORS)}"
        )
        return
    for number, entry in enumerate(entries):
        selector_and_pattern = _read_machines(entry)
        if selector_and_pattern is None:
            document.reject(
                (number,),
                f"needs exactly one of {', '.join(SELECTORS)}, with a name or a glob",
            )
            continue
        selector, pattern = selector_and_pattern
        if selector == "label" and "=" not in pattern:
            document.reject((number, "label"), "needs key=value, such as rack=b2")
        if len(entry) == 1:
            document.reject(
                (number,),
                f"names no benchmark: below it, a relation and its range; {_HOW}",
            )
        for benchmark, relations in entry.items():
            if benchmark == selector:
                continue
            if why := _find_benchmark_problem(benchmark, measured):
                document.reject((number, benchmark), why)
            elif not relations or not isinstance(relations, dict):
                document.reject(
                    (number, benchmark), f"a relation and its range are needed; {_HOW}"
                )
            else:
                benchmark_path = (number, benchmark)
                yield from _read_ranges(
                    document, path, benchmark_path, selector, pattern, relations
                )


def _read_machines(entry: object) -> tuple[str, str] | None:
    """Return which machines an entry is for: its selector, such as "host", and its
    pattern. Return None if it has not exactly one selector, or one without text.
    """
    if not isinstance(entry, dict):
        return None
    selectors = [name for name in SELECTORS if name in entry]
    if len(selectors) != 1:
        return None
    selector = selectors[0]
    pattern = entry[selector]
    if not pattern or not isinstance(pattern, str):
        return None
    return selector, pattern


def _find_benchmark_problem(benchmark: str, measured: Collection[str]) -> str | None:
    """Return why this is neither a benchmark nor a variant, such as "cas/llsc", or None
    if it is. measured: what runs have measured, whose variants are valid, too.
    """
    name, slash, variant = benchmark.partition("/")
    if name not in _BENCHMARKS:
        similar = suggest_similar(name.lower(), (*_BENCHMARKS, *SELECTORS))
        return f"is not a benchmark{similar} There are {', '.join(_BENCHMARKS)}"
    variants = VARIANTS.get(name)
    if slash and variants and variant not in variants and benchmark not in measured:
        similar = suggest_similar(variant, variants)
        return f"is not a variant{similar} There are {', '.join(variants)}"
    return None


def _read_ranges(
    document: Document,
    path: Path,
    benchmark_path: KeyPath,
    selector: str,
    pattern: str,
    relations: Mapping[str, object],
) -> Iterator[ExpectedRange]:
    """Yield the ranges that an entry sets for one benchmark; reject in the document
    those that are no range. benchmark_path: the number of the entry, then the
    benchmark. relations: by relation, the text of its range, such as "20 to 28".
    """
    benchmark = str(benchmark_path[-1])
    for relation, text in relations.items():
        range_path = (*benchmark_path, relation)
        problem = _find_relation_problem(benchmark, relation)
        limits = _read_limits(text)
        if problem is not None:
            document.reject(range_path, f"{problem} {_NAMES}")
        elif limits is None:
            why = f"{text!r} is not a range" if text else "has no range"
            document.reject(range_path, f"{why}; {_HOW}")
        else:
            low, high = limits
            source = f"{path.name}:{document.line(range_path)}"
            yield ExpectedRange(
                selector, pattern, benchmark, relation, low, high, source
            )


def _find_relation_problem(benchmark: str, relation: str) -> str | None:
    """Return why `relation` is not a relation, as "package", or a level of memory, as
    "L2", that this benchmark can have; None if it is. A level of a ladder needs a
    setting as well, as in "L2 read".
    """
    name, _, setting = relation.partition(" ")
    if _LEVEL.fullmatch(name):
        if SHIPPED[benchmark].view is View.LADDER:
            return _find_setting_problem(benchmark, name, setting)
        return None
    # What follows the name of a relation, as P-E in "package P-E", is not checked. The
    # relations of NUMA nodes have names such as "n0-n1".
    relations = [str(item) for item in Relation]
    if name in relations or _NODES.fullmatch(name):
        return None
    similar = suggest_similar(name, [*relations, *_MEMORY])
    return f"is not a relation or level{similar}"


def _find_setting_problem(benchmark: str, level: str, setting: str) -> str | None:
    """Return why `setting`, such as "read" in "L2 read", does not begin with a word of
    the benchmark's parameters; None if it does. level: of memory, such as "L2", which
    has a number for each setting.
    """
    words: list[str] = []
    for parameter in SHIPPED[benchmark].parameters:
        words += parameter.words
    first_word, _, _ = setting.partition(" ")
    if first_word in words:
        return None
    return f"needs a setting, such as {level} {words[0]}."


def _read_limits(text: object) -> tuple[float | None, float | None] | None:
    """Parse "20 to 28" to (20, 28), "at most 28" to (None, 28) and "at least 18" to
    (18, None). Return None for other text, and unless 0 < low <= high.
    """
    if match := _RANGE.fullmatch(str(text)):
        low = float(match["low"])
        high = float(match["high"])
        return (low, high) if 0 < low <= high else None
    match = _LIMIT.fullmatch(str(text))
    if not match:
        return None
    limit = float(match["limit"])
    if limit <= 0:
        return None
    return (limit, None) if match["end"] == "least" else (None, limit)
