"""The results root as commands open it: which place, whether it can be used, and what
is damaged there.
"""

import os
import resource
from collections.abc import Callable
from functools import partial, wraps
from typing import Any, TypeVar, cast

import typer

from fleet import store
from fleet.cli.inventory_file import find_inventory, load_settings
from fleet.cli.parser import ParserError, is_given, is_typed
from fleet.cli.terminal import print_text
from fleet.errors import MemoryLimitError

_Function = TypeVar("_Function", bound=Callable[..., Any])
NEEDED_BYTES = 1 << 30  # of address space: libraries and threads reserve many


def resolve_and_check_root(context: typer.Context, text: str) -> str:
    """Return the root that the option names, else that of the inventory, else `text`,
    the default. Raises MemoryLimitError, and BadParameter for a root that cannot be
    used.
    """
    if not is_given("results"):
        inventory = context.params.get("inventory") or find_inventory()
        text = load_settings(inventory).get("results", text)
    _require_address_space()
    _require_usable_name(text)
    _require_folder_if_there(text)
    return text


def resolve_and_require_typed_root(context: typer.Context, text: str) -> str:
    """Return what `resolve_and_check_root` does. Raises UsageError if -r names a folder
    that is not there; the folder of a setting may be made by the first run.
    """
    from fleet.store.places import parse_place

    root = resolve_and_check_root(context, text)
    if is_typed("results"):
        parse_place(root).require_folder()
    return root


def _require_address_space() -> None:
    """Raise MemoryLimitError if the process may have less address space than
    NEEDED_BYTES: pyarrow, numpy or scipy would then abort the program.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY and limit < NEEDED_BYTES:
        raise MemoryLimitError(
            f"the address space of this process is limited to {limit >> 20} MiB"
            f" (`ulimit -v`), and fleet needs {NEEDED_BYTES >> 20} MiB to read or write"
            " tables. Raise the limit: `ulimit -v unlimited`."
        )


def _require_usable_name(text: str) -> None:
    """Refuse a name that is empty or has characters that cannot be printed."""
    if not text.strip():
        raise typer.BadParameter(
            "names no place; give a folder, or s3://bucket/prefix."
        )
    # bytes other than UTF-8, which pyarrow cannot write to, are not printable either
    if not text.isprintable():
        raise typer.BadParameter("the name is not plain text in UTF-8.")


def _require_folder_if_there(text: str) -> None:
    """Refuse a file, and a link to nothing. A folder that is missing will be made."""
    # unlike those of pathlib, these functions raise nothing
    path = os.path.expanduser(text)  # noqa: PTH111
    exists = os.path.exists(path)  # noqa: PTH110
    if os.path.islink(path) and not exists:  # noqa: PTH114
        raise typer.BadParameter(
            f"{text} is a symbolic link to nothing; make the folder that it names."
        )
    if exists and not os.path.isdir(path):  # noqa: PTH112
        raise typer.BadParameter(f"{text} is a file; a results root is a folder.")


def open_listing(results: str) -> "store.Listing":
    """Return the listing of a results root to read from. It reports slow steps on
    stderr.
    """
    return store.Listing(results, partial(print_text, err=True), must_exist=True)


def skip_damaged(command: _Function) -> _Function:
    """Decorate a command that reads runs: each time that it fails at a damaged run,
    begin it again without that run, and at the end warn of the damaged runs.
    """

    @wraps(command)
    def run_without_damaged(**arguments: Any) -> None:
        from fleet.store.runs import skip_damaged_runs

        # `skip_damaged_runs` warns of damaged runs only if its work returns. So a
        # command's exit, by a code or for a wrong option, is returned from the work,
        # and raised after it.
        @skip_damaged_runs
        def call_command() -> Exception | None:
            """Call the command; return the exception with which it exits, if any."""
            try:
                command(**arguments)
            except (ParserError, typer.Exit) as exit_of_command:
                return exit_of_command
            return None

        exit_of_command = call_command()
        if exit_of_command is not None:
            raise exit_of_command

    return cast("_Function", run_without_damaged)
