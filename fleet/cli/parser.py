"""The one module that knows how typer parses and prints help; all others use typer's
public names.

Help is plain text in panels, since rich loads slowly. From 0.26 on, typer has its own
copy of click.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from inspect import signature
from typing import Any, TypeVar

import typer
from typer._completion_classes import completion_init
from typer._completion_shared import get_completion_script
from typer.core import TyperCommand, TyperGroup

try:
    from typer import _click as click
except ImportError:
    import click  # type: ignore[no-redef]

_Function = TypeVar("_Function", bound=Callable[..., Any])
_HELP_ALL = "--help-all"
# stands for "-" while lines are broken, so that names and options stay whole
_HYPHEN = "\u2011"

ParserError = click.exceptions.ClickException


class Command(TyperCommand):
    """A command whose help has panels and whose errors explain a value that was typed
    as an option.
    """

    def __init__(self, *names: Any, **settings: Any) -> None:
        super().__init__(*names, **settings)
        arguments = signature(self.callback).parameters if self.callback else {}
        for parameter in (
            self.params
        ):  # click 8.5 takes the help of arguments away from typer before 0.26
            if parameter.param_type_name == "argument":
                (described,) = arguments[str(parameter.name)].annotation.__metadata__
                parameter.help = described.help  # type: ignore[attr-defined]
                continue
            parameter.secondary_opts = []  # --no-json
            if not parameter.is_eager or parameter.name == "inventory":
                flag = max(parameter.opts, key=len).lstrip("-")
                variable = f"FLEET_{self.name}_{flag}".upper().replace("-", "_")
                # such as FLEET_INVENTORY, for every command
                other = parameter.envvar or []
                parameter.envvar = [
                    variable,
                    *([other] if isinstance(other, str) else other),
                ]
                parameter.show_envvar = False  # type: ignore[attr-defined]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments. If an unknown option is a value of other options, name
        these in the error.
        """
        try:
            return super().parse_args(ctx, args)
        except click.exceptions.NoSuchOption as err:
            value = re.compile(rf"\[.*\b{re.escape(err.option_name.lstrip('-'))}\b.*\]")
            takes = [
                option.opts[0]
                for option in self.params
                if value.search(getattr(option, "help", None) or "")
            ]
            if takes:
                err.message = (
                    f"No such option {err.option_name!r}; it is a value of"
                    f" {' and '.join(takes)}."
                )
                err.possibilities = None
            raise

    def format_options(
        self, ctx: click.Context, formatter: click.HelpFormatter
    ) -> None:
        """Write the arguments, then each panel of options, then the options without a
        panel.
        """
        panels: dict[str, list[tuple[str, str]]] = {"Arguments": []}
        for parameter, (names, text) in list_parameters(ctx):
            panel = getattr(parameter, "rich_help_panel", None) or "Options"
            if parameter.param_type_name == "argument":
                panel = "Arguments"
            panels.setdefault(panel, []).append((names, text.replace("-", _HYPHEN)))
        panels["Options"] = panels.pop("Options")  # which has --help, below the others
        for title, rows in panels.items():
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)
        formatter.buffer = [part.replace(_HYPHEN, "-") for part in formatter.buffer]

    def format_arguments(
        self, ctx: click.Context, formatter: click.HelpFormatter
    ) -> None:
        """Write nothing: click 8.5 calls this too, and `format_options` writes the
        arguments.
        """


class Group(TyperGroup):
    """All commands, in panels and in the order in which they were registered."""

    def format_commands(
        self,
        ctx: click.Context,  # noqa: ARG002
        formatter: click.HelpFormatter,
    ) -> None:
        """Write the commands, each below the heading of its panel."""
        panels: dict[str, list[tuple[str, str]]] = {"Commands": []}
        for name, command in self.commands.items():
            if not command.hidden:
                title = getattr(command, "rich_help_panel", None) or "Commands"
                panels.setdefault(title, []).append(
                    (name, command.get_short_help_str(80))
                )
        for title, rows in panels.items():
            with formatter.section(title):
                formatter.write_dl(rows)


class Program(typer.Typer):
    """A typer app that consists of a `Group` of `Command`s."""

    def __init__(self, **settings: Any) -> None:
        # then click names similar commands itself
        suggests = hasattr(click.exceptions, "NoSuchCommand")
        settings |= {
            "cls": Group,
            "suggest_commands": not suggests,
            "add_completion": False,
        }
        super().__init__(
            rich_markup_mode=None, pretty_exceptions_enable=False, **settings
        )
        # as typer does for its own options, instead of which there is `fleet
        # completion`
        completion_init()

    def command(
        self, name: str | None = None, **settings: Any
    ) -> Callable[[_Function], _Function]:
        """Register a command."""
        return super().command(name, cls=Command, **settings)


def whole_help_option(title: str, rows: Sequence[tuple[str, str]]) -> Any:
    """Return the option --help-all, which lists hidden options too, then these rows
    below a title.
    """

    def print_whole_help(context: typer.Context, is_asked: bool) -> None:
        if is_asked:
            _reveal_options(context.command)
            formatter = context.make_formatter()
            with formatter.section(title):
                formatter.write_dl(rows)
            typer.echo(f"{context.get_help()}\n\n{formatter.getvalue()}", nl=False)
            raise typer.Exit

    text = f"Show every option, and {title.lower()}."
    return typer.Option(_HELP_ALL, is_eager=True, callback=print_whole_help, help=text)


def is_given(parameter: str) -> bool:
    """Report whether an argument, a variable or a setting sets this parameter of the
    running command, if it has it.
    """
    source = click.globals.get_current_context().get_parameter_source(parameter)
    return source not in (None, click.core.ParameterSource.DEFAULT)


def list_command_contexts(root: typer.Context) -> Iterator[typer.Context]:
    """Yield a context of each visible command; it shows hidden options, too."""
    group = root.command
    assert isinstance(group, TyperGroup)  # noqa: S101  the program has commands
    for name, command in group.commands.items():
        if not command.hidden:
            _reveal_options(command)
            yield typer.Context(command, parent=root, info_name=name)


def completion_script(shell: str) -> str:
    """Return the script with which a shell completes fleet's arguments. shell: bash,
    zsh or fish.
    """
    return get_completion_script(
        prog_name="fleet", complete_var="_FLEET_COMPLETE", shell=shell
    )


def _reveal_options(command: click.Command) -> None:
    """Make all options of a command visible in its help, if it has --help-all."""
    if any(_HELP_ALL in parameter.opts for parameter in command.params):
        for parameter in command.params:
            parameter.hidden = False  # type: ignore[attr-defined]


def list_parameters(
    context: click.Context,
) -> Iterator[tuple[click.Parameter, tuple[str, str]]]:
    """Yield the parameters that a command's help lists, each with its name and its
    help.
    """
    for parameter in context.command.get_params(context):
        if (record := parameter.get_help_record(context)) is not None:
            # typer 0.20 escapes it for rich
            yield (
                parameter,
                (record[0], record[1].replace(r"\[", "[")),
            )
