"""Makes the plan options of a command from the table in `fleet.plan.options`."""

from collections.abc import Callable, Collection, Mapping
from functools import wraps
from inspect import Parameter, signature
from typing import Annotated, Any

import typer

from fleet.cli import completion
from fleet.model import BENCHMARKS, RequestedOptions
from fleet.plan.options import BY_NAME, OPTIONS, Option, parse_requested

NOT_GIVEN = RequestedOptions()
HOW_MUCH = "How much"
PANELS: Mapping[str, str] = {  # of the help, each with its plan options
    "What to measure": "benchmarks variant preset pairs cpus sizes stride_bytes operations threads load "
    "reads share message_lines shape few_pairs states blocks counters",
    HOW_MUCH: "samples iterations warmup rounds precision time_budget_s spread_s",
    "How to measure": "order line owner node nodes separation_bytes pages governor boost seed priority "
    "deadline_s",
}
_FRONT_BENCHMARKS = "cas, readwrite, message, chase, bandwidth, loaded, contend, gemm"
USUAL = ("benchmarks", "cpus", "counters", "rounds", "precision", "time_budget_s", "governor")

_COMPLETIONS = {
    "benchmarks": completion.complete_benchmarks,
    "cpus": completion.complete_kinds,
    "governor": completion.complete_governors,
}


def describe_benchmarks() -> list[tuple[str, str]]:
    """Return each benchmark and the question that it answers, for --help-all."""
    return [(name, benchmark.question) for name, benchmark in BENCHMARKS.items()]


def add_plan_options(*, listed: Collection[str]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorate a command: plan options replace its parameter `requested`, which receives them parsed.

    listed: the options that the command's --help lists. The command raises UsageError for wrong values.
    """

    def add_options(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def parse_and_run(**arguments: Any) -> None:
            texts = {option.name: arguments.pop(option.name) for option in OPTIONS}
            texts["benchmarks"] = ",".join(texts["benchmarks"] or ()) or None
            command(requested=parse_requested(texts), **arguments)

        options = [
            _make_parameter(BY_NAME[name], panel, hidden=name not in listed)
            for panel, names in PANELS.items()
            for name in names.split()
        ]
        parameters: list[Parameter] = []
        for parameter in signature(command).parameters.values():
            parameters += options if parameter.name == "requested" else [parameter]
        parse_and_run.__signature__ = signature(command).replace(parameters=parameters)  # type: ignore[attr-defined]
        return parse_and_run

    return add_options


def _make_parameter(option: Option, panel: str, *, hidden: bool) -> Parameter:
    names = [f"--{option.flag}", *([f"-{option.letter}"] if option.letter else [])]
    is_benchmarks = option.name == "benchmarks"
    allowed = f"{_FRONT_BENCHMARKS}, …" if is_benchmarks else option.kind.allowed
    values = "" if option.kind.limits else f"{allowed}; "  # an error says which numbers
    described = typer.Option(
        *names,
        metavar=option.kind.metavar,
        help=f"{option.help} [{values}default: {option.default}]",
        rich_help_panel=panel,
        hidden=hidden,
        autocompletion=_COMPLETIONS.get(option.name),
    )
    kind: Any = list[str] | None if is_benchmarks else str | None
    return Parameter(
        option.name, Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation=Annotated[kind, described]
    )
