"""Describes benchmarks, from `benchmarks.json` or from a run's agent. No benchmark is
named in the code.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, fields
from enum import StrEnum
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

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
_MAX_TEXTS = 64
_LONGEST_TEXT = 200


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
    are_short = all(len(text) <= _LONGEST_TEXT for text in texts)
    are_printable = all(text.isprintable() for text in texts)
    if len(texts) > _MAX_TEXTS or not are_short or not are_printable:
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
    # the meaning of a missing value; without it a count has a value at each point
    none: str | None = None
    # in the order of a table, with meanings
    words: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raise InputError for texts of an agent that pages cannot show."""
        texts = [self.name, self.type, self.role, self.option, self.none]
        given = [text for text in texts if text]
        meanings = self.words.values()
        _require_short([*given, *self.words, *meanings])

    def find_mismatch(self, value: Any, benchmark: "Benchmark") -> str | None:
        """Return why a point of `benchmark` cannot have this value; None if it can."""
        if self.type == "word":
            if not self.words or self._find_listed_word(value) is not None:
                return None
            return f"{self.name} is {value!r}, not one of {', '.join(self.words)}"
        if value is None and self._is_needed(benchmark):
            return f"no {self.name}"
        return None

    def _is_needed(self, benchmark: "Benchmark") -> bool:
        """Report whether each point of `benchmark` has a value of this number."""
        if self.role == "row" and benchmark.view is not View.PRODUCTS:
            return True  # a size, which only the peak of products lacks
        return bool(self.role) and self.type == "count" and not self.none

    def is_contradicted_by(self, point_words: Set[str], value: Any) -> bool:
        """Report whether a point is named by words of this parameter that its value
        does not have.
        """
        own_words = point_words & self.words.keys()
        if not own_words or not value:
            return False
        value_words = {value, *re.split("[.-]", str(value))}
        return own_words.isdisjoint(value_words)

    def sort_key(self, value: Any) -> Any:
        """Return the key that sorts values of this parameter. Words are in the order of
        `words`, before all words that are not listed there; numbers sort by themselves.
        """
        if self.type != "word":
            return value
        listed_word = self._find_listed_word(value)
        if listed_word is None:
            return len(self.words)
        return list(self.words).index(listed_word)

    def _find_listed_word(self, value: Any) -> str | None:
        """Return the listed word that a value is, or begins with before a dash, as
        `mix` in `mix-75`; else None.
        """
        begin, _, _ = str(value).partition("-")
        for word in (value, begin):
            if word in self.words:
                return str(word)
        return None


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
    other_unit: str | None = None  # what threads beside ping count, if another
    rate: str | None = None
    point: str | None = None
    many_points: bool = False
    parameters: tuple[Parameter, ...] = ()
    variants: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check an agent's description, and choose the view that can show its
        benchmark. Raises InputError.
        """
        texts = [
            self.name,
            self.question,
            self.unit,
            self.heading,
            self.rate or "",
            self.point or "",
        ]
        _require_short(texts)
        arches = list(self.variants)
        variants = list(chain(*self.variants.values()))
        _require_short(arches + variants)
        names = {parameter.name for parameter in self.parameters}
        if self.latencies not in (1, 2) or len(names) < len(self.parameters):
            raise InputError(
                "a benchmark needs 1 or 2 latencies, and parameters with different"
                " names"
            )
        # the class is frozen, and this is still its construction
        object.__setattr__(self, "view", self._choose_view())

    def _choose_view(self) -> View:
        """Return the described view, or the nearest that can show this benchmark.

        A TABLE shows any benchmark, also one that lacks a parameter that its view
        needs. A MATRIX has one number for each pair, CPUS has one for each CPU. A
        benchmark with several points has to name the point whose number that is.
        """
        names = {parameter.name for parameter in self.parameters}
        needed_names = _NEEDED.get(self.view, ())
        if not names.issuperset(needed_names):
            return View.TABLE
        is_by_cpus = self.view in (View.MATRIX, View.CPUS)
        if not is_by_cpus:
            return self.view
        if self._needs_point() and not self.point:
            return View.TABLE
        if self.shape is Shape.CPU:
            return View.CPUS
        return self.view

    def _needs_point(self) -> bool:
        """Report whether this benchmark's bursts have a point even if no NUMA node was
        requested.
        """
        if self.many_points:
            return True
        return any(parameter.type != "node" for parameter in self.parameters)

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
        for parameter in self.parameters:
            if parameter.type == "node":
                return parameter
        return None

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
        """Return why a burst cannot be of this benchmark; None if it can. burst: a
        `Burst`, or an object with its attributes. Values that only a newer agent knows,
        and that have no field in `Parameters`, are not checked.
        """
        cpus = burst.cpus or {burst.ping_cpu, burst.pong_cpu}
        count = len(cpus)
        too_few = self.shape is Shape.PAIR and count < 2
        too_many = self.shape is Shape.CPU and count > 1
        if too_few or too_many:
            return f"{self.name} on {count} CPUs"
        why = self._find_part_problem(burst)
        if why is None:
            why = self._find_parameter_problem(burst, count)
        if why is None:
            return None
        return f"{self.name}: {why}"

    def _find_part_problem(self, burst: Any) -> str | None:
        """Return which part of a burst this benchmark cannot have, or lacks: the point,
        the parameters, or the times of the other thread. Return None if all is well.
        """
        # These views show one number for each pair or CPU, and a burst is of one point.
        # So the benchmark has to tell which of its points has that number.
        is_by_cpus = self.view in (View.MATRIX, View.CPUS)
        if is_by_cpus and burst.point and not self._tells_number_of_pair(burst):
            return "it has points, but none that stands for the pair"
        others = burst.other_ticks
        if self.shape is Shape.PAIR and others is not None and len(others) != 1:
            return f"other_ticks of a pair is one list, not {len(others)}"
        has_point = burst.point is not None and burst.parameters is not None
        if self._needs_point() and not has_point:
            return "it has no point, or no parameters"
        return None

    def _tells_number_of_pair(self, burst: Any) -> bool:
        """Report whether the number of a pair can be told from a burst with a point:
        the benchmark names the point that stands for the pair, such as `x1`, or the
        point is the NUMA node of the memory, such as `n0`.
        """
        is_of_node = self.node is not None and burst.parameters is not None
        return bool(self.point) or is_of_node

    def _find_parameter_problem(self, burst: Any, count: int) -> str | None:
        """Return how a burst contradicts its point or parameters; None if it does not.
        count: the number of the burst's CPUs.
        """
        if burst.point is None or burst.parameters is None:
            return None
        threads = burst.parameters.threads
        if burst.cpus and threads not in (None, count):
            return f"{threads} threads on {count} CPUs"
        return self._find_point_mismatch(burst.point, burst.parameters)

    def _find_point_mismatch(self, point: str, parameters: Any) -> str | None:
        """Return how the parameters of a burst contradict this benchmark, or the name
        of the burst's point; None if they do not. parameters: its `Parameters`.

        The name of a point is words with dots between them: "random.512K.huge". A word
        that a parameter lists has to fit the value of that parameter. A size, such as
        512K, has to be the value of one of the parameters in bytes.
        """
        if _NO_SIZE.search(point):
            return f"point {point} has a size of 0"
        words_of_name = set(point.split("."))
        parameter_values = self._pair_with_values(parameters)
        for parameter, value in parameter_values:
            mismatch = parameter.find_mismatch(value, self)
            if mismatch is not None:
                return mismatch
            if parameter.is_contradicted_by(words_of_name, value):
                return (
                    f"point {point} has another {parameter.name} than its parameters,"
                    f" {value}"
                )
        sizes = set()
        for parameter, value in parameter_values:
            if parameter.type == "bytes" and value is not None:
                sizes.add(value)
        # a product works on whole matrices, which together only come close to the size
        # in the name of its point
        if not sizes or self.view is View.PRODUCTS:
            return None
        sizes_or_none = map(parse_size, words_of_name)
        sizes_in_name = {size for size in sizes_or_none if size is not None}
        if not sizes_in_name <= sizes:
            return f"point {point} is of another size than its parameters"
        return None

    def _pair_with_values(self, parameters: Any) -> list[tuple[Parameter, Any]]:
        """Return the parameters, each with its value in a burst's `Parameters`; leave
        out those of a newer agent, for which `Parameters` has no field.
        """
        pairs = []
        for parameter in self.parameters:
            if hasattr(parameters, parameter.name):
                value = getattr(parameters, parameter.name)
                pairs.append((parameter, value))
        return pairs


def benchmark_from_description(description: Mapping[str, Any]) -> Benchmark:
    """Return the benchmark that an agent describes. Ignore unknown keys, which a newer
    agent may send.
    """
    values = _select_fields(Benchmark, description)
    values["shape"] = _read_word(Shape, values["shape"], Shape.UNKNOWN)
    values["view"] = _read_word(View, values["view"], View.TABLE)
    parameters = []
    for part in description.get("parameters", ()):
        values_of_parameter = _select_fields(Parameter, part)
        parameters.append(Parameter(**values_of_parameter))
    values["parameters"] = tuple(parameters)
    return Benchmark(**values)


_Word = TypeVar("_Word", bound=StrEnum)


def _read_word(words: type[_Word], text: str, unknown: _Word) -> _Word:
    """Return the word of an enum, or `unknown` for one that only a newer agent has."""
    try:
        return words(text)
    except ValueError:
        return unknown


def _select_fields(
    kind: type[Benchmark] | type[Parameter], description: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the values of a description that are fields of a dataclass, by name."""
    return {
        item.name: description[item.name]
        for item in fields(kind)
        if item.name in description
    }


_DESCRIPTIONS = json.loads(Path(__file__).with_name("benchmarks.json").read_text())
BENCHMARKS: Mapping[str, Benchmark] = MappingProxyType(
    {
        description["name"]: benchmark_from_description(description)
        for description in _DESCRIPTIONS
    }
)
LOAD = Benchmark(
    name="load",
    question="",
    unit="byte",
    latencies=1,
    shape=Shape.GROUP,
    view=View.TABLE,
    heading="GB/s of all other threads at full load",
    rate="GB/s",
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
        expected = _KNOWN.get(benchmark.name)
        if expected and (why := _find_changed_meaning(benchmark, expected)):
            return f"benchmark {benchmark.name} {why}"
    return find_name_problem(benchmark.name for benchmark in benchmarks)


def _find_changed_meaning(benchmark: Benchmark, expected: Benchmark) -> str | None:
    """Return in what a host's benchmark differs from the one that this version knows by
    its name, so that their numbers do not mean the same; None if they do.
    """
    for attribute in _MEANING:
        value = getattr(benchmark, attribute)
        expected_value = getattr(expected, attribute)
        if value != expected_value:
            return (
                f"has {attribute} {value}, which this version knows as {expected_value}"
            )
    type_by_name = {item.name: item.type for item in benchmark.parameters}
    for parameter in expected.parameters:
        # A parameter with a role has a place in the tables, which cannot do without the
        # parameter. A node is the exception, since often none is requested.
        is_needed = parameter.role and parameter.type != "node"
        if is_needed and type_by_name.get(parameter.name) != parameter.type:
            return f"lacks its parameter {parameter.name}"
    return None


@dataclass(frozen=True, slots=True)
class Descriptions:
    """Benchmarks by name: this version's, and in `own` those that only stored runs
    describe.
    """

    own: Mapping[str, Benchmark] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Benchmark:
        """Return a benchmark by a name such as `cas` or `cas/llsc`, whose variant is
        ignored. An unknown one is taken for a benchmark whose numbers are ns per unit.
        """
        name = name.partition("/")[0]
        benchmark = _KNOWN.get(name) or self.own.get(name)
        if benchmark is not None:
            return benchmark
        return Benchmark(
            name=name,
            question="",
            unit="unit",
            latencies=1,
            shape=Shape.UNKNOWN,
            view=View.TABLE,
            heading="ns per unit",
        )

    @property
    def rates(self) -> frozenset[str]:
        """Return the names of the benchmarks whose numbers are shown as rates."""
        known = {**self.own, **_KNOWN}
        return frozenset(name for name in known if known[name].rate)


SHIPPED = Descriptions()


def read_descriptions(hello: Mapping[str, Any]) -> Descriptions:
    """Return the descriptions that a run needs: this version's, and from the run's
    hello those of benchmarks that this version does not know.
    """
    only_in_hello = {}
    for description in hello.get("benchmarks", ()):
        name = description["name"]
        if name not in _KNOWN:
            only_in_hello[name] = benchmark_from_description(description)
    if not only_in_hello:
        return SHIPPED
    return Descriptions(only_in_hello)
