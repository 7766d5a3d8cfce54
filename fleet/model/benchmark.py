"""What benchmarks are, as `benchmarks.json` or a run's agent describes them: nothing here names one."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any


class Shape(StrEnum):
    """The CPUs of a visit: CPU is one, PAIR two, GROUP one or more that work at once."""

    CPU = "cpu"
    PAIR = "pair"
    GROUP = "group"
    UNKNOWN = "unknown"

    @classmethod
    def _missing_(cls, value: object) -> "Shape":  # noqa: ARG003
        return cls.UNKNOWN


class View(StrEnum):
    """How its numbers are shown.

    MATRIX: a number for each pair; CPUS: one for each CPU; LADDER: by size; TABLE: by the parameters of its
    points; BLOCKS: the same, with what the end of a block costs; PRODUCTS: with the share of the peak.
    """

    MATRIX = "matrix"
    CPUS = "cpus"
    LADDER = "ladder"
    TABLE = "table"
    BLOCKS = "blocks"
    PRODUCTS = "products"

    @classmethod
    def _missing_(cls, value: object) -> "View":  # noqa: ARG003
        return cls.TABLE


NAME = r"[a-z][a-z0-9_-]{0,46}"
"""The names of benchmarks, as `-b` takes them."""
NAME_IN_WORDS = "a lower-case letter, then up to 46 letters, digits, - and _"
_NEEDED = {
    View.LADDER: ("bytes", "threads"),
    View.BLOCKS: ("block_bytes", "sharing"),
    View.PRODUCTS: ("operation", "bytes", "threads"),
}
"""The parameters that a view is made of."""
_NO_SIZE = re.compile(r"(?<![0-9n])0+(?![0-9])")  # n0 is a NUMA node
_SIZE = re.compile(r"([0-9]+)([KMG]?)")
_NO_COLUMN = object()
_MOST_TEXTS, _LONGEST_TEXT = 64, 200


def _check_texts(texts: Sequence[str]) -> None:
    """Raise ValueError unless these may stand in a page: what a host says of its benchmarks."""
    if len(texts) > _MOST_TEXTS or not all(
        len(text) <= _LONGEST_TEXT and text.isprintable() for text in texts
    ):
        raise ValueError(f"a description has at most {_MOST_TEXTS} printable texts in a place")


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of points. type: word, bytes, count or node (a NUMA node). role: its place in a table.

    option: of the plan, that asks for it. words: those it may be, in the order of a table, with meanings.
    none: what it means that there is no value; without it a count has one at each point.
    """

    name: str
    type: str
    role: str | None = None
    option: str | None = None
    none: str | None = None
    words: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        of_itself = (self.name, self.type, self.role or "", self.option or "", self.none or "")
        _check_texts((*of_itself, *self.words, *self.words.values()))

    def unfit(self, value: Any, benchmark: "Benchmark") -> str:
        """What is wrong with its value at a point; empty for nothing."""
        if value is _NO_COLUMN:
            return ""
        if self.type != "word":
            of_size = self.role == "row" and benchmark.view is not View.PRODUCTS  # a peak has none
            needed = of_size or (self.role and self.type == "count" and not self.none)
            return f"no {self.name}" if needed and value is None else ""
        if not self.words or value in self.words or str(value).partition("-")[0] in self.words:
            return ""
        return f"{self.name} is {value!r}, which is none of {', '.join(self.words)}"

    def place(self, value: Any) -> Any:
        """Where a value stands among others. A word may be followed by how it was made (`memory-walked`)."""
        if self.type != "word":
            return value
        known = [*self.words]
        plain = value if value in self.words else str(value).partition("-")[0]
        return known.index(plain) if plain in known else len(known)


@dataclass(frozen=True, slots=True)
class Benchmark:
    """One benchmark, as an agent describes it (docs/wire.md).

    other_unit: what the threads beside ping count, where that is not ping's unit. variants: of each
    architecture, best first, and of all ("any").
    """

    name: str
    question: str
    unit: str
    latencies: int
    shape: Shape
    view: View
    heading: str
    other_unit: str | None = None
    rate: str | None = None
    point: str | None = None
    samples: int = 10
    many_points: bool = False
    parameters: tuple[Parameter, ...] = ()
    variants: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        variants = [name for names in self.variants.values() for name in names]
        _check_texts((self.name, self.question, self.unit, self.heading, self.rate or "", self.point or ""))
        _check_texts((*self.variants, *variants))
        names = {one.name for one in self.parameters}
        if self.latencies not in (1, 2) or len(names) < len(self.parameters):
            raise ValueError("a benchmark has 1 or 2 latencies, and each parameter once")
        many = self.view in (View.MATRIX, View.CPUS) and names and not self.point
        if many or not names.issuperset(_NEEDED.get(self.view, ())):
            object.__setattr__(self, "view", View.TABLE)
        if self.view is View.MATRIX and self.shape is Shape.CPU:
            object.__setattr__(self, "view", View.CPUS)

    @property
    def label(self) -> str:
        """What its number is, beside numbers: "one way, ns", "ns per load" or "GB/s"."""
        if self.latencies == 2:
            return "one way, ns"
        return self.rate or f"ns per {self.unit.replace('_', ' ')}"

    @property
    def node(self) -> Parameter | None:
        """The parameter that is the NUMA node of its memory."""
        return next((one for one in self.parameters if one.type == "node"), None)

    def in_role(self, role: str) -> list[Parameter]:
        """Its parameters with this role, in order."""
        return [parameter for parameter in self.parameters if parameter.role == role]

    def unfit(self, burst: Any) -> str:
        """What is wrong with a `Burst` of it, or nothing. What has no column is only in the point's name."""
        count, others = len(burst.cpus or {burst.ping_cpu, burst.pong_cpu}), burst.other_ticks
        if (self.shape is Shape.PAIR and count < 2) or (self.shape is Shape.CPU and count > 1):
            return f"{self.name} on {count} CPUs"
        if self.view in (View.MATRIX, View.CPUS) and burst.point and not self.point:
            return f"{self.name}: it has points, and none that stands for the pair"
        if self.shape is Shape.PAIR and others is not None and len(others) != 1:
            return f"{self.name}: other_ticks of a pair is one list, not {len(others)}"
        if burst.parameters is None or burst.point is None:
            return (
                f"{self.name}: it has no point, or no parameters"
                if self.parameters or self.many_points
                else ""
            )
        return self._unfit_point(burst, count)

    def _unfit_point(self, burst: Any, count: int) -> str:
        if burst.cpus and burst.parameters.threads not in (None, count):
            return f"{self.name}: {burst.parameters.threads} threads on {count} CPUs"
        if _NO_SIZE.search(burst.point):
            return f"{self.name}: point {burst.point} has a size of 0"
        values = [(one, getattr(burst.parameters, one.name, _NO_COLUMN)) for one in self.parameters]
        unfit = (one.unfit(value, self) for one, value in values)
        why = next(filter(None, unfit), "") or self._named_otherwise(burst.point, values)
        return f"{self.name}: {why}" if why else ""

    def _named_otherwise(self, point: str, values: Sequence[tuple[Parameter, Any]]) -> str:
        """What in the name of a point is not as in its parameters: a size, or a word one of them may be."""
        words = {*point.split(".")}
        sizes = {value for one, value in values if one.type == "bytes"} - {_NO_COLUMN, None}
        sized = () if self.view is View.PRODUCTS else words  # their shapes are fitted to a size
        for found in filter(None, map(_SIZE.fullmatch, sized)):
            size = int(found[1]) << 10 * " KMG".index(found[2] or " ")
            if sizes and size not in sizes:
                return f"point {point} is of another size than its parameters"
        for one, value in values:
            known = words & one.words.keys()
            if known and value and known.isdisjoint({*str(value).split("."), str(value).partition("-")[0]}):
                return f"point {point} has another {one.name} than its parameters, {value}"
        return ""


def described(told: Mapping[str, Any]) -> Benchmark:
    """A benchmark as the agent describes it. Keys that this version does not know are left out."""
    return Benchmark(
        **_known(Benchmark, told)
        | {"shape": Shape(told["shape"]), "view": View(told["view"])}
        | {"parameters": tuple(Parameter(**_known(Parameter, one)) for one in told.get("parameters", ()))}
    )


def _known(kind: type[Benchmark] | type[Parameter], told: Mapping[str, Any]) -> dict[str, Any]:
    return {one.name: told[one.name] for one in fields(kind) if one.name in told}


BENCHMARKS: Mapping[str, Benchmark] = MappingProxyType(
    {
        told["name"]: described(told)
        for told in json.loads(Path(__file__).with_name("benchmarks.json").read_text())
    }
)
LOAD = Benchmark(
    "load", "", "byte", 1, Shape.GROUP, View.TABLE, "GB/s of all other threads at full load", rate="GB/s"
)
"""No agent measures it: comparisons derive it from what the threads beside ping of a benchmark move."""
_KNOWN: Mapping[str, Benchmark] = MappingProxyType({**BENCHMARKS, LOAD.name: LOAD})
_MEANING = ("unit", "latencies", "shape", "view", "other_unit", "rate", "point")


def check_names(names: Iterable[str]) -> None:
    """Raise ValueError where `-b` cannot take the name of a benchmark."""
    for name in names:
        if not re.fullmatch(NAME, name):
            raise ValueError(f"{name!r} is not a benchmark: a name is {NAME_IN_WORDS}")


def check_descriptions(benchmarks: Iterable[Benchmark]) -> None:
    """Raise ValueError where a run describes a name that `-b` cannot take, or contradicts this version."""
    for benchmark in benchmarks:
        check_names([benchmark.name])
        known = _KNOWN.get(benchmark.name, benchmark)
        for attribute in _MEANING:
            value, usual = getattr(benchmark, attribute), getattr(known, attribute)
            if value != usual:
                raise ValueError(
                    f"benchmark {benchmark.name} has {attribute} {value}, which this version knows as {usual}"
                )
        types = {parameter.name: parameter.type for parameter in benchmark.parameters}
        for parameter in known.parameters:
            if parameter.role and types.get(parameter.name) != parameter.type:
                raise ValueError(f"benchmark {benchmark.name} lacks its parameter {parameter.name}")


@dataclass(frozen=True, slots=True)
class Descriptions:
    """The benchmarks of some runs: those of this version, and beside them what the runs describe.

    own: by name, the benchmarks that this version was built without.
    """

    own: Mapping[str, Benchmark] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Benchmark:
        """Return the benchmark of a name, or of `cas/llsc`; with just the time of a unit if undescribed."""
        name = name.partition("/")[0]
        known = _KNOWN.get(name) or self.own.get(name)
        return known or Benchmark(name, "", "unit", 1, Shape.UNKNOWN, View.TABLE, "ns per unit")


SHIPPED = Descriptions()


def read_descriptions(hello: Mapping[str, Any]) -> Descriptions:
    """Return what a stored hello says of benchmarks that this version was built without."""
    told = [one for one in hello.get("benchmarks", ()) if one["name"] not in _KNOWN]
    return Descriptions({one["name"]: described(one) for one in told}) if told else SHIPPED
