"""`fleet import --agent`: what a scheduler's step left in a folder becomes runs, or is
named.
"""

import gzip
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from fleet.errors import StoreError
from fleet.remote import connect as remote
from fleet.session.context import HostAccess
from fleet.session.events import ignore
from fleet.session.scheduler_files import import_step_files
from fleet.store import Store
from tests.command import Fleet
from tests.hosts import slurm
from tests.native.build import build

PLAN = ("-b", "clock", "--rounds", "3", "--samples", "9")


@pytest.fixture(scope="module")
def step_output(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, bytes]:
    """The step's script, and what it printed on this machine."""
    folder = tmp_path_factory.mktemp("step")
    with Fleet(folder) as fleet:
        script = fleet("check", "--script").stdout
    (folder / "step.sh").write_text(script)
    done = subprocess.run(
        ["sh", "step.sh", build(), *PLAN],
        check=True,
        stdout=subprocess.PIPE,
        cwd=folder,
    )
    return script, done.stdout


@pytest.fixture
def folder(tmp_path: Path, step_output: tuple[str, bytes]) -> Path:
    """The script beside a folder with that output."""
    (tmp_path / "out").mkdir()
    (tmp_path / "step.sh").write_text(step_output[0])
    (tmp_path / "out/n1.jsonl").write_bytes(step_output[1])
    return tmp_path


@pytest.mark.long
def test_a_step_becomes_runs_and_again_nothing(folder: Path) -> None:
    (folder / "out/n2.out").write_bytes(
        b"Welcome to n2\n" + (folder / "out/n1.jsonl").read_bytes()
    )
    with Fleet(folder) as fleet:
        done = fleet("import", "--agent", "out", "--label", "rack=b")
        assert done.exit_code == 0, done
        assert "2 of 2 hosts stored" in done.stdout, done
        before = fleet("runs", "--json").json
        assert {run["host_name"]: run["state"] for run in before} == {
            "n1": "complete",
            "n2": "complete",
        }
        assert {run["labels"]["rack"] for run in before} == {"b"}
        assert fleet("import", "--agent", "out/n1.jsonl").exit_code == 0
        assert fleet("runs", "--json").json == before
        assert fleet("verify").exit_code == 0
    row = pd.read_parquet(folder / "results/runs").iloc[0]
    assert row["benchmarks"].tolist()[0].startswith("clock/")
    assert row["kernel"] == os.uname().release
    assert row["pairs"] > 0


def test_a_copy_of_a_steps_file_is_refused_under_a_second_name(folder: Path) -> None:
    copy = folder / "out/n2.jsonl"
    copy.write_bytes((folder / "out/n1.jsonl").read_bytes())
    with Fleet(folder) as fleet:
        assert fleet("import", "--agent", "out/n1.jsonl").exit_code == 0
        done = fleet("import", "--agent", "out/n2.jsonl")
        assert done.exit_code == 2
        assert "is stored already, as n1." in " ".join(done.stdout.split())
        runs = fleet("runs", "--json")
        assert [run["host_name"] for run in runs.json] == ["n1"]
        assert "fleet:" not in runs.stderr


def test_of_two_copies_imported_at_once_one_is_stored(folder: Path) -> None:
    copy = folder / "out/n2.jsonl"
    copy.write_bytes((folder / "out/n1.jsonl").read_bytes())
    with Fleet(folder) as fleet:
        assert "1 of 2 hosts stored" in fleet("import", "--agent", "out").stdout
        assert len(fleet("runs", "--json").json) == 1


def replace_bytes(old: bytes, new: bytes) -> Callable[[bytes], bytes]:
    return lambda data: data.replace(old, new, 1)


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        (
            lambda data: data[: data.rindex(b'{"record":"burst"') + 40],
            1,
            "stored as a partial run",
        ),
        (
            lambda data: data[data.index(b"\n", data.index(b" end\n")) :],
            7,
            "`fleet check --script`",
        ),
        (
            replace_bytes(b"@fleet-step 20", b"@fleet-step x"),
            7,
            "`fleet check --script`",
        ),
        (
            lambda data: re.sub(rb"@fleet-step \d{4}", b"@fleet-step 9999", data),
            11,
            "is not a possible time of a run",
        ),
        (
            lambda data: data[: data.index(b'{"record":"hello"')],
            10,
            "sent no hello record",
        ),
        (replace_bytes(b'"round":1', b'"round":-1'), 10, "Nothing of it was imported"),
        (lambda data: data + data, 0, "holds 2 attempts; number 2 is imported"),
        (
            lambda data: data[: len(data) // 2] + data,
            0,
            "holds 2 attempts; number 2 is imported",
        ),
        (
            lambda data: data + data[: len(data) // 2],
            0,
            "holds 2 attempts; number 1 is imported",
        ),
        (
            lambda data: data[:90] + data[: len(data) // 3] + data,
            0,
            "3 attempts; number 3 is imported",
        ),
        (
            lambda data: b"".join(b"0: " + line for line in data.splitlines(True)),
            7,
            "labels of `srun -l`",
        ),
        (lambda data: data.replace(b"\n", b"\r\n"), 7, "Windows line ends"),
        (gzip.compress, 7, "it is compressed"),
        (
            replace_bytes(b'"record":"burst"', b'"record":"burts"'),
            10,
            "Nothing of it was imported",
        ),
        (lambda data: data.replace(b"\nproc/uptime:", b"\nproc/uptime:-"), 0, ""),
        (lambda data: data.decode().encode("utf-16"), 7, "it is in UTF-16"),
        (lambda data: data.decode().encode("utf-16-le"), 7, "it is in UTF-16"),
        (lambda data: data.decode().encode("utf-8-sig"), 7, "a byte order mark"),
        (
            replace_bytes(b'{"record":"hello"', b'\xef\xbb\xbf{"record":"hello"'),
            10,
            "has a byte order mark",
        ),
        (lambda data: data + b"x" * (3 << 20), 10, "a line of 1048578 bytes"),
        (lambda data: b"\0" * (9 << 20) + data, 7, "`fleet check --script`"),
    ],
)
def test_a_file_is_trusted_no_more_than_a_host(
    folder: Path, change: Callable[[bytes], bytes], code: int, words: str
) -> None:
    file = folder / "out/n1.jsonl"
    file.write_bytes(change(file.read_bytes()))
    with Fleet(folder) as fleet:
        done = fleet("import", "--agent", "out")
        assert "Traceback" not in done.stderr
        output = done.stdout + fleet("show", "n1").stdout
        assert words in " ".join(output.split()), output
        assert "fleet resume" not in done.stdout
        runs = fleet("runs", "--json").json
        assert [run["state"] for run in runs] == {0: ["complete"], 1: ["partial"]}.get(
            code, []
        )
        assert done.exit_code == code


def test_a_label_that_no_reader_would_take_is_refused_before_the_bursts_are_read(
    folder: Path,
) -> None:
    file = folder / "out/n1.jsonl"
    file.write_bytes(file.read_bytes().replace(b'"record":"burst"', b'"record":"x"'))
    access = HostAccess(connect=remote.connect, emit=ignore)
    labels = {"note": "x" * (3 << 20)}
    (outcome,) = import_step_files([file], Store(folder), labels, access)
    assert outcome.exit_code == StoreError.exit_code
    assert f"{file}: cannot be imported: " in outcome.message
    assert "labels_json" in outcome.message


def test_files_without_a_name_of_their_own_are_refused(folder: Path) -> None:
    with Fleet(folder) as fleet:
        (folder / "out/n1.txt").touch()
        assert "also belongs to host n1" in fleet("import", "--agent", "out").stderr
        (folder / "out/-x").touch()
        assert "no host may be called" in fleet("import", "--agent", "out").stderr
        (folder / "none").mkdir()
        assert "no files there" in fleet("import", "--agent", "none").stderr
        done = fleet("import", "--agent", "missing")
        assert done.exit_code == 2
        assert done.stderr == "fleet: missing: no such file.\n"


@pytest.mark.slow
def test_one_step_of_slurm_measures_all_nodes(
    folder: Path, slurm_job: dict[str, str]
) -> None:
    (folder / "out/n1.jsonl").unlink()
    script = (  # --output=%N is the name of the machine: all are this
        'exec sh step.sh "$@" >out/$SLURMD_NODENAME'
    )
    words = [
        *("srun", "-N3", "--ntasks-per-node=1", "--mem=0"),
        *("sh", "-c", script, "sh", build(), *PLAN),
    ]
    subprocess.run(words, check=True, cwd=folder, env=os.environ | slurm_job)
    with Fleet(folder) as fleet:
        # three agents share this machine: bursts may fail
        done = fleet("import", "--agent", "out")
        assert "3 of 3 hosts stored" in done.stdout, done
        assert {run["host_name"] for run in fleet("runs", "--json").json} == {
            *slurm.NODES
        }
