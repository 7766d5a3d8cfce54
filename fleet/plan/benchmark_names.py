"""Names of benchmarks and variants: `cas`, `cas/c11`, `chase random`, lists of them,
`cas=lse`. Pure.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from fleet.errors import UsageError
from fleet.model import BENCHMARKS, InputError, Plan
from fleet.text import one_line, suggest_similar

AUTO = "auto"
ALL = "all"
VARIANTS: Mapping[str, tuple[str, ...]] = {
    name: tuple(dict.fromkeys(chain(*benchmark.variants.values())))
    for name, benchmark in BENCHMARKS.items()
}
"""The variants of each benchmark on any architecture, to refuse unknown ones early
(docs/variants.md).
"""
_EVERYWHERE = (AUTO, ALL)


class BenchmarkName(NamedTuple):
    """A benchmark, a variant and a setting: words that a point's name must have. Empty
    ones match any.
    """

    benchmark: str
    variant: str = ""
    setting: tuple[str, ...] = ()

    def __str__(self) -> str:
        choice = self.benchmark
        if self.variant:
            choice += f"/{self.variant}"
        return " ".join([choice, *self.setting])

    def matches_choice(self, choice: str) -> bool:
        """Report whether benchmark and variant match a choice such as "cas/cmpxchg".
        Ignores the setting.
        """
        benchmark, _, variant = choice.partition("/")
        return self.benchmark in (benchmark, ALL) and self.variant in ("", variant)

    def matches_point(self, point: str) -> bool:
        """Report whether a point such as "random.512K.huge" has the words of
        this name.
        """
        return set(self.setting) <= set(point.split("."))


def parse_benchmark_names(text: str) -> tuple[BenchmarkName, ...]:
    """Parse a list of names such as "cas/c11,chase random": benchmark cas with the
    variant c11, and benchmark chase with the setting ("random",). Raises UsageError if
    it names nothing.
    """
    names = []
    for part in text.split(","):
        if not part.strip():
            continue
        choice, *setting = part.split()
        benchmark, _, variant = choice.partition("/")
        names.append(BenchmarkName(benchmark, variant, tuple(setting)))
    if not names or not all(name.benchmark for name in names):
        raise UsageError(f"benchmark {text}: names no benchmark.")
    return tuple(names)


def select_choices(text: str, choices: Iterable[str]) -> list[str]:
    """Return those of `choices`, such as "cas/cmpxchg", that a list of names matches.
    Raises UsageError.
    """
    names = parse_benchmark_names(text)
    return [
        choice
        for choice in choices
        if any(name.matches_choice(choice) for name in names)
    ]


def split_benchmarks_and_variants(text: str) -> tuple[str, str]:
    """Split "cas/c11,clock" -> ("cas,clock", "cas=c11"). Raises InputError for a
    setting, an unknown variant, or two variants of one benchmark.
    """
    benchmarks = []
    variants: dict[str, str] = {}
    for benchmark, variant, setting in parse_benchmark_names(text):
        if setting:
            raise InputError(
                f"{benchmark} always measures all its settings; write only {benchmark}"
            )
        benchmarks.append(benchmark)
        # none for a name without a variant, such as "clock"; several for "all/c11"
        for name in _list_benchmarks_with_variant(benchmark, variant):
            first_variant = variants.setdefault(name, variant)
            if first_variant != variant:
                raise InputError(
                    f"a run measures one variant of {name}, or all: -b {name}/all"
                )
    return ",".join(benchmarks), _format_variants(variants)


def describe_unmeasured_benchmark(text: str, choices: Sequence[str]) -> str:
    """Return the error for a text that matches none of `choices`, the measured
    benchmarks with variants such as "cas/cmpxchg". Say how to measure it, or suggest
    similar names.
    """
    measured_names = {choice.partition("/")[0] for choice in choices}
    there_are = f"There are {', '.join(choices) or 'none'}."
    if text in BENCHMARKS and text not in measured_names:
        advice = f"`fleet run -b {text}` measures it."
        return one_line(f"benchmark {text}: not measured. {there_are} {advice}")
    suggestion = suggest_similar(text, {*choices, *measured_names})
    return one_line(f"benchmark {text}: not measured{suggestion} {there_are}")


def _list_benchmarks_with_variant(benchmark: str, variant: str) -> list[str]:
    """Return the benchmarks that a name such as "cas/c11" gives a variant: only
    `benchmark`, or for "all" each benchmark that has the variant. Return [] if
    `variant` is "". Raises InputError if no benchmark has the variant.
    """
    if not variant:
        return []
    names = VARIANTS if benchmark == ALL else [benchmark]
    names_with_variant = [name for name in names if _has_variant(name, variant)]
    if not names_with_variant:
        there_are = ", ".join([*_EVERYWHERE, *VARIANTS.get(benchmark, ())])
        raise InputError(
            f"unknown variant {variant!r} of {benchmark}; there are {there_are}"
        )
    return names_with_variant


def _has_variant(benchmark: str, variant: str) -> bool:
    """Report whether a benchmark has a variant on any architecture; an unknown one has
    all, since its own name is refused.
    """
    if benchmark not in VARIANTS:
        return True
    return variant in _EVERYWHERE or variant in VARIANTS[benchmark]


def assign_to_benchmarks(variant: str, benchmarks: Sequence[str]) -> str:
    """Assign a lone variant to the benchmarks that have it: ("lse", ["cas",
    "readwrite"]) -> "cas=lse".
    """
    if variant in _EVERYWHERE or "=" in variant or len(benchmarks) < 2:
        return variant
    having = [name for name in benchmarks if variant in VARIANTS.get(name, ())]
    return _format_variants(dict.fromkeys(having, variant)) or variant


def _format_variants(variants: Mapping[str, str]) -> str:
    """Format variants by benchmark as the agent takes them: "cas=lse,clock=tsc"."""
    return ",".join(f"{name}={variant}" for name, variant in variants.items())


def find_requested_variant(plan: Plan, benchmark: str) -> str:
    """Return the variant of a benchmark that a plan asks for, or AUTO or ALL.

    The plan's text gives variants by benchmark, such as "cas=lse,clock=tsc". A variant
    without a benchmark, as c11 in "c11,cas=lse", is for all benchmarks that the text
    does not name. If the text has no such variant, these benchmarks have AUTO.
    """
    text = assign_to_benchmarks(plan.variant or AUTO, plan.benchmarks)
    variant_of_others = AUTO
    for part in text.split(","):
        # "cas=lse" -> "cas", "lse"; "c11" -> "", "c11"
        name, _, variant = part.rpartition("=")
        # "cas=", without a variant, says nothing of cas
        if name == benchmark and variant:
            return variant
        if not name:
            variant_of_others = variant
    return variant_of_others
