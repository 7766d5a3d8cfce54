"""Runs that were stored but cannot be shown: each is named and left out, and costs no
other run its place.
"""

import errno
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

import fleet
from fleet.errors import DamagedFileError, StoreError, StoreWarning, UsageError
from fleet.model import Burst, Cpu, Host, Parameters, Run
from fleet.store import Store, files, new_run_id, reading
from fleet.store.rows import make_runs_row
from fleet.store.runs import Listing, skip_damaged_runs
from tests import builders
from tests.command import Done, Fleet

CPUS = tuple(Cpu(number, core=number, package=0) for number in range(2))
OF_FETCH = Parameters(
    operation="read", state="written", order="chase", stride_bytes=256, bytes=1 << 17
)
# What an agent may say that no benchmark means: benchmark, point, and the changes of a
# burst.
LIES: Mapping[str, tuple[str, str | None, dict[str, Any]]] = {
    "no state": (
        "fetch",
        "own.read.128K",
        {"parameters": replace(OF_FETCH, state=None)},
    ),
    "no operation": (
        "fetch",
        "own.128K",
        {"parameters": replace(OF_FETCH, operation=None)},
    ),
    "unknown words": (
        "fetch",
        "odd.bite",
        {"parameters": replace(OF_FETCH, state="odd", operation="bite")},
    ),
    "no block": (
        "interleave",
        "own.write",
        {"parameters": Parameters(operation="write", sharing="own")},
    ),
    "no size": ("bandwidth", "read", {"parameters": Parameters(operation="read")}),
    "size 0": (
        "bandwidth",
        "read.0.x0",
        {"parameters": Parameters(bytes=0, operation="read", threads=0)},
    ),
    "shape 0": (
        "gemm",
        "peak.0x0x0",
        {"parameters": Parameters(operation="peak", bytes=0, threads=0)},
    ),
    "other ticks": ("message", None, {"other_ticks": ()}),
}
# What a record may say that none of ours does.
RECORDS: Mapping[str, Mapping[str, Any]] = {
    "state": {"state": "<b>"},
    "labels": {"labels_json": "[1, 2]"},
    "labels too deep": {"labels_json": "[" * 100_000},
    "hello": {"hello_json": "[]"},
    "benchmarks": {"benchmarks": 7},
    "estimator": {"estimator": "\x1b[31mluck", "preset": "fast"},
    "plan": {"plan_json": "null"},
    "clock": {"ticks_per_second": "many"},
}
NUMBERS = {"EACCES": errno.EACCES, "EPERM": errno.EPERM, "EIO": errno.EIO}
VIEWS = (
    ("show", "all"),
    ("show", "all", "--json"),
    ("show", "all", "--csv"),
    ("show", "all", "--map"),
    ("report", "all", "-o", "-"),
    ("compare", "label=a", "label=b"),
    ("export", "all", "-F", "openmetrics"),
    ("runs", "--relation", "package"),
)


def lying(root: Path, name: str) -> Run:
    benchmark, point, changes = LIES[name]
    run = a_run("liar", "b", benchmark)

    def bursts() -> Iterator[Burst]:
        for visit in range(3):
            yield builders.a_burst(
                benchmark=benchmark, variant="mov", round=visit, point=point, **changes
            )

    Store(root).publish(run, bursts())
    return run


def a_run(host: str, label: str, benchmark: str) -> Run:
    run = builders.a_run(
        CPUS, new_run_id(), Host(host, "192.0.2.9"), benchmarks=(benchmark,)
    )
    return replace(run, labels=MappingProxyType({"label": label}))


def require_shown(command: Fleet, views: Sequence[Sequence[str]], name: str) -> None:
    for view in views:
        done = command(*view)
        assert done.exit_code == 0, (view, done.stderr)
        assert "Traceback" not in done.stderr
        assert name in done.stdout


def honest(root: Path, label: str, host: str = "rpi5") -> Run:
    run = a_run(host, label, "cas")
    Store(root).publish(run, builders.make_bursts(run))
    return run


@pytest.mark.long
def test_a_run_that_cannot_be_shown_costs_no_other_its_place(tmp_path: Path) -> None:
    root = tmp_path / "results"
    good = [honest(root, label) for label in "aabb"]
    for name in LIES:
        lying(root, name)
    with Fleet(tmp_path) as command:
        require_shown(command, VIEWS, good[0].host.name)


@pytest.mark.long
def test_a_report_of_hosts_with_nothing_in_common_is_a_report_without_comparison(
    tmp_path: Path,
) -> None:
    good = honest(tmp_path / "results", "a")
    other = a_run("odroid", "a", "readwrite")
    Store(tmp_path / "results").publish(other, builders.make_bursts(other))
    with Fleet(tmp_path) as command:
        done = command("report", "all", "-o", "-")
        assert done.exit_code == 0
        assert done.stderr == ""
        assert f">{good.host.name}<" in done.stdout


@pytest.mark.long
@pytest.mark.parametrize("name", LIES)
def test_bursts_that_contradict_their_benchmark_are_named_by_verify(
    tmp_path: Path, name: str
) -> None:
    good = honest(tmp_path / "results", "a")
    bad = lying(tmp_path / "results", name)
    with Fleet(tmp_path) as command:
        done = command("report", "all", "-o", "-")
        assert done.exit_code == 0
        assert f">{good.host.name}<" in done.stdout
        verified = command("verify")
        assert verified.exit_code == 11
        assert f"run_id={bad.run_id}" in verified.stdout
        assert LIES[name][0] in verified.stdout


@pytest.mark.parametrize("what", RECORDS)
def test_a_record_that_cannot_be_read_is_named_by_every_command(
    tmp_path: Path, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "results"
    good = [honest(root, label) for label in "aabb"]
    bad = a_run("liar", "b", "cas")
    with monkeypatch.context() as patched:
        patched.setattr(
            "fleet.store.samples.make_runs_row",
            lambda *of: {**make_runs_row(*of), **RECORDS[what]},
        )
        # What a writer would refuse to store, as another program may write it.
        patched.setattr("fleet.store.store.parse_record", lambda _: None)
        patched.setattr(Store, "flush", lambda _: None)
        name = Store(root).publish(bad, builders.make_bursts(bad))
    os.utime(root / name, (0, 0))  # old enough to be added to `runs` by a reader
    with Fleet(tmp_path) as command:
        views = (("runs",), ("show", "all"), ("compare", "label=a", "label=b"))
        require_shown(command, views, good[0].host.name)


@pytest.mark.slow
def test_samples_that_are_damaged_cost_no_other_run_its_place(tmp_path: Path) -> None:
    root = tmp_path / "results"
    good = [honest(root, label) for label in "aabb"]
    # the last of its host
    bad = replace(a_run("rpi5", "b", "cas"), started_utc="2026-01-03T03:04:05Z")
    Store(root).publish(bad, builders.make_bursts(bad))
    with Fleet(tmp_path) as command:
        assert bad.run_id in command("runs").stdout
        (samples,) = root.glob(f"samples/host_id=*/run_id={bad.run_id}/samples.parquet")
        samples.write_bytes(b"PAR1 and no more")
        require_shown(command, VIEWS, good[0].host.name)
        assert command("show", bad.run_id).exit_code == 11
        assert command("verify").exit_code == 11


@pytest.fixture
def bad(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A stored run whose samples are damaged."""
    run = honest(tmp_path / "results", "b", host="liar")
    (samples,) = (tmp_path / "results").rglob(f"run_id={run.run_id}/samples.parquet")
    content = samples.read_bytes()
    samples.write_bytes(content[:20] + bytes([content[20] ^ 1]) + content[21:])
    monkeypatch.chdir(tmp_path)
    return run


def test_of_a_single_run_the_error_names_file_cause_and_remedy(
    bad: Run, fleet_here: Callable[..., Done], monkeypatch: pytest.MonkeyPatch
) -> None:
    done = fleet_here("report", "liar", "-o", "-")
    message = " ".join(done.stderr.split())  # whatever the width it is wrapped to
    words = (f"run_id={bad.run_id}", "not what was written", "put it back from a copy")
    assert done.exit_code == 11
    assert [word for word in words if word not in message] == []
    assert "Traceback" not in done.stderr
    monkeypatch.setenv("FLEET_DEBUG", "1")
    assert "Traceback" in fleet_here("report", "liar", "-o", "-").stderr


@pytest.mark.long
def test_what_was_withdrawn_is_named_no_more(
    bad: Run, tmp_path: Path, fleet_here: Callable[..., Done]
) -> None:
    honest(tmp_path / "results", "a")
    before = fleet_here("report", "all", "-o", "-")
    assert before.exit_code == 0
    assert before.stderr.count(bad.run_id) == 1
    assert fleet_here("withdraw", bad.run_id).exit_code == 0
    after = fleet_here("report", "all", "-o", "-")
    assert after.exit_code == 0
    assert after.stderr == ""


def refuse_to_open(number: int, run_id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the system refuse to open the files of a run."""
    open_file = files.require_regular

    def refuse(path: Path | str) -> None:
        if run_id in str(path):
            raise OSError(number, os.strerror(number), str(path))
        open_file(path)

    for module in (files, reading):
        monkeypatch.setattr(module, "require_regular", refuse)


NAMING = (
    ("report", "{good}", "{bad}", "-o", "-"),
    ("report", "{good},{bad}", "-o", "-"),
    ("report", "{bad}", "{good}", "{good}", "-o", "card.svg"),
    ("report", "{good}", "{bad}", "-o", "site/"),
    ("show", "{good}", "{bad}"),
    ("show", "{bad},{good}", "--csv"),
    ("show", "all", "!{bad}"),
    ("compare", "{good},{bad}", "{other}"),
    ("export", "{bad},{good}"),
)


@pytest.mark.long
@pytest.mark.parametrize("how", ["damaged", "empty", "no record", *NUMBERS])
def test_a_bad_run_of_several_that_are_named_is_left_out_by_name(
    tmp_path: Path,
    bad: Run,
    fleet_here: Callable[..., Done],
    monkeypatch: pytest.MonkeyPatch,
    how: str,
) -> None:
    good = honest(tmp_path / "results", "a")
    other = honest(tmp_path / "results", "b")
    (samples,) = (tmp_path / "results").rglob(f"run_id={bad.run_id}/samples.parquet")
    if how in NUMBERS:
        refuse_to_open(NUMBERS[how], bad.run_id, monkeypatch)
    elif how != "damaged":
        samples.write_bytes(
            b""
            if how == "empty"
            else samples.read_bytes().replace(b"fleet.run", b"fleet.ran")
        )
    for words in NAMING:
        ids = {"good": good.run_id, "bad": bad.run_id, "other": other.run_id}
        done = fleet_here(*(word.format(**ids) for word in words))
        assert done.exit_code == 0, (words, done.stderr)
        named = " ".join(done.stderr.split())
        if words[-1] not in (
            "card.svg",
            "!{bad}",
            "{bad},{good}",
        ):  # for which it may not have to be read
            assert named.count(f"run_id={bad.run_id}") == 1, (words, named)
        if how in NUMBERS and named:
            assert os.strerror(NUMBERS[how]) in named
            assert "copy" not in named
    alone = fleet_here("report", bad.run_id, "-o", "-")
    assert alone.exit_code == 11
    assert f"run_id={bad.run_id}" in alone.stderr


def test_a_notebook_goes_on_without_the_run_too(bad: Run, tmp_path: Path) -> None:
    good = honest(tmp_path / "results", "a")
    with pytest.warns(StoreWarning, match="not what was written"):
        assert set(fleet.open(tmp_path / "results").pairs()["run_id"]) == {good.run_id}
    with pytest.raises(DamagedFileError, match=bad.run_id):
        fleet.open(tmp_path / "results").pairs(bad.run_id)


@pytest.mark.parametrize("error", [ValueError, ZeroDivisionError, StoreError])
def test_only_a_damaged_file_costs_a_run_its_place(
    tmp_path: Path, error: type[Exception]
) -> None:
    runs = [honest(tmp_path, label).run_id for label in "ab"]

    def work() -> None:
        fleet.analysis.load_pairs(tmp_path, run_id=runs)
        raise error("ours")

    with pytest.raises(error, match="ours"), warnings.catch_warnings(action="error"):
        skip_damaged_runs(work)()


def test_each_damaged_run_is_left_out_and_named_once(tmp_path: Path) -> None:
    runs = [honest(tmp_path, label).run_id for label in "abcde"]

    def work() -> list[str]:
        listed = [run.run_id for run in Listing(tmp_path).runs]
        for run_id in listed:
            if run_id in runs[1:3]:
                raise DamagedFileError(f"{run_id} is damaged.", run_id=run_id)
        return listed

    with pytest.warns(StoreWarning) as warned:
        assert set(skip_damaged_runs(work)()) == {*runs} - {*runs[1:3]}
    assert sorted(str(warning.message) for warning in warned) == sorted(
        f"{run_id} is damaged. It is left out." for run_id in runs[1:3]
    )


def test_where_no_run_is_left_the_damage_is_the_error(tmp_path: Path) -> None:
    run_id = honest(tmp_path, "a").run_id

    def work() -> None:
        if not Listing(tmp_path).runs:
            raise UsageError("nothing is selected")
        raise DamagedFileError("it is damaged", run_id=run_id)

    with pytest.raises(DamagedFileError, match="it is damaged"):
        skip_damaged_runs(work)()
