"""The variants of all architectures, to catch words that no agent knows; docs/variants.md explains them."""

from collections.abc import Mapping, Sequence
from itertools import chain

from fleet.model import BENCHMARKS

VARIANTS: Mapping[str, tuple[str, ...]] = {
    name: tuple(dict.fromkeys(variant for variants in one.variants.values() for variant in variants))
    for name, one in BENCHMARKS.items()
}
_EVERYWHERE = ("auto", "all")


def variant_choice(text: str) -> str:
    """Check "lse", "auto", "all" or "cas=lse,readwrite=ldar". Raises ValueError in words for people."""
    for part in text.split(","):
        benchmark, equals, name = part.strip().rpartition("=")
        if not equals and "," in text:
            raise ValueError(
                f"several variants are written per benchmark, as cas=lse,readwrite=ldar; not {text!r}"
            )
        if equals and benchmark not in VARIANTS:
            raise ValueError(f"unknown benchmark {benchmark!r}; there are {', '.join(VARIANTS)}")
        known = VARIANTS[benchmark] if equals else chain(*VARIANTS.values())
        if name not in (*_EVERYWHERE, *known):
            of = f" of {benchmark}" if equals else ""
            raise ValueError(f"unknown variant {name!r}{of}; there are {_listed(benchmark)}")
    return text.replace(" ", "")


def for_benchmarks(variant: str, benchmarks: Sequence[str]) -> str:
    """Give a lone variant to the benchmarks that know it: ("lse", ["cas", "readwrite"]) -> "cas=lse"."""
    if variant in _EVERYWHERE or "=" in variant or len(benchmarks) < 2:
        return variant
    knowing = [benchmark for benchmark in benchmarks if variant in VARIANTS.get(benchmark, ())]
    return ",".join(f"{benchmark}={variant}" for benchmark in knowing) or variant


def not_measured(variant: str, benchmarks: Sequence[str]) -> str:
    """Why no measured benchmark has a variant that was asked for; empty where each has one."""
    asked = [part.rpartition("=")[0] for part in variant.split(",")]
    if absent := [benchmark for benchmark in asked if benchmark and benchmark not in benchmarks]:
        return f"the variant names {absent[0]}, which is not measured"
    if variant in _EVERYWHERE or asked != [""]:
        return ""
    known = any(variant in VARIANTS[benchmark] for benchmark in benchmarks)
    return "" if known else f"no variant of {' or '.join(benchmarks)} is called {variant}"


def _listed(benchmark: str) -> str:
    some = {benchmark: VARIANTS[benchmark]} if benchmark else VARIANTS
    named = "; ".join(f"for {name} {', '.join(names)}" for name, names in some.items() if names)
    return f"auto, all{', and ' if named else ''}{named}"
