"""The plan options of a command, made from the table in `fleet.plan.options`."""

from collections.abc import Callable
from functools import wraps
from inspect import Parameter, signature
from typing import Annotated, Any

import typer

from fleet.model import RequestedOptions
from fleet.plan.options import OPTIONS, Option, requested

NOT_GIVEN = RequestedOptions()


def with_plan_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command each plan option in place of its parameter `requested`, which it gets. UsageError."""

    @wraps(command)
    def called(**given: Any) -> None:
        texts = {option.name: given.pop(option.name) for option in OPTIONS}
        command(requested=requested(texts), **given)

    parameters: list[Parameter] = []
    for parameter in signature(command).parameters.values():
        parameters += map(_parameter, OPTIONS) if parameter.name == "requested" else [parameter]
    called.__signature__ = signature(command).replace(parameters=parameters)  # type: ignore[attr-defined]
    return called


def _parameter(option: Option) -> Parameter:
    names = [f"--{option.flag}", *([f"-{option.letter}"] if option.letter else [])]
    allowed = "" if option.kind.limits else f"{option.kind.allowed}; "  # an error says which numbers
    text = f"{option.help} [{allowed}default: {option.default}]"
    kind = Annotated[str | None, typer.Option(*names, metavar=option.kind.metavar, help=text)]
    return Parameter(option.name, Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation=kind)
