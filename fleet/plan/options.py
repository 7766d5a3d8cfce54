"""The table of plan options that the command line, the inventory, the agent and the
docs read: the agent's own, and what the controller adds.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from fleet import model
from fleet.errors import UsageError
from fleet.plan import grammars
from fleet.plan.agent_options import AGENT_OPTIONS, PRESET_ARGUMENTS, AgentOption
from fleet.plan.benchmark_names import (
    assign_to_benchmarks,
    split_benchmarks_and_variants,
)
from fleet.text import LABEL_KEY, suggest_similar

FEW_PAIRS = 8  # of each relation, of benchmarks with many points
_FLAGS = {
    "benchmarks": "benchmark",
    "separation_bytes": "sep",
    "operations": "op",
    "states": "state",
    "message_lines": "lines-per-message",
}
# set by --plan NAME=VALUE, since few runs need them
_RARE = frozenset(
    (
        *("iterations", "warmup", "spread_s", "few_pairs", "order", "owner", "node"),
        *("separation_bytes", "stride_bytes", "pages", "share", "states", "blocks"),
        *("seed", "priority", "deadline_s"),
    )
)
_LETTERS = {"benchmarks": "b", "samples": "s", "cpus": "c"}
_OF_ENTRY = ("cpus", "priority")
_COMMAND_LINE_ONLY = ("seed", "deadline_s")
NAME_A_VARIANT = "name a variant with its benchmark, as in cas/c11"


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectiveOptions(model.RequestedOptions):
    """Options with the agent's own default wherever nothing was requested."""

    benchmarks: tuple[str, ...]
    variant: str
    samples: int
    warmup: int
    rounds: int
    precision: float
    spread_s: float
    pairs: model.PairChoice


@dataclass(frozen=True, slots=True)
class Option:
    """One option of a plan."""

    name: str  # its field in `RequestedOptions`
    grammar: grammars.Grammar
    help: str
    usual: Any  # the value where none is requested; None: it depends
    usual_words: str  # beside it, when that is another

    @property
    def flag(self) -> str:
        """The option on the command line, without dashes."""
        return _make_flag(self.name)

    @property
    def is_rare(self) -> bool:
        """Whether the command line sets it by --plan, and by no option of its own."""
        return self.name in _RARE

    @property
    def letter(self) -> str:
        """The option's letter on the command line; "" if it has none."""
        return _LETTERS.get(self.name, "")

    @property
    def default(self) -> str:
        """The default value, as people write it."""
        texts = [self.usual_words]
        if self.usual is not None:
            texts.insert(0, self.grammar.show(self.usual))
        return "; ".join(filter(None, texts))

    @property
    def key(self) -> tuple[str, ...]:
        """The path of its key in an inventory entry; () if it has none."""
        if self.name in _COMMAND_LINE_ONLY:
            return ()
        if self.name in _OF_ENTRY:
            return (self.name,)
        return ("plan", self.name)

    def list_benchmarks(self) -> frozenset[str]:
        """Return the benchmarks that take the option; an empty set if all do.

        They are read from the option's help, which names them before a colon: "chase,
        fetch: …; bandwidth/tile: …".
        """
        names = set[str]()
        for clause in self.help.split("; "):
            takers, colon, _ = clause.partition(": ")
            if not colon:
                continue
            for taker in takers.split(", "):
                name, _, _ = taker.partition("/")
                names.add(name)
        # other words before a colon name no benchmark
        return frozenset(names & model.BENCHMARKS.keys())

    def as_flag(self, value: Any) -> str:
        """Return the option with a value, as typed on the command line."""
        return self.as_typed(self.grammar.show(value))

    def as_typed(self, text: str) -> str:
        """Return the option with the text of a value, as typed on the command line."""
        if self.is_rare:
            return f"--plan {self.name}={text}"
        return f"--{self.flag} {text}"

    def as_yaml(self, value: Any) -> str:
        """Return the option with a value, as written in an inventory."""
        return f"{self.name}: {self.grammar.show(value)}"


def _make_flag(name: str) -> str:
    """Return the agent's name, and the command line's, of a field's option."""
    plain = name.removesuffix("_s").removesuffix("_bytes").replace("_", "-")
    return _FLAGS.get(name, plain)


BURST_SAMPLES = AGENT_OPTIONS["samples"].most  # warm-ups counted


def _make_grammar(option: AgentOption) -> grammars.Grammar:
    """Return the grammar of the values that the agent describes by a type and a range.
    The agent counts in milliseconds and millionths, and people write seconds and
    shares.
    """
    smallest = option.least
    largest = option.most
    match option.type:
        case "counts":
            return grammars.make_integer_list_grammar(smallest, largest)
        case "duration_ms":
            return grammars.make_duration_grammar(smallest / 1e3, largest / 1e3)
        case "share_ppm":
            return grammars.make_share_grammar(smallest / 1e6, largest / 1e6)
        case "count":
            step = option.multiple or 1
            return grammars.make_integer_grammar(
                smallest, largest, multiple_of=step, metavar=option.value
            )
        case other:
            raise ValueError(
                f"--{option.name} is {other}: it needs a grammar of its own"
            )


def _make_word_list_grammar(flag: str) -> grammars.Grammar:
    """Return the grammar of lists of the words that benchmarks name for this option."""
    words: dict[str, None] = {}
    for benchmark in model.BENCHMARKS.values():
        words |= dict.fromkeys(benchmark.words_for_option(flag))
    return grammars.make_word_list_grammar(*words)


_NODES = "all, or a list of NUMA nodes such as 0,2"
_OWN_GRAMMARS = {  # of values that have a grammar, or a type of the model
    "benchmarks": grammars.BENCHMARKS,
    "variant": grammars.VARIANT,
    "preset": grammars.make_word_grammar(model.Preset),
    "pairs": grammars.PAIRS,
    "few_pairs": grammars.FEW_PAIRS,
    "order": grammars.make_word_grammar(model.Order),
    "line": grammars.make_word_grammar(model.LinePolicy),
    "owner": grammars.make_word_grammar(model.Side),
    "nodes": grammars.make_all_or_list_grammar(
        _make_grammar(AGENT_OPTIONS["node"]), _NODES
    ),
    "sizes": grammars.SIZES,
    "pages": grammars.make_word_grammar(model.Pages),
    "operations": _make_word_list_grammar("op"),
    "threads": grammars.THREADS,
    "load": grammars.LOAD,
    "share": _make_word_list_grammar("share"),
    "states": _make_word_list_grammar("state"),
    "blocks": grammars.BLOCKS,
    "shape": grammars.SHAPE,
    "counters": grammars.COUNTERS,
    "governor": grammars.GOVERNOR,
    "boost": grammars.SWITCH,
    "cpus": grammars.CPUS,
    "deadline_s": grammars.make_duration_grammar(
        1, AGENT_OPTIONS["deadline"].most / 1e3, whole_seconds=True
    ),
}
# where the controller does more than the agent
_OWN_HELP = {
    "benchmarks": "What to measure, or a variant: cas/c11.",
    "pairs": "Pairs: each once, both ways, some of each relation, or these.",
    "deadline_s": "Agents end themselves after this.",
}
_OWN_USUAL_WORDS = {
    "few_pairs": f"per-relation:{FEW_PAIRS}, or as --pairs",
    "deadline_s": "five times the forecast and 10m",
}


def _make_option(name: str) -> Option:
    """Return the option of a field of `RequestedOptions`: as the agent describes it,
    except where a table here has a grammar, a help or a default of its own.
    """
    agent_option = AGENT_OPTIONS[_make_flag(name)]
    grammar = _OWN_GRAMMARS.get(name) or _make_grammar(agent_option)
    usual = None  # the default, as its grammar reads it; None: it depends
    if agent_option.usual is not None:
        usual = grammar.read(agent_option.usual)
    help_text = _OWN_HELP.get(name, agent_option.help)
    # the default in words, where its value says less, or is not fixed
    usual_words = _OWN_USUAL_WORDS.get(name, agent_option.usual_words) or ""
    return Option(name, grammar, help_text, usual, usual_words)


OPTIONS = tuple(_make_option(field.name) for field in fields(model.RequestedOptions))
BY_NAME: Mapping[str, Option] = MappingProxyType(
    {option.name: option for option in OPTIONS}
)
BY_FLAG: Mapping[str, Option] = MappingProxyType(
    {option.flag: option for option in OPTIONS}
)
# a variant is named with its benchmark: cas/c11
OFFERED = tuple(option for option in OPTIONS if option.name != "variant")
DEFAULTS = EffectiveOptions(**{option.name: option.usual for option in OPTIONS})
_IN_ORDER_OF_ARGUMENTS = tuple(
    dict.fromkeys((BY_NAME["deadline_s"], BY_NAME["preset"], *OPTIONS))
)


def _read_defaults_with_rounds() -> EffectiveOptions:
    """Return the agent's defaults for a plan that requests a number of rounds. Some
    differ from DEFAULTS: `precision` is off, for instance.
    """
    values = {}
    for option in OPTIONS:
        text = AGENT_OPTIONS[option.flag].with_rounds
        if text is not None:
            values[option.name] = option.grammar.read(text)
    return replace(DEFAULTS, **values)


_DEFAULTS_WITH_ROUNDS = _read_defaults_with_rounds()


def _read_arguments(arguments: Iterable[str]) -> model.RequestedOptions:
    """Return the options that arguments such as "--samples=500" set."""
    values = {}
    for argument in arguments:
        flag, _, text = argument.removeprefix("--").partition("=")
        option = BY_FLAG[flag]
        values[option.name] = option.grammar.read(text)
    return model.RequestedOptions(**values)


PRESETS: Mapping[model.Preset, model.RequestedOptions] = MappingProxyType(
    {
        model.Preset(name): _read_arguments(arguments)
        for name, arguments in PRESET_ARGUMENTS.items()
    }
)


@lru_cache(maxsize=64)  # asked several times for each host
def resolve_defaults(options: model.RequestedOptions) -> EffectiveOptions:
    """Return the options that the agent will use: those requested, then a preset's,
    then its own defaults.
    """
    requested = options
    if options.preset is not None:
        requested = model.override_options(PRESETS[options.preset], options)
    defaults = DEFAULTS
    if requested.rounds is not None:  # then the precision is off by default
        defaults = _DEFAULTS_WITH_ROUNDS
    return model.override_options(defaults, requested)


def effective_few_pairs(plan: model.Plan) -> model.PairChoice | None:
    """Return the requested or default pairs for benchmarks with many points; None:
    those of `plan.pairs`.
    """
    if plan.few_pairs is not None or plan.pairs is not None:
        return plan.few_pairs
    if not any(model.BENCHMARKS[name].many_points for name in plan.benchmarks):
        return None
    return model.PairChoice(model.Pairs.PER_RELATION, per_relation=FEW_PAIRS)


def options_from_entry(host: model.Host) -> model.RequestedOptions:
    """Return the plan options of a host's inventory entry."""
    return replace(host.plan, cpus=host.cpus, priority=host.priority)


def options_for_host(
    host: model.Host, requested: model.RequestedOptions
) -> model.RequestedOptions:
    """Return the options of a host's entry, overridden by those requested. Requested
    benchmarks replace the entry's with their variants.
    """
    entry = options_from_entry(host)
    if requested.benchmarks is not None:
        entry = replace(entry, variant=None)
    return model.override_options(entry, requested)


def parse_requested(texts: Mapping[str, str | None]) -> model.RequestedOptions:
    """Parse a command line's plan options. texts: by option name, what was typed; None
    if the option was not typed. Raises UsageError.
    """
    values: dict[str, Any] = {}
    for name, text in texts.items():
        if text is None:
            continue
        option = BY_NAME[name]
        # people also name variants with the benchmarks: "cas/c11,clock"
        grammar = NAMED_BENCHMARKS if name == "benchmarks" else option.grammar
        try:
            values[name] = grammar.read(text)
        except model.InputError as err:
            raise UsageError(f"{option.as_typed(_shorten(text))}: {err}") from err
    return make_requested(values)


def parse_plan_words(words: Iterable[str]) -> Mapping[str, str]:
    """Parse the words after each --plan, NAME=VALUE; return the texts of values by
    name. --plan is for the rare options, which have no flag. Raises UsageError.
    """
    rare_names = [option.name for option in OFFERED if option.is_rare]
    names_with_flag = [option.name for option in OFFERED if not option.is_rare]
    texts: dict[str, str] = {}
    for word in words:
        name, equals, text = word.partition("=")
        if name in names_with_flag:
            raise UsageError(f"--plan {word}: write {BY_NAME[name].as_typed(text)}.")
        if name not in rare_names or not equals:
            similar = suggest_similar(name, rare_names)
            raise UsageError(
                f"--plan {word}: must be NAME=VALUE{similar} Names are"
                f" {', '.join(rare_names)}."
            )
        if texts.setdefault(name, text) != text:
            raise UsageError(
                f"--plan {word}: {name}={texts[name]} was given before; keep one of"
                " them."
            )
    return texts


def make_requested(values: Mapping[str, Any]) -> model.RequestedOptions:
    """Return the options with these parsed values, by option name. The value of
    `benchmarks` is a pair, (("cas", "clock"), "cas=c11"). It becomes two options: the
    benchmarks and their variants.
    """
    values = dict(values)
    named = values.pop("benchmarks", None)
    if named is None:
        return model.RequestedOptions(**values)
    benchmarks, variant = named
    return model.RequestedOptions(**values, benchmarks=benchmarks, variant=variant)


def _read_named_benchmarks(text: str) -> tuple[tuple[str, ...], str | None]:
    """Read "cas/c11,clock" -> (("cas", "clock"), "cas=c11"). Raises InputError."""
    if not re.search("[/ ]", text.strip()):
        return grammars.BENCHMARKS.read(text), None
    names, variants = split_benchmarks_and_variants(text)
    return grammars.BENCHMARKS.read(names), variants or None


NAMED_BENCHMARKS = replace(grammars.BENCHMARKS, read=_read_named_benchmarks)


@contextmanager
def naming_keywords() -> Iterator[None]:
    """Name plan options by their keywords in the message of a UsageError raised in this
    block: "--op read" becomes "operations read", "--plan node=0" "node 0".
    """

    def name_keyword(flag: re.Match[str]) -> str:
        option = BY_FLAG.get(flag[1])  # None if the flag is no plan option: it stays
        return option.name if option else flag[0]

    try:
        yield
    except UsageError as err:
        # behind --plan, the name is the keyword already
        message = re.sub("--plan ([a-z_]+)=", r"\1 ", str(err))
        message = re.sub("--([a-z-]+)", name_keyword, message)
        raise UsageError(message) from None


def parse_keywords(**options: object) -> model.RequestedOptions:
    """Parse plan options given as keywords; None means not given. Raises UsageError."""
    names = [option.name for option in OFFERED]
    if "variant" in options:
        raise UsageError(f"variant is not an option any more; {NAME_A_VARIANT}")
    if unknown := sorted(options.keys() - set(names)):
        similar = suggest_similar(unknown[0], names)
        raise UsageError(f"{unknown[0]!r} is not an option of a plan{similar}")
    texts = {}
    for name, value in options.items():
        if isinstance(value, list | tuple):
            texts[name] = ",".join(map(str, value))
        elif value is not None:
            texts[name] = str(value)
    return parse_requested(texts)


def parse_option(name: str, text: str, grammar: grammars.Grammar) -> Any:
    """Parse the value of the option or argument `name`. Raises UsageError that says
    what is allowed.
    """
    try:
        return grammar.read(text)
    except model.InputError as err:
        raise UsageError(f"{name} {_shorten(text)}: {err}") from err


def _shorten(text: str) -> str:
    return f"{text[:57]}..." if len(text) > 60 else text


def agent_arguments(plan: model.Plan) -> list[str]:
    """Return the agent's arguments for a plan. A preset is before all that may override
    a part of it.
    """
    if plan.variant is not None:
        # a variant without a benchmark, as "lse", becomes "cas=lse" for those that
        # have it
        variant = assign_to_benchmarks(plan.variant, plan.benchmarks)
        plan = replace(plan, variant=variant)
    arguments = []
    for option in _IN_ORDER_OF_ARGUMENTS:
        value = getattr(plan, option.name)
        if value is not None:
            arguments.append(f"--{option.flag}={option.grammar.write(value)}")
    return arguments


def parse_choice(name: str, text: str, choices: Iterable[str]) -> str:
    """Return the text if it is one of `choices`. Raises UsageError that lists them."""
    allowed = tuple(choices)
    grammar = grammars.Grammar(
        "", "", lambda word: grammars.require_choice(word, allowed)
    )
    return str(parse_option(name, text, grammar))


def parse_labels(pairs: Iterable[str]) -> Mapping[str, str]:
    """Parse key=value texts to a mapping. Raises UsageError for other text, or for two
    values of a key.
    """
    labels_by_key: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        # bytes that are no UTF-8 are surrogates here, which are not printable either
        if not pair.isprintable():
            raise UsageError(f"label {pair}: must be one line of text in UTF-8.")
        if not re.fullmatch(LABEL_KEY, key) or not equals:
            raise UsageError(
                f"label {pair}: write key=value; a key is letters, digits, '.', '-' and"
                " '_'."
            )
        other = labels_by_key.setdefault(key, value)
        if other != value:
            raise UsageError(
                f"label {pair}: {key}={other} was given before; keep one of them."
            )
    return MappingProxyType(labels_by_key)
