"""Makes the plan options of a command from the table in `fleet.plan.options`."""

from collections.abc import Callable, Collection, Mapping
from functools import wraps
from inspect import Parameter, signature
from typing import Annotated, Any

from fleet.cli import completion
from fleet.cli.options import join_lists, option
from fleet.model import BENCHMARKS, RequestedOptions
from fleet.plan.options import (
    BY_NAME,
    OFFERED,
    Option,
    parse_plan_words,
    parse_requested,
)

NOT_GIVEN = RequestedOptions()
HOW_MUCH = "How much"
_HOW = "How to measure"
PANELS: Mapping[str, str] = {  # of the help, each with its plan options
    "What to measure": (
        "benchmarks preset pairs cpus sizes operations threads load reads"
        " message_lines shape counters"
    ),
    HOW_MUCH: "samples rounds precision time_budget_s",
    _HOW: "line nodes governor boost",
}
_BENCHMARKS_OF_HELP = "cas, readwrite, message, chase, bandwidth, loaded, contend, gemm"
BENCHMARK_QUESTIONS = [
    (name, benchmark.question) for name, benchmark in BENCHMARKS.items()
]
USUAL = (
    "benchmarks",
    "cpus",
    "counters",
    "rounds",
    "precision",
    "time_budget_s",
    "governor",
)

_COMPLETIONS = {
    "benchmarks": completion.complete_benchmarks,
    "cpus": completion.complete_kinds,
    "governor": completion.complete_governors,
}


def add_plan_options(
    command: Callable[..., None], *, listed: Collection[str]
) -> Callable[..., None]:
    """Make a command take plan options, and pass it their parsed values as its
    parameter `requested`.

    listed: the options that --help lists; others are hidden. The command raises
    UsageError for wrong values.
    """

    @wraps(command)
    def parse_and_run(**arguments: Any) -> None:
        # Replace the arguments that typer passes for `requested`, see below: one for
        # each option with a flag, and `plan`, the words NAME=VALUE of the others.
        texts = {name: arguments.pop(name) for name in _list_options_with_flag()}
        words = arguments.pop("plan") or ()
        texts |= parse_plan_words(words)
        texts["benchmarks"] = join_lists(texts["benchmarks"])
        command(requested=parse_requested(texts), **arguments)

    # Typer reads a command's options from its signature: list the plan options there in
    # place of `requested`.
    described = signature(command)
    parameters: list[Parameter] = []
    for parameter in described.parameters.values():
        if parameter.name == "requested":
            parameters += _make_parameters(listed)
        else:
            parameters.append(parameter)
    parse_and_run.__signature__ = described.replace(parameters=parameters)  # type: ignore[attr-defined]
    return parse_and_run


def _make_parameters(listed: Collection[str]) -> list[Parameter]:
    """Return a parameter for each plan option; those in `listed` are not hidden."""
    parameters = []
    for panel, names in PANELS.items():
        for name in names.split():
            hidden = name not in listed
            parameters.append(_make_parameter(BY_NAME[name], panel, hidden=hidden))
    return [*parameters, _make_plan_parameter()]


def _list_options_with_flag() -> list[str]:
    """Return the names of the plan options that have a flag of their own on the command
    line; --plan sets the others.
    """
    return [option.name for option in OFFERED if not option.is_rare]


def _make_plan_parameter() -> Parameter:
    """Return the parameter of --plan, which sets the options that have no flag."""
    rare = [option.name for option in OFFERED if option.is_rare]
    described = option(
        f"Set one of these, as an inventory's `plan:`; repeatable: {', '.join(rare)}.",
        "--plan NAME=VALUE",
        rich_help_panel=_HOW,
        hidden=True,
    )
    return Parameter(
        "plan",
        Parameter.POSITIONAL_OR_KEYWORD,
        default=None,
        annotation=Annotated[list[str] | None, described],
    )


def _make_parameter(plan_option: Option, panel: str, *, hidden: bool) -> Parameter:
    """Return the parameter of a plan option, from which typer makes an option of the
    command. Its value is the text as it was given, None without it; for the benchmarks
    it is a list of texts, since that option is repeatable.

    panel: the heading in the help below which the option is.
    """
    kind: Any = str | None
    if plan_option.name == "benchmarks":
        kind = list[str] | None
    letter = f"-{plan_option.letter} " if plan_option.letter else ""
    described = option(
        f"{plan_option.help} [{_describe_values(plan_option)}]",
        f"--{plan_option.flag} {letter}{plan_option.grammar.metavar}",
        _COMPLETIONS.get(plan_option.name),
        rich_help_panel=panel,
        hidden=hidden,
    )
    return Parameter(
        plan_option.name,
        Parameter.POSITIONAL_OR_KEYWORD,
        default=None,
        annotation=Annotated[kind, described],
    )


def _describe_values(plan_option: Option) -> str:
    """Describe the values that an option takes, and its default. Of an option that has
    limits, describe only the default.
    """
    default = f"default: {plan_option.default}"
    if plan_option.grammar.limits:  # an error tells the limits
        return default
    allowed = plan_option.grammar.allowed
    if plan_option.name == "benchmarks":
        # there are more; --help-all describes each
        allowed = f"{_BENCHMARKS_OF_HELP}, …"
    return f"{allowed}; {default}"
