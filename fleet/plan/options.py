"""THE TABLE of plan options, `options.json`: for the command line, the inventory, the agent and the docs."""

import json
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from fleet import model
from fleet.errors import UsageError
from fleet.model.frozen import dataclass, replace
from fleet.plan import kinds
from fleet.plan.cpulist import cpu_list
from fleet.plan.variants import for_benchmarks
from fleet.text import LABEL_KEY

BURST_SAMPLES = 40_000  # as many fit into a line of the wire, warm-ups counted (agent/options/options.h)
FEW_PAIRS = 8  # of each relation, of benchmarks with many points
LONGEST_S = 1_000_000_000
_ORDERED, _HALF = model.PairChoice(model.Pairs.ORDERED), model.PairChoice(model.Pairs.HALF)


@dataclass(frozen=True, slots=True)
class EffectiveOptions(model.RequestedOptions):
    """Options with the agent's own default wherever nothing was asked for."""

    benchmarks: tuple[str, ...] = model.Plan().benchmarks
    variant: str = "auto"
    samples: int = 5
    warmup: int = 1
    rounds: int = 10
    precision: float = 0.01
    spread_s: float = 5.0
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
_BACK_TO_BACK = replace(DEFAULTS, precision=0.0, spread_s=0.0)  # what a number of rounds brings with it
_AS_OTHER_TOOLS = model.RequestedOptions(rounds=1, order=model.Order.SEQUENTIAL, line=model.LinePolicy.FIXED)
PRESETS: Mapping[model.Preset, model.RequestedOptions] = {
    model.Preset.CORE_LATENCY: replace(
        _AS_OTHER_TOOLS, samples=500, iterations=4000, warmup=0, pairs=_ORDERED
    ),
    model.Preset.CORE_TO_CORE_LATENCY: replace(
        _AS_OTHER_TOOLS, samples=300, iterations=1000, warmup=1, pairs=_HALF
    ),
    model.Preset.C2CLAT: replace(_AS_OTHER_TOOLS, samples=1000, iterations=100, warmup=0, pairs=_HALF),
}


@dataclass(frozen=True, slots=True)
class Option:
    """One option of a plan.

    name: its field in `RequestedOptions`. otherwise: what holds where it is not given, beside the value in
    `DEFAULTS`. below: the mapping of an inventory entry that has it; () for the entry itself, None where the
    inventory has no such key. flag: of `fleet run` and of the agent, without the dashes, if not the name.
    """

    name: str
    kind: kinds.Kind
    help: str
    otherwise: str = ""
    letter: str = ""
    below: tuple[str, ...] | None = ("plan",)
    flag: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "flag", self.flag or self.name.replace("_", "-"))

    @property
    def default(self) -> str:
        """What holds where it is not given, as people write it."""
        value = getattr(DEFAULTS, self.name)
        shown = "" if value is None else self.kind.show(value)
        return "; ".join(text for text in (shown, self.otherwise) if text)

    @property
    def key(self) -> tuple[str, ...]:
        """Where an inventory entry has it; () for nowhere."""
        return () if self.below is None else (*self.below, self.name)

    def typed(self, value: Any) -> str:
        """The option with a value, as typed on the command line."""
        return f"--{self.flag} {self.kind.show(value)}"

    def written(self, value: Any) -> str:
        """The option with a value, as written in an inventory."""
        return f"{self.name}: {self.kind.show(value)}"


_LIMITS = {"BURST_SAMPLES": BURST_SAMPLES, "LONGEST_S": LONGEST_S}
_PARAMETERS = [(one.name, part) for one in model.BENCHMARKS.values() for part in one.parameters]
_HAVING = {  # by an option of the agent the benchmarks with a parameter that it asks for
    option: ", ".join(dict.fromkeys(name for name, part in _PARAMETERS if part.option == option))
    for option in {part.option for _, part in _PARAMETERS if part.option}
} | {"many_points": ", ".join(one.name for one in model.BENCHMARKS.values() if one.many_points)}


def _kind(name: str, *given: Any) -> kinds.Kind:
    """A kind by its name in `kinds`, or made there: of words of the model or of the agent, or of limits."""
    found: Any = getattr(kinds, name)
    named = given[-1] if given and isinstance(given[-1], dict) else {}
    match name:
        case "one_of":
            given = (getattr(model, given[0]),)
        case "words_of":
            words = (word for _, part in _PARAMETERS if part.option == given[0] for word in part.words)
            given = tuple(dict.fromkeys(words))
        case _:
            given = tuple(_LIMITS.get(one, one) for one in given if one is not named)
    kind: kinds.Kind = found(*given, **named) if given else found
    return kind


def _option(about: dict[str, Any]) -> Option:
    """An option as `options.json` has it; its help may name benchmarks."""
    below, kind = about.get("below", ["plan"]), _kind(*about["kind"])
    made = {
        "kind": kind,
        "help": about["help"].format(**_HAVING),
        "below": None if below is None else tuple(below),
    }
    return Option(**about | made)


OPTIONS = tuple(map(_option, json.loads(Path(__file__).with_suffix(".json").read_text())))
BY_NAME: Mapping[str, Option] = MappingProxyType({option.name: option for option in OPTIONS})


@lru_cache(maxsize=64)  # asked several times for each host
def effective(options: model.RequestedOptions) -> EffectiveOptions:
    """What the agent makes of these options, with those of a preset and its own defaults below them."""
    given = model.merged(PRESETS[options.preset], options) if options.preset else options
    return model.merged(DEFAULTS if given.rounds is None else _BACK_TO_BACK, given)


def few_pairs(plan: model.Plan) -> model.PairChoice | None:
    """The pairs of benchmarks with many points, as requested or by default; None: as of all others."""
    many = any(model.benchmark_named(name).many_points for name in plan.benchmarks)
    if plan.few_pairs is not None or plan.pairs is not None or not many:
        return plan.few_pairs
    return model.PairChoice(model.Pairs.PER_RELATION, per_relation=FEW_PAIRS)


def of_host(host: model.Host) -> model.RequestedOptions:
    """The plan options of a host's inventory entry."""
    return replace(host.plan, cpus=host.cpus, priority=host.priority)


def requested(given: Mapping[str, str | None]) -> model.RequestedOptions:
    """Read plan options of a command line, by name; None: not given. Raises UsageError."""
    return model.RequestedOptions(
        **{
            name: read(BY_NAME[name].flag, text, BY_NAME[name].kind)
            for name, text in given.items()
            if text is not None
        }
    )


def read(flag: str, text: str, kind: kinds.Kind) -> Any:
    """Read the value of an option. Raises UsageError that names the option and says what is allowed."""
    try:
        return kind.read(text)
    except ValueError as err:
        shown = text if len(text) <= 60 else f"{text[:57]}..."
        raise UsageError(f"--{flag} {shown}: {err}") from err


def agent_arguments(plan: model.Plan) -> list[str]:
    """The arguments of the agent for a plan: its preset before what wins over it."""
    if plan.variant is not None:
        plan = replace(plan, variant=for_benchmarks(plan.variant, plan.benchmarks))
    words = []
    for option in sorted(OPTIONS, key=lambda option: (option.name != "deadline_s", option.name != "preset")):
        value = getattr(plan, option.name)
        if value is not None:
            words.append(f"--{option.flag}={option.kind.write(value)}")
    return words


def cpus(text: str) -> tuple[int, ...]:
    """Read "0-3,8"; ascending, repeats dropped. Raises UsageError."""
    numbers: tuple[int, ...] = read("cpus", text, replace(kinds.CPUS, read=cpu_list))
    return numbers


def choice(flag: str, text: str, known: Iterable[str]) -> str:
    """Read one of `known`. Raises UsageError that names them."""
    try:
        return kinds.among(text, tuple(known))
    except ValueError as err:
        raise UsageError(f"--{flag} {text[:60]}: {err}") from err


def labels(pairs: Iterable[str]) -> Mapping[str, str]:
    """Read key=value words. Raises UsageError for what is no such text, and for two values."""
    found: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not pair.isprintable():  # neither are bytes that are no UTF-8
            raise UsageError(f"--label {pair}: must be one line of text in UTF-8.")
        if not re.fullmatch(LABEL_KEY, key) or not equals:
            raise UsageError(
                f"--label {pair}: write key=value, for instance --label kernel=6.12; a key is letters, "
                "digits, dot, dash and _."
            )
        if found.setdefault(key, value) != value:
            raise UsageError(f"--label {pair}: {key}={found[key]} was given before; keep one of them.")
    return MappingProxyType(found)
