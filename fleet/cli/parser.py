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

from fleet.cli.former_options import advise_on_former_option
from fleet.errors import UsageError
from fleet.text import suggest_similar

_Function = TypeVar("_Function", bound=Callable[..., Any])
_Panels = dict[str, list[tuple[str, str]]]  # names and help, by title
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
        """Make the command. Let an environment variable set each option that has a
        value.
        """
        super().__init__(*names, **settings)
        for parameter in self.params:
            if parameter.param_type_name == "argument":
                self._restore_help(parameter)
                continue
            parameter.secondary_opts = []  # not also the negated form, --no-json
            # Eager options are parsed before the others. They act, as --help does, and
            # have no value; only the inventory has one, which is parsed first because
            # the file holds defaults of the others.
            is_action = parameter.is_eager and parameter.name != "inventory"
            if not is_action:
                self._add_variable(parameter)

    def _restore_help(self, argument: click.Parameter) -> None:
        """Set an argument's help, which click 8.5 takes away from typer before 0.26."""
        assert self.callback is not None  # noqa: S101  an argument is one of its own
        declared = signature(self.callback).parameters[str(argument.name)]
        (described,) = declared.annotation.__metadata__
        argument.help = described.help  # type: ignore[attr-defined]

    def _add_variable(self, option: click.Parameter) -> None:
        """Let an option be set by FLEET_COMMAND_OPTION, before a variable that all
        commands have, such as FLEET_INVENTORY.
        """
        longest_name = max(option.opts, key=len)
        flag = longest_name.lstrip("-")
        variable = f"FLEET_{self.name}_{flag}".upper().replace("-", "_")
        common = option.envvar or []
        if isinstance(common, str):
            common = [common]
        option.envvar = [variable, *common]
        option.show_envvar = False  # type: ignore[attr-defined]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments. If an option is unknown, say in the error what replaced
        it, or of which options it is a value. Refuse variables that no option of this
        command has.
        """
        try:
            rest = super().parse_args(ctx, args)
        except click.exceptions.NoSuchOption as err:
            self._explain_unknown_option(err)
            raise
        self._refuse_unknown_variables()
        return rest

    def _explain_unknown_option(self, err: Any) -> None:
        """Say in a parser's NoSuchOption what replaced the option, or of which options
        it is a value.
        """
        more = advise_on_former_option(str(self.name), err.option_name)
        takers = self._find_options_that_take(err.option_name.lstrip("-"))
        if takers and not more:
            more = f"; it is a value of {' and '.join(takers)}."
        if more:
            err.message = f"No such option {err.option_name!r}{more}"
            err.possibilities = None  # else the parser would add similar options

    def _refuse_unknown_variables(self) -> None:
        """Raise UsageError for a variable such as FLEET_RUN_ROUND, which sets
        nothing.
        """
        prefix = f"FLEET_{self.name}_".upper().replace("-", "_")
        # the first variable of an option is its own, others are those of all commands
        variables = [option.envvar[0] for option in self.params if option.envvar]
        for variable in os.environ:
            if not variable.startswith(prefix) or variable in variables:
                continue
            name = variable.removeprefix(prefix)
            flag = name.lower().replace("_", "-")
            advice = advise_on_former_option(str(self.name), f"--{flag}")
            more = advice or suggest_similar(variable, variables)
            raise click.exceptions.UsageError(
                f"{variable} is set, and `fleet {self.name}` has no such option{more}"
            )

    def _find_options_that_take(self, value: str) -> list[str]:
        """Return the options whose help names this value in its brackets."""
        in_brackets = re.compile(rf"\[.*\b{re.escape(value)}\b.*\]")
        takers = []
        for option in self.params:
            text = getattr(option, "help", None)
            if text and in_brackets.search(text):
                takers.append(option.opts[0])
        return takers

    def format_options(
        self, ctx: click.Context, formatter: click.HelpFormatter
    ) -> None:
        """Write the arguments, then each panel of options, then the options without a
        panel, --help among them.

        click breaks lines at hyphens, also within names of options. So no hyphen is in
        the text that it breaks; _HYPHEN stands for it.
        """
        panels: _Panels = {"Arguments": []}
        for parameter, (names, text) in list_parameters(ctx):
            if parameter.param_type_name == "argument":
                title = "Arguments"
            else:
                title = _get_panel(parameter, "Options")
            row = (names, text.replace("-", _HYPHEN))
            panels.setdefault(title, []).append(row)
        panels["Options"] = panels.pop("Options")  # moves it behind the others
        _write_panels(panels, formatter)
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
        panels: _Panels = {"Commands": []}
        for name, command in self.commands.items():
            if command.hidden:
                continue
            title = _get_panel(command, "Commands")
            row = (name, command.get_short_help_str(80))
            panels.setdefault(title, []).append(row)
        _write_panels(panels, formatter)


def _get_panel(described: click.Parameter | click.Command, default: str) -> str:
    """Return the title of the help's panel that lists an option or a command."""
    return getattr(described, "rich_help_panel", None) or default


def _write_panels(panels: _Panels, formatter: click.HelpFormatter) -> None:
    for title, rows in panels.items():
        if rows:
            with formatter.section(title):
                formatter.write_dl(rows)


class Program(typer.Typer):
    """A typer app that consists of a `Group` of `Command`s."""

    def __init__(self, **settings: Any) -> None:
        """Make the program, without commands yet."""
        # A click with the error NoSuchCommand suggests similar commands by itself.
        # Under an older one, let typer do so.
        click_suggests = hasattr(click.exceptions, "NoSuchCommand")
        settings |= {
            "cls": Group,
            "suggest_commands": not click_suggests,
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


def whole_help_option(last_title: str, last_rows: Sequence[tuple[str, str]]) -> Any:
    """Return the option --help-all, which lists hidden options too, and as the last
    section these rows below their title.
    """

    def print_whole_help(context: typer.Context, is_asked: bool) -> None:
        """Print the help with all options, then the last section, and exit."""
        if not is_asked:
            return
        _reveal_options(context.command)
        formatter = context.make_formatter()
        with formatter.section(last_title):
            formatter.write_dl(last_rows)
        typer.echo(f"{context.get_help()}\n\n{formatter.getvalue()}", nl=False)
        raise typer.Exit

    text = f"Show every option, and {last_title.lower()}."
    return typer.Option(_HELP_ALL, is_eager=True, callback=print_whole_help, help=text)


def is_given(parameter: str) -> bool:
    """Report whether an argument, a variable or a setting sets this parameter of the
    running command, if it has it.
    """
    source = click.globals.get_current_context().get_parameter_source(parameter)
    return source not in (None, click.core.ParameterSource.DEFAULT)


def is_typed(parameter: str) -> bool:
    """Report whether the command line itself sets this parameter of the running
    command.
    """
    source = click.globals.get_current_context().get_parameter_source(parameter)
    return source is click.core.ParameterSource.COMMANDLINE


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
        """Return a line per completion that adds only plain text to the word typed.

        A line begins with what it replaces: _FLEET_WORD, the end of the command line as
        it is typed. After --sort=h, bash replaces "h" alone, and the line is "host";
        other shells replace the whole word, and the line is "--sort=host".
        """
        args, typed = self.get_completion_args()
        # completions begin with the value: with "h" of --sort=h
        typed_value = typed
        if typed.startswith("-") and "=" in typed:
            _, _, typed_value = typed.partition("=")
        # the beginning of each line: "h" in bash, "--sort=h" in other shells
        word_to_replace = os.environ.get("_FLEET_WORD", typed)
        lines = []
        for item in self.get_completions(args, typed):
            if item.type != "plain" or not item.value.startswith(typed_value):
                continue
            added = item.value.removeprefix(typed_value)  # "ost", of "host"
            if _PLAIN.fullmatch(added):
                lines.append(f"{word_to_replace}{added}{self.format_completion(item)}")
        return "\n".join(lines)

    def format_completion(self, item: shell_completion.CompletionItem) -> str:
        """Return what follows a word: its help, which is ours, on one line."""
        is_bash = os.environ["_FLEET_COMPLETE"].endswith("bash")
        if is_bash or not item.help:
            return ""
        return "\t" + " ".join(item.help.split())


def _reveal_options(command: click.Command) -> None:
    """Make all options of a command visible in its help, if it has --help-all."""
    has_whole_help = any(_HELP_ALL in parameter.opts for parameter in command.params)
    if not has_whole_help:
        return
    for parameter in command.params:
        parameter.hidden = False  # type: ignore[attr-defined]


def list_parameters(
    context: click.Context,
) -> Iterator[tuple[click.Parameter, tuple[str, str]]]:
    """Yield the parameters that a command's help lists, each with its name and its
    help.
    """
    for parameter in context.command.get_params(context):
        record = parameter.get_help_record(context)
        if record is None:  # it is hidden
            continue
        names, text = record
        unescaped = text.replace(r"\[", "[")  # typer 0.20 escapes it for rich
        yield parameter, (names, unescaped)
