"""Parses benchmarks as they are printed: `cas`, `cas/c11`, `chase random`, and lists of them. Pure."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from fleet.errors import UsageError
from fleet.model import BENCHMARKS
from fleet.text import suggest_similar

ALL = "all"


class BenchmarkName(NamedTuple):
    """A benchmark, a variant of it ("" for all), and words that a point's name has: () for all points."""

    benchmark: str
    variant: str = ""
    setting: tuple[str, ...] = ()

    def __str__(self) -> str:
        return " ".join([self.benchmark + f"/{self.variant}" * bool(self.variant), *self.setting])

    def matches_kind(self, kind: str) -> bool:
        """Report whether this names a kind such as "cas/cmpxchg", or points of it."""
        benchmark, _, variant = kind.partition("/")
        return self.benchmark in (benchmark, ALL) and self.variant in ("", variant)

    def matches_point(self, point: str) -> bool:
        """Report whether a point such as "random.512K.huge" has the words of this name."""
        return set(self.setting) <= set(point.split("."))


def parse_benchmark_names(text: str) -> tuple[BenchmarkName, ...]:
    """Parse "cas/c11,chase random" -> (cas/c11, chase random). Raises UsageError if it names nothing."""
    names = []
    for part in text.split(","):
        if words := part.split():
            benchmark, _, variant = words[0].partition("/")
            names.append(BenchmarkName(benchmark, variant, tuple(words[1:])))
    if not names or not all(name.benchmark for name in names):
        raise UsageError(f"--benchmark {text}: names no benchmark.")
    return tuple(names)


def select_kinds(text: str, kinds: Iterable[str]) -> list[str]:
    """Return the kinds, such as "cas/cmpxchg", that a list of names chooses."""
    names = parse_benchmark_names(text)
    return [kind for kind in kinds if any(name.matches_kind(kind) for name in names)]


def split_variants(text: str) -> tuple[str, str]:
    """Split names to measure: "cas/c11,clock" -> ("cas,clock", "cas=c11"). Raises ValueError for settings."""
    names = parse_benchmark_names(text)
    if setting := next((name for name in names if name.setting), None):
        raise ValueError(
            f"{setting.benchmark} is measured in all its settings; name {setting.benchmark} alone"
        )
    variants: dict[str, str] = {}
    for name in names:
        if name.variant and variants.setdefault(name.benchmark, name.variant) != name.variant:
            raise ValueError(f"a run measures one variant of {name.benchmark}, or all: --variant all")
    return ",".join(name.benchmark for name in names), ",".join(f"{b}={v}" for b, v in variants.items())


def describe_missing(text: str, kinds: Sequence[str]) -> str:
    """Return what to say of names that choose none of these kinds."""
    names = {kind.partition("/")[0] for kind in kinds}
    listed = f"There are {', '.join(kinds) or 'none'}."
    if text in BENCHMARKS and text not in names:
        return f"--benchmark {text}: not measured. {listed} `fleet run -b {text}` measures it."
    return f"--benchmark {text}: not measured{suggest_similar(text, {*kinds, *names})} {listed}"
