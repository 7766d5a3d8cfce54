"""Names of benchmarks and variants: `cas`, `cas/c11`, `chase random`, lists of them,
`cas=lse`. Pure.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from fleet.errors import UsageError
from fleet.model import BENCHMARKS, InputError
from fleet.text import suggest_similar

ALL = "all"
VARIANTS: Mapping[str, tuple[str, ...]] = {
    name: tuple(
        dict.fromkeys(
            variant for variants in benchmark.variants.values() for variant in variants
        )
    )
    for name, benchmark in BENCHMARKS.items()
}
"""The variants of each benchmark on any architecture, to refuse unknown ones early
(docs/variants.md).
"""
_EVERYWHERE = ("auto", ALL)


class BenchmarkName(NamedTuple):
    """A benchmark, a variant and a setting: words that a point's name must have. Empty
    ones match any.
    """

    benchmark: str
    variant: str = ""
    setting: tuple[str, ...] = ()

    def __str__(self) -> str:
        return " ".join(
            [self.benchmark + f"/{self.variant}" * bool(self.variant), *self.setting]
        )

    def matches_kind(self, kind: str) -> bool:
        """Report whether benchmark and variant match a kind such as "cas/cmpxchg".
        Ignores the setting.
        """
        benchmark, _, variant = kind.partition("/")
        return self.benchmark in (benchmark, ALL) and self.variant in ("", variant)

    def matches_point(self, point: str) -> bool:
        """Report whether a point such as "random.512K.huge" has the words of
        this name.
        """
        return set(self.setting) <= set(point.split("."))


def parse_benchmark_names(text: str) -> tuple[BenchmarkName, ...]:
    """Parse "cas/c11,chase random" -> (cas/c11, chase random). Raises UsageError if it
    names nothing.
    """
    names = []
    for part in text.split(","):
        if words := part.split():
            benchmark, _, variant = words[0].partition("/")
            names.append(BenchmarkName(benchmark, variant, tuple(words[1:])))
    if not names or not all(name.benchmark for name in names):
        raise UsageError(f"--benchmark {text}: names no benchmark.")
    return tuple(names)


def select_kinds(text: str, kinds: Iterable[str]) -> list[str]:
    """Return those of `kinds`, such as "cas/cmpxchg", that a list of names matches.
    Raises UsageError.
    """
    names = parse_benchmark_names(text)
    return [kind for kind in kinds if any(name.matches_kind(kind) for name in names)]


def split_benchmarks_and_variants(text: str) -> tuple[str, str]:
    """Split "cas/c11,clock" -> ("cas,clock", "cas=c11"). Raises InputError for settings
    or two variants.
    """
    names = parse_benchmark_names(text)
    if name := next((name.benchmark for name in names if name.setting), None):
        raise InputError(f"{name} always measures all its settings; write only {name}")
    variants: dict[str, str] = {}
    for benchmark, variant, _ in names:
        if variant and variants.setdefault(benchmark, variant) != variant:
            raise InputError(
                f"a run measures one variant of {benchmark}, or all: --variant all"
            )
    return ",".join(name.benchmark for name in names), ",".join(
        f"{b}={v}" for b, v in variants.items()
    )


def describe_unmeasured_benchmark(text: str, kinds: Sequence[str]) -> str:
    """Return the error for a --benchmark that matches none of the measured kinds."""
    names = {kind.partition("/")[0] for kind in kinds}
    listed = f"There are {', '.join(kinds) or 'none'}."
    if text in BENCHMARKS and text not in names:
        return (
            f"--benchmark {text}: not measured. {listed} `fleet run -b {text}`"
            " measures it."
        )
    return (
        f"--benchmark {text}: not measured{suggest_similar(text, {*kinds, *names})}"
        f" {listed}"
    )


def check_variants(text: str) -> str:
    """Check "lse", "auto", "all" or "cas=lse,readwrite=ldar"; return it without blanks.
    Raises InputError.
    """
    for part in text.split(","):
        benchmark, equals, name = part.strip().rpartition("=")
        if not equals and "," in text:
            raise InputError(
                f"write several variants as cas=lse,readwrite=ldar; not {text!r}"
            )
        if equals and benchmark not in VARIANTS:
            raise InputError(
                f"unknown benchmark {benchmark!r}; there are {', '.join(VARIANTS)}"
            )
        variants = VARIANTS[benchmark] if equals else chain(*VARIANTS.values())
        if name not in (*_EVERYWHERE, *variants):
            of = f" of {benchmark}" if equals else ""
            raise InputError(
                f"unknown variant {name!r}{of}; there are {_list_variants(benchmark)}"
            )
    return text.replace(" ", "")


def assign_to_benchmarks(variant: str, benchmarks: Sequence[str]) -> str:
    """Assign a lone variant to the benchmarks that have it: ("lse", ["cas",
    "readwrite"]) -> "cas=lse".
    """
    if variant in _EVERYWHERE or "=" in variant or len(benchmarks) < 2:
        return variant
    knowing = [
        benchmark for benchmark in benchmarks if variant in VARIANTS.get(benchmark, ())
    ]
    return ",".join(f"{benchmark}={variant}" for benchmark in knowing) or variant


def find_variant_problem(variant: str, benchmarks: Sequence[str]) -> str | None:
    """Return why a requested variant does not fit the measured benchmarks; None if it
    does.
    """
    named_benchmarks = [part.rpartition("=")[0] for part in variant.split(",")]
    if absent := [
        benchmark
        for benchmark in named_benchmarks
        if benchmark and benchmark not in benchmarks
    ]:
        return f"the variant names {absent[0]}, which is not measured"
    if variant in _EVERYWHERE or named_benchmarks != [""]:
        return None
    is_known = any(variant in VARIANTS[benchmark] for benchmark in benchmarks)
    return (
        None
        if is_known
        else f"no variant of {' or '.join(benchmarks)} is called {variant}"
    )


def _list_variants(benchmark: str) -> str:
    some = {benchmark: VARIANTS[benchmark]} if benchmark else VARIANTS
    named = "; ".join(
        f"for {name} {', '.join(names)}" for name, names in some.items() if names
    )
    return f"auto, all{', and ' if named else ''}{named}"
