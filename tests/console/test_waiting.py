"""A command that works for long says so on a terminal, and only there."""

import io
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fleet.cli import exchange, waiting
from tests.command import Done, wait_for


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


def test_the_line_counts_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setattr(waiting, "SILENT_S", 0.0)
    monkeypatch.setattr(waiting, "_EVERY_S", 0.01)
    count = waiting.Count("writing", 95)
    with waiting.show_elapsed(count):
        wait_for(lambda: "writing 0 of 95 runs: 0 s" in terminal.getvalue())
        count.step()
        wait_for(lambda: "writing 1 of 95 runs: 0 s" in terminal.getvalue())


@pytest.mark.parametrize(
    "words", [["report", "lucca", "-o", "x.html"], ["export", "lucca", "-F", "samples"]]
)
def test_each_run_that_is_read_is_counted(
    made_lab: Path,
    fleet_here: Callable[..., Done],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    words: list[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    counts = []

    @contextmanager
    def note(progress: object) -> Iterator[None]:
        yield
        counts.append(str(progress))

    monkeypatch.setattr(exchange, "show_elapsed", note)
    done = fleet_here(*words, "-r", str(made_lab / "results"))
    assert done.exit_code == 0
    (count,) = counts
    shown = re.fullmatch(r"(?:drawing|writing) (\d+) of (\d+) runs", count)
    assert shown
    assert shown[1] == shown[2]


def test_a_pipe_gets_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = io.StringIO()
    monkeypatch.setattr("sys.stderr", pipe)
    monkeypatch.setattr(waiting, "SILENT_S", 0.0)
    with waiting.show_elapsed("reading 95 runs"):
        pass
    assert pipe.getvalue() == ""
