"""A command that works for long says so on a terminal, and only there."""

import io

import pytest

from fleet.cli import waiting
from tests.command import wait_for


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_that_the_command_is_at_work_and_is_clean_at_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setattr(waiting, "SILENT_S", 0.0)
    with waiting.show_elapsed("reading 95 runs"):
        wait_for(lambda: "reading 95 runs: 0 s" in terminal.getvalue())
    assert terminal.getvalue().endswith("\r\x1b[K")


def test_a_pipe_gets_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = io.StringIO()
    monkeypatch.setattr("sys.stderr", pipe)
    monkeypatch.setattr(waiting, "SILENT_S", 0.0)
    with waiting.show_elapsed("reading 95 runs"):
        pass
    assert pipe.getvalue() == ""
