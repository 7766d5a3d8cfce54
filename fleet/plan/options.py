"""The table of plan options that the command line, the inventory, the agent and the
docs read.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from fleet import model
from fleet.errors import UsageError
from fleet.plan import kinds
from fleet.plan.benchmark_names import (
    assign_to_benchmarks,
    split_benchmarks_and_variants,
)
from fleet.text import LABEL_KEY, suggest_similar

# as many fit into a line of the wire, warm-ups counted (agent/options/options.h)
BURST_SAMPLES = 40_000
FEW_PAIRS = 8  # of each relation, of benchmarks with many points
BUDGET_S = 10.0  # the agent's usual time budget, where 20 rounds take no more
LONGEST_S = 1_000_000_000
_ORDERED, _HALF = (
    model.PairChoice(model.Pairs.ORDERED),
    model.PairChoice(model.Pairs.HALF),
)


@dataclass(frozen=True, slots=True)
class EffectiveOptions(model.RequestedOptions):
    """Options with the agent's own default wherever nothing was requested."""

    benchmarks: tuple[str, ...] = model.Plan().benchmarks
    variant: str = "auto"
    samples: int = 5
    warmup: int = 1
    rounds: int = 10
    precision: float = 0.01
    spread_s: float = 1.0
    pairs: model.PairChoice = _HALF
    order: model.Order = model.Order.SHUFFLED
    line: model.LinePolicy = model.LinePolicy.FRESH
    owner: model.Side = model.Side.PING
    sizes: str = "auto"
    operations: tuple[str, ...] = ("read", "write", "copy", "nt")
    threads: tuple[str, ...] = ("1", "all")
    share: tuple[str, ...] = ("own",)
    message_lines: tuple[int, ...] = (1,)
    shape: str = "auto"
    blocks: str = "64..64K"


DEFAULTS = EffectiveOptions()
# what a number of rounds brings with it
_BACK_TO_BACK = replace(DEFAULTS, precision=0.0, spread_s=0.0)
_TOOL = model.RequestedOptions(
    rounds=1, order=model.Order.SEQUENTIAL, line=model.LinePolicy.FIXED
)
PRESETS: Mapping[model.Preset, model.RequestedOptions] = {
    model.Preset.CORE_LATENCY: replace(
        _TOOL, samples=500, iterations=4000, warmup=0, pairs=_ORDERED
    ),
    model.Preset.CORE_TO_CORE_LATENCY: replace(
        _TOOL, samples=300, iterations=1000, warmup=1, pairs=_HALF
    ),
    model.Preset.C2CLAT: replace(
        _TOOL, samples=1000, iterations=100, warmup=0, pairs=_HALF
    ),
}

_FLAGS = {
    "benchmarks": "benchmark",
    "separation_bytes": "sep",
    "operations": "op",
    "states": "state",
    "message_lines": "lines-per-message",
}
_OF_ENTRY, _COMMAND_LINE_ONLY = ("cpus", "priority"), ("seed", "deadline_s")


@dataclass(frozen=True, slots=True)
class Option:
    """One option of a plan."""

    name: str  # its field in `RequestedOptions`
    kind: kinds.Kind
    help: str
    default_text: str = ""  # the default in words, beside the value in `DEFAULTS`
    letter: str = ""

    @property
    def flag(self) -> str:
        """The option on the command line, without dashes."""
        plain = self.name.removesuffix("_s").removesuffix("_bytes").replace("_", "-")
        return _FLAGS.get(self.name, plain)

    @property
    def default(self) -> str:
        """The default value, as people write it."""
        value = getattr(DEFAULTS, self.name)
        value_text = "" if value is None else self.kind.show(value)
        return "; ".join(text for text in (value_text, self.default_text) if text)

    @property
    def key(self) -> tuple[str, ...]:
        """The path of its key in an inventory entry; () if it has none."""
        if self.name in _COMMAND_LINE_ONLY:
            return ()
        return (self.name,) if self.name in _OF_ENTRY else ("plan", self.name)

    def as_flag(self, value: Any) -> str:
        """Return the option with a value, as typed on the command line."""
        return f"--{self.flag} {self.kind.show(value)}"

    def as_yaml(self, value: Any) -> str:
        """Return the option with a value, as written in an inventory."""
        return f"{self.name}: {self.kind.show(value)}"


def _make_word_list(option: str) -> kinds.Kind:
    """Return the kind of lists of the words that this option of the agent takes."""
    parts = [
        part for benchmark in model.BENCHMARKS.values() for part in benchmark.parameters
    ]
    words = (word for part in parts if part.option == option for word in part.words)
    return kinds.make_word_list_kind(*dict.fromkeys(words))


_MANY = ", ".join(
    name for name, benchmark in model.BENCHMARKS.items() if benchmark.many_points
)
_WITH = {  # the benchmarks with a parameter that this option of the agent sets
    option: ", ".join(
        b.name
        for b in model.BENCHMARKS.values()
        if option in {p.option for p in b.parameters}
    )
    for option in (
        "blocks",
        "load",
        "nodes",
        "op",
        "share",
        "sizes",
        "state",
        "threads",
    )
}
_integer, _seconds, _word = (
    kinds.make_integer_kind,
    kinds.make_duration_kind,
    kinds.make_word_kind,
)
_NODE = _integer(0, 1023)
_NODES = kinds.make_all_or_list_kind(_NODE, "all, or a list of NUMA nodes such as 0,2")
_BYTES_OF_4 = _integer(4, 1 << 20, multiple_of=4, metavar="BYTES")
_BYTES_OF_8 = _integer(8, 1 << 20, multiple_of=8, metavar="BYTES")
_UNTIL_PRECISE = (
    "Add rounds until nine in ten pairs' 95 % intervals are within this, or off."
)
_BUDGET = "Begin no burst after this, except for --rounds."
_READS = "loaded: per cent of its bytes that a load of mix or nt reads."
_STRIDE = "chase, fetch: from one line to the next; bandwidth/tile: rows."
OPTIONS = (
    Option(
        "benchmarks",
        kinds.BENCHMARKS,
        "What to measure, or a variant: cas/c11.",
        letter="b",
    ),
    Option("variant", kinds.VARIANT, "Instructions; auto: the best that the CPU has."),
    Option("preset", _word(model.Preset), "Sample as this tool does.", "none"),
    Option("samples", _integer(1, BURST_SAMPLES), "Samples in a burst.", letter="s"),
    Option(
        "iterations",
        _integer(1, 1_000_000_000),
        "Round trips in a sample.",
        "chosen for each pair",
    ),
    Option("warmup", _integer(0, BURST_SAMPLES), "Warm-up samples in a burst."),
    Option(
        "rounds",
        _integer(1, 1_000_000),
        "Measure each pair N times; with --precision, N or more.",
    ),
    Option(
        "precision",
        kinds.make_share_kind(1e-6, 1.0),
        _UNTIL_PRECISE,
        "off with --rounds",
    ),
    Option(
        "time_budget_s",
        _seconds(0.001, LONGEST_S),
        _BUDGET,
        f"{BUDGET_S:g}s, or what 20 rounds take",
    ),
    Option(
        "spread_s",
        _seconds(0, LONGEST_S),
        "Spread the minimum rounds over this.",
        "0s with --rounds",
    ),
    Option(
        "pairs",
        kinds.PAIRS,
        "Pairs: each once, both ways, some of each relation, or these.",
    ),
    Option(
        "few_pairs",
        kinds.FEW_PAIRS,
        f"{_MANY}: pairs.",
        "per-relation:8, or as --pairs",
    ),
    Option("order", _word(model.Order), "Order of the pairs in a round."),
    Option(
        "line",
        _word(model.LinePolicy),
        "Cache lines: new for every burst, or the same.",
    ),
    Option("owner", _word(model.Side), "The thread that touches lines first."),
    Option("node", _NODE, "NUMA node of the lines.", "where the owner runs"),
    Option(
        "nodes",
        _NODES,
        f"{_WITH['nodes']}: NUMA nodes of the memory, by turns.",
        "not by node",
    ),
    Option(
        "separation_bytes",
        _BYTES_OF_4,
        "Bytes between the two lines of readwrite.",
        "in different pages",
    ),
    Option(
        "sizes",
        kinds.SIZES,
        f"{_WITH['sizes']}: memory of each thread.",
        "by the caches",
    ),
    Option("stride_bytes", _BYTES_OF_8, _STRIDE, "256; 64 for window and rising"),
    Option(
        *("pages", _word(model.Pages), "Pages of the memory timed."),
        "huge for chase, bandwidth, gemm if there are any",
    ),
    Option(
        *(
            "operations",
            _make_word_list("op"),
            f"{_WITH['op']}: what is done; nt: past the caches.",
        ),
        "by benchmark",
    ),
    Option(
        *(
            "threads",
            kinds.THREADS,
            f"{_WITH['threads']}: threads at once, or on which CPUs.",
        ),
        "of contend, sharing 2,all; of loaded cores",
    ),
    Option(
        *(
            "load",
            kinds.LOAD,
            f"{_WITH['load']}: GB/s asked of each thread beside ping.",
        ),
        "0,1,2,4,8,16,full",
    ),
    Option("reads", kinds.make_integer_list_kind(1, 100), _READS, "mix 67, nt 0"),
    Option(
        *(
            "share",
            _make_word_list("share"),
            f"{_WITH['share']}: own memory for each thread, or one.",
        ),
        "of contend all",
    ),
    Option(
        *(
            "states",
            _make_word_list("state"),
            f"{_WITH['state']}: what was done to lines before.",
        ),
        "all; third, taken need a third CPU",
    ),
    Option(
        "blocks", kinds.BLOCKS, f"{_WITH['blocks']}: bytes before the other thread's."
    ),
    Option(
        "message_lines",
        kinds.make_integer_list_kind(1, 64),
        "message: lines written for each.",
    ),
    Option(
        "shape",
        kinds.SHAPE,
        "gemm: rows, columns and depth of a product.",
        "rounded up",
    ),
    Option("counters", kinds.COUNTERS, "Count events of the CPU.", "none"),
    Option(
        "governor",
        kinds.GOVERNOR,
        "Set this frequency governor for the run.",
        "unchanged",
    ),
    Option("boost", kinds.SWITCH, "Set frequency boost for the run.", "unchanged"),
    Option("cpus", kinds.CPUS, "Measure only these CPUs.", "all allowed", letter="c"),
    Option("seed", _integer(0, 2**63 - 1), "Seed of the shuffled order.", "drawn"),
    Option(
        "priority",
        _integer(0, 98),
        "Realtime priority, 0: none.",
        "1 on Linux where allowed",
    ),
    Option(
        *(
            "deadline_s",
            _seconds(1, LONGEST_S, whole_seconds=True),
            "Agents end themselves after this.",
        ),
        "five times the forecast and 10m",
    ),
)
BY_NAME: Mapping[str, Option] = MappingProxyType(
    {option.name: option for option in OPTIONS}
)
_IN_ORDER_OF_ARGUMENTS = tuple(
    dict.fromkeys((BY_NAME["deadline_s"], BY_NAME["preset"], *OPTIONS))
)


@lru_cache(maxsize=64)  # asked several times for each host
def resolve_defaults(options: model.RequestedOptions) -> EffectiveOptions:
    """Return the options that the agent will use: those requested, then a preset's,
    then its own defaults.
    """
    requested = (
        model.override_options(PRESETS[options.preset], options)
        if options.preset
        else options
    )
    return model.override_options(
        DEFAULTS if requested.rounds is None else _BACK_TO_BACK, requested
    )


def effective_few_pairs(plan: model.Plan) -> model.PairChoice | None:
    """Return the requested or default pairs for benchmarks with many points; None:
    those of `plan.pairs`.
    """
    many = any(model.BENCHMARKS[name].many_points for name in plan.benchmarks)
    if plan.few_pairs is not None or plan.pairs is not None or not many:
        return plan.few_pairs
    return model.PairChoice(model.Pairs.PER_RELATION, per_relation=FEW_PAIRS)


def options_from_entry(host: model.Host) -> model.RequestedOptions:
    """Return the plan options of a host's inventory entry."""
    return replace(host.plan, cpus=host.cpus, priority=host.priority)


def parse_requested(texts: Mapping[str, str | None]) -> model.RequestedOptions:
    """Parse a command line's plan options. texts: by option name; None: not typed.
    Raises UsageError.
    """
    benchmarks, variant = texts.get("benchmarks"), texts.get("variant")
    if benchmarks and set("/ ") & set(
        benchmarks.strip()
    ):  # cas/c11 becomes the option `variant`
        kind = kinds.Kind("NAMES", "", split_benchmarks_and_variants)
        benchmarks, variants = parse_option("--benchmark", benchmarks, kind)
        if variant and variants:
            raise UsageError(
                f"--variant {variant}: --benchmark names variants, too; keep one of"
                " them."
            )
        texts = {**texts, "benchmarks": benchmarks, "variant": variants or variant}
    options = [
        (BY_NAME[name], text) for name, text in texts.items() if text is not None
    ]
    values = {
        option.name: parse_option(f"--{option.flag}", text, option.kind)
        for option, text in options
    }
    return model.RequestedOptions(**values)


def parse_keywords(**options: object) -> model.RequestedOptions:
    """Parse plan options given as keywords; None means not given. Raises UsageError."""
    if unknown := sorted(options.keys() - BY_NAME.keys()):
        raise UsageError(
            f"{unknown[0]!r} is not an option of a"
            f" plan{suggest_similar(unknown[0], BY_NAME)}"
        )
    texts = {}
    for name, value in options.items():
        if value is not None:
            texts[name] = (
                ",".join(map(str, value))
                if isinstance(value, list | tuple)
                else str(value)
            )
    return parse_requested(texts)


def parse_option(name: str, text: str, kind: kinds.Kind) -> Any:
    """Parse the value of the option or argument `name`. Raises UsageError that says
    what is allowed.
    """
    try:
        return kind.read(text)
    except model.InputError as err:
        quoted = text if len(text) <= 60 else f"{text[:57]}..."
        raise UsageError(f"{name} {quoted}: {err}") from err


def agent_arguments(plan: model.Plan) -> list[str]:
    """Return the agent's arguments for a plan: the preset before what overrides it."""
    if plan.variant is not None:
        plan = replace(
            plan, variant=assign_to_benchmarks(plan.variant, plan.benchmarks)
        )
    values = [(option, getattr(plan, option.name)) for option in _IN_ORDER_OF_ARGUMENTS]
    return [
        f"--{option.flag}={option.kind.write(value)}"
        for option, value in values
        if value is not None
    ]


def parse_choice(name: str, text: str, choices: Iterable[str]) -> str:
    """Return the text if it is one of `choices`. Raises UsageError that lists them."""
    kind = kinds.Kind("", "", lambda text: kinds.require_choice(text, tuple(choices)))
    return str(parse_option(name, text, kind))


def parse_labels(pairs: Iterable[str]) -> Mapping[str, str]:
    """Parse key=value texts to a mapping. Raises UsageError for other text, or for two
    values of a key.
    """
    labels_by_key: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not pair.isprintable():  # neither are bytes that are no UTF-8
            raise UsageError(f"label {pair}: must be one line of text in UTF-8.")
        if not re.fullmatch(LABEL_KEY, key) or not equals:
            raise UsageError(
                f"label {pair}: write key=value; a key is letters, digits, '.', '-' and"
                " '_'."
            )
        if (other := labels_by_key.setdefault(key, value)) != value:
            raise UsageError(
                f"label {pair}: {key}={other} was given before; keep one of them."
            )
    return MappingProxyType(labels_by_key)
