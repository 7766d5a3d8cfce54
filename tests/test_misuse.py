"""What a person may type wrongly, or point at wrongly: a clear word and exit code,
never a traceback.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from fleet.analysis.views import render_runs
from fleet.errors import EXIT_BUG, EXIT_READER_LEFT
from fleet.model import Host, Run, RunState
from fleet.store import Store
from tests import builders
from tests.command import ROOT, Done, journal_lines
from tests.planting import home
from tests.shared import agents_cache

Say = Callable[..., tuple[int, str]]
EMPTY, CLOCK = "r20260102T030402Z-00000002", "r20260102T030403Z-00000003"


def unfold(text: str) -> str:
    """Join lines that were wrapped."""
    return " ".join(text.split())


@pytest.fixture
def say(fleet_here: Callable[..., Done]) -> Say:
    """Runs `fleet` in this process; hands out its exit code, and stdout and stderr
    together, unfolded.
    """

    def run_fleet(*arguments: str) -> tuple[int, str]:
        done = fleet_here(*arguments)
        return done.exit_code, unfold(done.stdout + done.stderr)

    return run_fleet


def a_run(name: str, number: int, benchmark: str = "cas") -> Run:
    run = builders.a_run(host=Host(name, "192.0.2.7"), benchmarks=(benchmark,))
    run_id = f"r20260102T03040{number}Z-0000000{number}"
    when = f"2026-01-02T03:04:0{number}Z"
    return replace(
        run,
        run_id=run_id,
        session_id=f"s20260102T030400Z-0000000{number}",
        started_utc=when,
    )


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A run of one pair, one of which no burst arrived, one of the clock alone;
    a CSV.
    """
    folder = tmp_path_factory.mktemp("misuse")
    store = Store(folder / "results")
    full = a_run("board", 1)
    empty = a_run("board", 2)
    clock = a_run("desk", 3, "clock")
    store.publish(full, builders.make_bursts(full))
    store.publish(replace(empty, state=RunState.PARTIAL), ())
    store.publish(clock, builders.make_bursts(clock))
    return str(store.place)


@pytest.mark.long
@pytest.mark.parametrize(
    ("command", "exit_code", "answer"),
    [
        ("run --reconnect 2d", 2, "from 0s to 24h"),
        ("run --plan deadline_s=99999999999999999999", 2, "--plan deadline_s"),
        ("run -n --plan spread_s=1.5m --plan deadline_s=2h", 0, "over 90 s"),
        ("run -n -c 0-3,8", 0, " 0-3,8 "),
        ("run -n --label a\udcff=1", 2, "one line of text in UTF-8"),
        ("run -n --label a@b=1", 2, "a key is letters"),
        ("runs -r r\udcff", 2, "not plain text in UTF-8"),
        (
            "import /dev/null --name x -b cas --cpu-model k\udcff",
            2,
            "--cpu-model: must be one line",
        ),
        ("run -n --label a=1 --label a=2", 2, "a=1 was given before"),
        ("runs -r /dev/null", 2, "is a file; a results root is a folder"),
        ("runs -r ''", 2, "names no place"),
        ("runs -r ROOT/nowhere --relation llc", 2, "there is no such folder"),
        ("runs --relation unknown -b cas/cmpxchg", 0, "cas/cmpxchg"),
        (
            "runs --relation unknown -b cas/lse",
            2,
            "not measured; did you mean 'cas'? There are cas/cmpxchg",
        ),
        ("show bord", 2, "did you mean 'board'?"),
        (f"show {CLOCK}", 0, "over 2 CPUs"),
        ("compare board", 0, "fewer than 8 nights have no verdict"),
        ("compare board --point random.16K", 2, "only for two or more sides"),
        (f"compare {EMPTY}", 2, "no latencies between CPUs"),
        ("compare board board", 2, "'board' is named twice"),
        ("compare board desk --json --csv", 2, "not both"),
        (
            f"compare {EMPTY} {CLOCK}",
            2,
            "no latencies on both sides. `fleet runs` lists",
        ),
        (f"compare {CLOCK} summary:rpi4-linux", 2, "has no pairs of CPUs"),
        (f"export {EMPTY} -F samples", 2, "have no samples to export"),
        (f"export {CLOCK}", 2, "has no pairs of CPUs to export"),
        ("export summary:rpi4-linux -b cas/llsc --value mean", 2, "leave out --value"),
        ("export summary:rpi4-linux -b cas/llsc -o -", 0, "84"),
        ("import /dev/null --name ../x", 2, "--name: summary '../x'"),
        (f"report {CLOCK} -o ROOT/../page.html --force", 0, "page.html: 1 run, "),
        (f"report {CLOCK} -o /dev/null --force", 2, "is a device"),
    ],
)
def test_a_clear_answer(
    say: Say,
    root: str,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    exit_code: int,
    answer: str,
) -> None:
    folder = Path(root).parent
    (folder / "inventory.yaml").write_text("hosts: {localhost: {via: local}}\n")
    monkeypatch.chdir(folder)
    words = [word.replace("ROOT", root).replace("''", "") for word in command.split()]
    result = say(*words)
    assert result[0] == exit_code, result[1]
    assert answer in result[1], result[1]
    assert "Traceback" not in result[1]


def test_no_line_of_the_list_of_commands_is_cut(
    say: Say, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert "..." not in say("--help")[1].partition("Commands:")[2]


@pytest.mark.parametrize(
    ("where", "exit_code", "words"),
    [
        (">/dev/full", 11, "fleet: cannot print the result: No space left on device\n"),
        (">&-", 0, ""),
    ],
)
def test_a_stdout_that_takes_nothing(
    root: str, where: str, exit_code: int, words: str
) -> None:
    done = subprocess.run(
        ["sh", "-c", f'"{sys.executable}" -m fleet runs -r "{root}" {where}'],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == exit_code
    assert done.stderr == words


def test_a_reader_that_leaves_early_is_no_failed_host(root: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "fleet", "runs", "-r", root],
        cwd=ROOT,
        stdout=subprocess.PIPE,
    ) as runs:
        assert runs.stdout is not None
        runs.stdout.close()
    assert runs.returncode == EXIT_READER_LEFT


def test_a_stderr_that_takes_nothing_does_not_change_the_exit_code(root: str) -> None:
    show = f'"{sys.executable}" -m fleet show nobody -r "{root}" 2>/dev/full'
    assert subprocess.run(["sh", "-c", show], cwd=ROOT, check=False).returncode == 2


def test_a_bug_of_ours_has_its_exit_code(
    say: Say, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(home(render_runs), "render_runs", lambda *_, **__: 1 / 0)
    exit_code, output = say("runs", "-r", root)
    assert exit_code == EXIT_BUG
    assert "please report it" in output


def test_a_plan_the_host_cannot_carry_out_leaves_nothing_to_resume(
    say: Say, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(agents_cache()))
    (tmp_path / "inventory.yaml").write_text("hosts: {localhost: {via: local}}\n")
    exit_code, output = say("run", "--cpus", "0,4000")
    assert exit_code == 10
    assert "CPU 4000 cannot be used" in output
    assert "fleet resume" not in output
    assert say("runs")[1].startswith("No runs are stored here")
    assert "no unfinished session" in say("resume")[1]


@pytest.mark.parametrize(
    "text", ["", "{}", None], ids=["emptied by a power cut", "of nobody", "lost"]
)
def test_a_journal_nobody_can_tell_the_run_of_is_named_and_kept(
    say: Say, tmp_path: Path, text: str | None
) -> None:
    store = Store(tmp_path)
    with store.new_journal(run := a_run("board", 1)) as journal:
        journal.append(b"what had arrived")
    run_file = journal.folder / "run.json"
    run_file.unlink() if text is None else run_file.write_text(text)
    for command in ("runs", "resume"):
        exit_code, output = say(command, "-r", str(tmp_path))
        assert exit_code == 0, output
        assert str(run_file) in output, output
        assert "cannot" in output, output
    assert journal_lines(tmp_path / ".fleet/journal" / run.run_id / "stream.jsonl") == [
        b"what had arrived"
    ]


def test_ctrl_c_while_the_program_is_loaded_ends_it_without_a_traceback() -> None:
    script = """
import sys
class Pressed:
    def find_spec(self, name, path=None, target=None):
        if name == "typer":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Pressed())
from fleet.__main__ import main
main()
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 130
    assert done.stderr == "fleet: interrupted\n"


def test_a_user_without_a_home_directory_is_served() -> None:
    script = """
import pwd, sys
pwd.getpwuid = {}.__getitem__
sys.argv[1:] = ["hosts"]
from fleet.__main__ import main
main()
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env={},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0
    assert done.stderr == b""


def test_tables_of_a_later_fleet_are_refused_and_damage_is_named(
    say: Say, tmp_path: Path
) -> None:
    run = a_run("board", 1)
    Store(tmp_path).publish(run, builders.make_bursts(run))
    (samples,) = tmp_path.glob("samples/host_id=*/*/samples.parquet")
    table = pq.ParquetFile(samples).read()
    later = {**table.schema.metadata, b"fleet.schema_version": b"2.0"}
    builders.put_table(table.replace_schema_metadata(later), samples)
    exit_code, output = say("show", "-r", str(tmp_path))
    assert exit_code == 11
    assert "its schema is version 2.0" in output
    samples.write_bytes(b"PAR1 and no more")
    exit_code, output = say("show", "-r", str(tmp_path))
    assert exit_code == 11
    assert "put it back from a copy" in output
    other = a_run("desk", 2)
    Store(tmp_path).publish(other, builders.make_bursts(other))
    exit_code, output = say("compare", run.run_id, other.run_id, "-r", str(tmp_path))
    assert exit_code == 11, output
    assert "put it back from a copy" in output, output


@pytest.mark.parametrize(
    ("pattern", "command", "exit_code"),
    [
        ("samples/host_id=*/*/samples.parquet", "show board", 11),
        ("samples/host_id=*/*/samples.parquet", "verify", 11),
        ("runs/*.parquet", "verify", 11),
        ("cpus/*.parquet", "verify", 11),
        ("amendments/x.json", "runs", 11),
        (".fleet/journal/r*/run.json", "resume", 0),
        (".fleet/journal/r*/stream.jsonl", "resume --publish-partial", 11),
        (".fleet/journal/r*/lock", "resume --publish-partial", 11),
    ],
)
def test_a_fifo_in_place_of_a_stored_file_is_named_and_not_waited_for(
    say: Say,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    pattern: str,
    command: str,
    exit_code: int,
) -> None:
    monkeypatch.chdir(tmp_path)
    store = Store(tmp_path / "results")
    run = a_run("board", 1)
    store.publish(run, builders.make_bursts(run))
    with store.new_journal(a_run("board", 4)) as journal:
        journal.append(b"{}")
    place = next(store.place.root.glob(pattern), store.place.root / pattern)
    place.parent.mkdir(exist_ok=True)
    place.unlink(missing_ok=True)
    os.mkfifo(place)
    code, output = say(*command.split())
    assert code == exit_code, output
    assert "it is a FIFO" in output, output
    assert place.name in output, output


def test_places_of_results_that_are_no_folders_are_named(
    say: Say, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dangling").symlink_to("nowhere")
    exit_code, output = say("runs", "-r", "dangling")
    assert exit_code == 2
    assert "is a symbolic link to nothing" in output
    (tmp_path / "results" / ".fleet").mkdir(parents=True)
    (tmp_path / "results" / ".fleet/staging").touch()
    exit_code, output = say("run", "-b", "clock")
    assert exit_code == 11
    assert "results/.fleet/staging is not a folder" in output


def test_a_limit_of_memory_is_no_bug(
    say: Say, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    limited = [
        "prlimit",
        f"--as={300 << 20}",
        sys.executable,
        "-m",
        "fleet",
        "show",
        "-r",
        root,
    ]
    done = subprocess.run(
        limited, cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 13
    assert "limited to 300 MiB (`ulimit -v`), and fleet needs 1024 MiB" in unfold(
        done.stderr
    )

    def fail_to_import(*_: object, **__: object) -> str:
        raise ImportError("x.so: failed to map segment from shared object")

    monkeypatch.setattr(home(render_runs), "render_runs", fail_to_import)
    monkeypatch.setattr(os, "_exit", sys.exit)
    exit_code, output = say("runs", "-r", root)
    assert exit_code == 13
    assert "out of memory or threads: x.so" in output
    assert "bug" not in output


def test_names_that_are_not_utf_8_are_no_bug(
    say: Say, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = a_run("board", 1)
    Store(tmp_path / "results").publish(run, builders.make_bursts(run))
    (tmp_path / "results" / "runs" / "\udcff.parquet").touch()
    exit_code, output = say("verify")
    assert exit_code == 11
    assert "its name is not printable UTF-8" in output
    exit_code, output = say("runs")
    assert exit_code == 0
    assert run.run_id in output
    (tmp_path / "inventory\udcff.yaml").write_text("hosts: {here: {via: local}}")
    exit_code, output = say(
        "run",
        "-i",
        "inventory\udcff.yaml",
        "-b",
        "clock",
        "--rounds",
        "1",
        "-s",
        "1",
        "--lock",
        "off",
    )
    assert exit_code == 0, output
    assert "1 of 1 host stored" in output, output
