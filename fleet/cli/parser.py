"""The one module that knows how typer parses and prints help; all others use typer's
public names.

Help is plain text in panels, since rich loads slowly. From 0.26 on, typer has its own
copy of click.
"""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from inspect import signature
from pathlib import Path
from typing import Any, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

try:
    from typer import _click as click
    from typer._click import shell_completion
except ImportError:
    import click  # type: ignore[no-redef]
    from click import shell_completion  # type: ignore[no-redef]

from fleet.errors import UsageError

_Function = TypeVar("_Function", bound=Callable[..., Any])
_HELP_ALL = "--help-all"
# stands for "-" while lines are broken, so that names and options stay whole
_HYPHEN = "\u2011"
# What completion may add to a word: none of it means anything to a shell.
_PLAIN = re.compile(r"[\w.:=@/+%-]*")
SHELLS = ("bash", "zsh", "fish")

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
        for shell in SHELLS:
            shell_completion.add_completion_class(_Completion, shell)

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


def read_completion_script(shell: str) -> str:
    """Return the script with which one of SHELLS completes fleet's arguments."""
    return Path(__file__).with_name(f"completion.{shell}").read_text(encoding="utf-8")


class _Completion(shell_completion.ShellComplete):
    """Answers the scripts completion.bash, .zsh and .fish: a line per word, and for
    zsh and fish its help after a tab.

    _FLEET_LINE is the command line up to the cursor. _FLEET_WORD is the end of it that
    the shell replaces, as it is typed; fish leaves it out, as it compares unquoted
    words.
    """

    name = "fleet"
    source_template = ""

    def source_vars(self) -> dict[str, Any]:
        """Return nothing: `read_completion_script` returns the scripts."""
        return {}

    def get_completion_args(self) -> tuple[list[str], str]:
        """Split the line into the words before the last one, and the last one."""
        line = os.environ.get("_FLEET_LINE")
        if line is None:
            # The script of an older fleet lets zsh evaluate what we print.
            raise UsageError(
                "this shell completes with the script of an older fleet. Replace it by"
                " what `fleet completion SHELL` prints."
            )
        words = shell_completion.split_arg_string(line)[1:]
        if not words or line[-1].isspace():
            return words, ""
        return words[:-1], words[-1]

    def complete(self) -> str:
        """Return the words that add only plain text to the one typed."""
        args, typed = self.get_completion_args()
        value = typed
        if typed.startswith("-") and "=" in typed:
            value = typed.partition("=")[2]
        replaced = os.environ.get("_FLEET_WORD", typed)
        lines = []
        for item in self.get_completions(args, typed):
            added = item.value.removeprefix(value)
            is_longer = item.value.startswith(value)
            if item.type == "plain" and is_longer and _PLAIN.fullmatch(added):
                lines.append(f"{replaced}{added}{self.format_completion(item)}")
        return "\n".join(lines)

    def format_completion(self, item: shell_completion.CompletionItem) -> str:
        """Return what follows a word: its help, which is ours, on one line."""
        is_bash = os.environ["_FLEET_COMPLETE"].endswith("bash")
        if is_bash or not item.help:
            return ""
        return "\t" + " ".join(item.help.split())


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
