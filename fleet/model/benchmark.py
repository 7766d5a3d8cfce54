"""Describes benchmarks, from `benchmarks.json` or from a run's agent. No benchmark is
named in the code.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any

from fleet.model.errors import InputError


class Shape(StrEnum):
    """How many CPUs a visit uses: CPU one, PAIR two, GROUP one or more that work at
    once.
    """

    CPU = "cpu"
    PAIR = "pair"
    GROUP = "group"
    UNKNOWN = "unknown"


class View(StrEnum):
    """How a benchmark's numbers are shown: by pair, CPU, size, or the parameters of
    points.
    """

    MATRIX = "matrix"
    CPUS = "cpus"
    LADDER = "ladder"
    TABLE = "table"
    BLOCKS = "blocks"  # a TABLE with what the end of a block costs
    PRODUCTS = "products"  # a TABLE with the share of the peak


NAME = r"[a-z][a-z0-9_-]{0,46}"
"""The pattern of benchmark names that `-b` takes."""
_NEEDED = {
    View.LADDER: ("bytes", "threads"),
    View.BLOCKS: ("block_bytes", "sharing"),
    View.PRODUCTS: ("operation", "bytes", "threads"),
}
"""The parameters that a view needs; a benchmark that lacks one is shown as a TABLE."""
_NO_SIZE = re.compile(r"(?<![0-9n])0+(?![0-9])")  # n0 is a NUMA node
_SIZE = re.compile(r"([1-9][0-9]{0,12})([KMG]?)")
_SIZE_SHIFTS = {"": 0, "K": 10, "M": 20, "G": 30}
_NO_COLUMN = object()
_MAX_TEXTS, _LONGEST_TEXT = 64, 200


def parse_size(text: str) -> int | None:
    """Return the bytes of a size such as "512K"; None for other text."""
    match = _SIZE.fullmatch(text)
    if not match:
        return None
    return int(match[1]) << _SIZE_SHIFTS[match[2]]


def _require_short(texts: Sequence[str]) -> None:
    """Raise InputError unless a host's texts are few, short and printable, so that
    pages can show them.
    """
    are_shown = (len(text) <= _LONGEST_TEXT and text.isprintable() for text in texts)
    if len(texts) > _MAX_TEXTS or not all(are_shown):
        raise InputError(
            f"a description has at most {_MAX_TEXTS} printable texts in a place"
        )


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter that tells a benchmark's points apart."""

    name: str
    type: str  # word, bytes, count or node (a NUMA node)
    role: str | None = None  # its place in a table
    option: str | None = None  # of the plan, that sets it
    none: str | None = (
        # the meaning of a missing value; without it a count has a value at each point
        None
    )
    # in the order of a table, with meanings
    words: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        texts = filter(None, (self.name, self.type, self.role, self.option, self.none))
        _require_short((*texts, *self.words, *self.words.values()))

    def find_mismatch(self, value: Any, benchmark: "Benchmark") -> str | None:
        """Return why a point of `benchmark` cannot have this value; None if it can."""
        if value is _NO_COLUMN:
            return None
        if self.type != "word":
            # a peak has none
            is_size = self.role == "row" and benchmark.view is not View.PRODUCTS
            is_needed = is_size or (
                self.role and self.type == "count" and not self.none
            )
            return f"no {self.name}" if is_needed and value is None else None
        if not self.words or self.sort_key(value) < len(self.words):
            return None
        return f"{self.name} is {value!r}, not one of {', '.join(self.words)}"

    def sort_key(self, value: Any) -> Any:
        """Return the key that sorts values: words in listed order, ignoring suffixes
        such as in `mix-75`.
        """
        if self.type != "word":
            return value
        words = [*self.words]
        plain = value if value in self.words else str(value).partition("-")[0]
        return words.index(plain) if plain in words else len(words)


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A benchmark as an agent describes it (docs/wire.md). variants: by architecture or
    "any", best first.
    """

    name: str
    question: str
    unit: str
    latencies: int
    shape: Shape
    view: View
    heading: str
    other_unit: str | None = (
        None  # what the threads beside ping count, if not ping's unit
    )
    rate: str | None = None
    point: str | None = None
    many_points: bool = False
    parameters: tuple[Parameter, ...] = ()
    variants: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        variants = [name for names in self.variants.values() for name in names]
        _require_short(
            (
                self.name,
                self.question,
                self.unit,
                self.heading,
                self.rate or "",
                self.point or "",
            )
        )
        _require_short((*self.variants, *variants))
        names = {parameter.name for parameter in self.parameters}
        if self.latencies not in (1, 2) or len(names) < len(self.parameters):
            raise InputError(
                "a benchmark needs 1 or 2 latencies, and parameters with different"
                " names"
            )
        has_many = (
            self.view in (View.MATRIX, View.CPUS)
            and self._needs_point()
            and not self.point
        )
        if has_many or not names.issuperset(_NEEDED.get(self.view, ())):
            object.__setattr__(self, "view", View.TABLE)
        if self.view is View.MATRIX and self.shape is Shape.CPU:
            object.__setattr__(self, "view", View.CPUS)

    def _needs_point(self) -> bool:
        """Report whether this benchmark's bursts have a point even if no NUMA node was
        requested.
        """
        return self.many_points or any(
            parameter.type != "node" for parameter in self.parameters
        )

    @property
    def label(self) -> str:
        """The label of the benchmark's number: "one way, ns", "ns per load" or
        "GB/s".
        """
        if self.latencies == 2:
            return "one way, ns"
        return self.rate or f"ns per {self.unit.replace('_', ' ')}"

    @property
    def node(self) -> Parameter | None:
        """The parameter that names the NUMA node of the benchmark's memory; None if
        there is none.
        """
        return next(
            (parameter for parameter in self.parameters if parameter.type == "node"),
            None,
        )

    def words_for_option(self, option: str) -> list[str]:
        """Return the words that the option of this name takes for this benchmark."""
        words: list[str] = []
        for parameter in self.parameters:
            if parameter.option == option:
                words += parameter.words
        return words

    def parameters_with_role(self, role: str) -> list[Parameter]:
        """Return the benchmark's parameters with this role, in order."""
        return [parameter for parameter in self.parameters if parameter.role == role]

    def find_mismatch(self, burst: Any) -> str | None:
        """Return why a `Burst` cannot be of this benchmark, else None. Ignore values
        not in `Parameters`.
        """
        count, others = (
            len(burst.cpus or {burst.ping_cpu, burst.pong_cpu}),
            burst.other_ticks,
        )
        if (self.shape is Shape.PAIR and count < 2) or (
            self.shape is Shape.CPU and count > 1
        ):
            return f"{self.name} on {count} CPUs"
        usual = self.point or (self.node and burst.parameters)
        if self.view in (View.MATRIX, View.CPUS) and burst.point and not usual:
            return f"{self.name}: it has points, but none that stands for the pair"
        if self.shape is Shape.PAIR and others is not None and len(others) != 1:
            return f"{self.name}: other_ticks of a pair is one list, not {len(others)}"
        if burst.parameters is None or burst.point is None:
            return (
                f"{self.name}: it has no point, or no parameters"
                if self._needs_point()
                else None
            )
        if burst.cpus and burst.parameters.threads not in (None, count):
            return f"{self.name}: {burst.parameters.threads} threads on {count} CPUs"
        why = self._find_point_mismatch(burst.point, burst.parameters)
        return why and f"{self.name}: {why}"

    def _find_point_mismatch(self, point: str, parameters: Any) -> str | None:
        """Return how a point's values, or words and sizes in its name, contradict this
        benchmark, or None.
        """
        if _NO_SIZE.search(point):
            return f"point {point} has a size of 0"
        words, sizes = {*point.split(".")}, set()
        for parameter in self.parameters:
            value = getattr(parameters, parameter.name, _NO_COLUMN)
            if why := parameter.find_mismatch(value, self):
                return why
            if parameter.type == "bytes" and value not in (_NO_COLUMN, None):
                sizes.add(value)
            own_words = words & parameter.words.keys()
            if (
                own_words
                and value
                and own_words.isdisjoint({*re.split(r"[.-]", str(value)), value})
            ):
                return (
                    f"point {point} has another {parameter.name} than its parameters,"
                    f" {value}"
                )
        # their shapes are fitted to a size
        sized = () if self.view is View.PRODUCTS else words
        for word in sized:
            size = parse_size(word)
            if sizes and size is not None and size not in sizes:
                return f"point {point} is of another size than its parameters"
        return None


def benchmark_from_description(description: Mapping[str, Any]) -> Benchmark:
    """Return the benchmark that an agent describes. Ignore unknown keys, which a newer
    agent may send.
    """
    parameters = (
        Parameter(**_known_keys(Parameter, part))
        for part in description.get("parameters", ())
    )
    values = _known_keys(Benchmark, description) | {"parameters": tuple(parameters)}
    values["shape"] = (
        Shape(values["shape"]) if values["shape"] in (*Shape,) else Shape.UNKNOWN
    )
    values["view"] = View(values["view"]) if values["view"] in (*View,) else View.TABLE
    return Benchmark(**values)


def _known_keys(
    kind: type[Benchmark] | type[Parameter], description: Mapping[str, Any]
) -> dict[str, Any]:
    return {
        item.name: description[item.name]
        for item in fields(kind)
        if item.name in description
    }


BENCHMARKS: Mapping[str, Benchmark] = MappingProxyType(
    {
        description["name"]: benchmark_from_description(description)
        for description in json.loads(
            Path(__file__).with_name("benchmarks.json").read_text()
        )
    }
)
_LOAD_HEADING = "GB/s of all other threads at full load"
LOAD = Benchmark(
    "load", "", "byte", 1, Shape.GROUP, View.TABLE, _LOAD_HEADING, rate="GB/s"
)
"""Not measured by an agent: comparisons derive it from the bytes that the threads
beside ping move.
"""
_KNOWN: Mapping[str, Benchmark] = MappingProxyType({**BENCHMARKS, LOAD.name: LOAD})
_MEANING = ("unit", "latencies", "shape", "view", "other_unit", "rate", "point")


def find_name_problem(names: Iterable[str]) -> str | None:
    """Return why one of the names cannot be a benchmark for `-b`; None if all can."""
    for name in names:
        if not re.fullmatch(NAME, name):
            words = "a lower-case letter, then up to 46 letters, digits, - and _"
            return f"{name!r} is not a benchmark: a name is {words}"
    return None


def find_description_problem(benchmarks: Sequence[Benchmark]) -> str | None:
    """Return how a run's descriptions contradict this version's, or have an invalid
    name; else None.
    """
    for benchmark in benchmarks:
        name, expected = benchmark.name, _KNOWN.get(benchmark.name, benchmark)
        for attribute in _MEANING:
            value, usual = getattr(benchmark, attribute), getattr(expected, attribute)
            if value != usual:
                return (
                    f"benchmark {name} has {attribute} {value}, which this version"
                    f" knows as {usual}"
                )
        types = {(parameter.name, parameter.type) for parameter in benchmark.parameters}
        for parameter in expected.parameters:
            is_needed = parameter.role and parameter.type != "node"
            if is_needed and (parameter.name, parameter.type) not in types:
                return f"benchmark {name} lacks its parameter {parameter.name}"
    return find_name_problem(benchmark.name for benchmark in benchmarks)


@dataclass(frozen=True, slots=True)
class Descriptions:
    """Benchmarks by name: this version's, and in `own` those that only stored runs
    describe.
    """

    own: Mapping[str, Benchmark] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Benchmark:
        """Return a benchmark by a name such as `cas` or `cas/llsc`; if unknown, one
        with a time per unit.
        """
        name = name.partition("/")[0]
        description = _KNOWN.get(name) or self.own.get(name)
        return description or Benchmark(
            name, "", "unit", 1, Shape.UNKNOWN, View.TABLE, "ns per unit"
        )


SHIPPED = Descriptions()


def read_descriptions(hello: Mapping[str, Any]) -> Descriptions:
    """Return this version's benchmarks, and those that only a stored hello
    describes.
    """
    own = {
        description["name"]: benchmark_from_description(description)
        for description in hello.get("benchmarks", ())
        if description["name"] not in _KNOWN
    }
    return Descriptions(own) if own else SHIPPED
