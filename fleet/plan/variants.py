"""Names of variants on all architectures, to refuse unknown ones early; docs/variants.md explains them."""

from collections.abc import Mapping, Sequence
from itertools import chain

from fleet.model import BENCHMARKS

VARIANTS: Mapping[str, tuple[str, ...]] = {
    name: tuple(dict.fromkeys(variant for variants in benchmark.variants.values() for variant in variants))
    for name, benchmark in BENCHMARKS.items()
}
_EVERYWHERE = ("auto", "all")


def check_variant(text: str) -> str:
    """Check "lse", "auto", "all" or "cas=lse,readwrite=ldar". Raises ValueError with a text for people."""
    for part in text.split(","):
        benchmark, equals, name = part.strip().rpartition("=")
        if not equals and "," in text:
            raise ValueError(
                f"several variants are written per benchmark, as cas=lse,readwrite=ldar; not {text!r}"
            )
        if equals and benchmark not in VARIANTS:
            raise ValueError(f"unknown benchmark {benchmark!r}; there are {', '.join(VARIANTS)}")
        variants = VARIANTS[benchmark] if equals else chain(*VARIANTS.values())
        if name not in (*_EVERYWHERE, *variants):
            of = f" of {benchmark}" if equals else ""
            raise ValueError(f"unknown variant {name!r}{of}; there are {_list_variants(benchmark)}")
    return text.replace(" ", "")


def assign_to_benchmarks(variant: str, benchmarks: Sequence[str]) -> str:
    """Assign a lone variant to the benchmarks that have it: ("lse", ["cas", "readwrite"]) -> "cas=lse"."""
    if variant in _EVERYWHERE or "=" in variant or len(benchmarks) < 2:
        return variant
    knowing = [benchmark for benchmark in benchmarks if variant in VARIANTS.get(benchmark, ())]
    return ",".join(f"{benchmark}={variant}" for benchmark in knowing) or variant


def why_not_measured(variant: str, benchmarks: Sequence[str]) -> str:
    """Return why no measured benchmark has a requested variant; "" if each has one."""
    named_benchmarks = [part.rpartition("=")[0] for part in variant.split(",")]
    if absent := [benchmark for benchmark in named_benchmarks if benchmark and benchmark not in benchmarks]:
        return f"the variant names {absent[0]}, which is not measured"
    if variant in _EVERYWHERE or named_benchmarks != [""]:
        return ""
    is_known = any(variant in VARIANTS[benchmark] for benchmark in benchmarks)
    return "" if is_known else f"no variant of {' or '.join(benchmarks)} is called {variant}"


def _list_variants(benchmark: str) -> str:
    some = {benchmark: VARIANTS[benchmark]} if benchmark else VARIANTS
    named = "; ".join(f"for {name} {', '.join(names)}" for name, names in some.items() if names)
    return f"auto, all{', and ' if named else ''}{named}"
