"""An option that a command once had is refused with what to write instead."""

from collections.abc import Callable

import pytest
import typer

from fleet.cli.app import app
from fleet.cli.former_options import FORMER_OPTIONS
from tests.command import Done

ALL = [(command, option) for command, of in FORMER_OPTIONS.items() for option in of]


@pytest.mark.parametrize(("command", "option"), ALL)
def test_a_former_option_is_refused_with_what_to_write_instead(
    fleet_here: Callable[..., Done],
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    option: str,
) -> None:
    instead = FORMER_OPTIONS[command][option]
    refused = fleet_here(command, option, "1")
    assert refused.exit_code == 2
    said = " ".join(refused.stderr.split())
    assert f"No such option '{option}' any more; {instead}" in said
    variable = f"FLEET_{command}_{option[2:]}".upper().replace("-", "_")
    monkeypatch.setenv(variable, "1")
    refused = fleet_here(command)
    assert refused.exit_code == 2
    said = " ".join(refused.stderr.split())
    assert f"`fleet {command}` has no such option any more; {instead}" in said


def test_no_command_has_an_option_that_it_had_once() -> None:
    commands = typer.main.get_command(app).commands
    for command, option in ALL:
        flags = {flag for part in commands[command].params for flag in part.opts}
        assert option not in flags
