"""Which runs a side means, as people type it."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import pytest

from fleet.analysis.base import select_runs
from fleet.analysis.compare import resolve_sides
from fleet.errors import UsageError
from fleet.model import Host
from fleet.store import Listing, Store
from tests import builders

# run id -> host, second it began in, labels
RUNS = {
    "r2-b": ("rpi5", 30, {"kernel": "a"}),
    "r2-a": ("rpi5", 30, {"kernel": "b", "note": "x@y"}),
    "r1": ("epyc", 10, {"kernel": "a"}),
    "r1-x": ("epyc", 40, {"kernel": "a=b"}),
    "r3": ("001", 20, {}),
    "r20260102T03-a": ("riscv", 50, {}),
    "r20260102T03-b": ("pisa", 51, {}),
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("sides")
    for run_id, (host, second, labels) in RUNS.items():
        run = builders.a_run(run_id=run_id, host=Host(host, "192.0.2.1"))
        run = replace(
            run,
            started_utc=f"2026-01-02T03:00:{second}Z",
            labels=MappingProxyType(labels),
        )
        Store(place).publish(run, builders.make_bursts(run))
    return place


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("r1", ["r1"]),  # the whole id, though another begins so
        ("r1-", ["r1-x"]),
        ("r3", ["r3"]),
        ("r3,r1", ["r1", "r3"]),  # oldest first
        ("r2-b,r2-a,", ["r2-a", "r2-b"]),  # of one second: by id
        ("rpi5", ["r2-a", "r2-b"]),
        ("epyc", ["r1", "r1-x"]),
        ("001", ["r3"]),
        ("h-001", ["r3"]),
        ("kernel=a", ["r1", "r2-b"]),
        ("kernel=a=b", ["r1-x"]),
        ("note=x@y", ["r2-a"]),
        ("epyc@kernel=a", ["r1"]),
        ("rpi5@note=x@y", []),
        ("rpi*", ["r2-a", "r2-b"]),
        ("rpi[4-5]@kernel=?", ["r2-a", "r2-b"]),
        (
            "all",
            ["r1", "r3", "r2-a", "r2-b", "r1-x", "r20260102T03-a", "r20260102T03-b"],
        ),
        ("r20260102*", ["r20260102T03-a", "r20260102T03-b"]),  # of a day
        ("r*", ["r2-a", "r2-b", "r20260102T03-a"]),  # hosts
        ("h-001@kernel=a", []),
    ],
)
def test_a_side_is_runs_a_host_a_label_or_a_label_on_a_host(
    root: Path, text: str, expected: list[str]
) -> None:
    if not expected:
        with pytest.raises(UsageError, match="no run has"):
            resolve_sides(root, [text])
        return
    (side,) = resolve_sides(root, [text])
    assert side.name == text
    assert list(side.runs["run_id"]) == expected
    assert side.hosts == sorted(
        {
            RUNS[run_id][0] if RUNS[run_id][0] != "001" else "h-001"
            for run_id in expected
        }
    )


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        (
            ["r2-"],
            "'r2-' is the beginning of 2 runs: r2-a, r2-b. Type more of it, or 'r2-*'.",
        ),
        (["nobody"], "no run and no host 'nobody' in "),
        (["kernel=z"], "no run has 'kernel=z'; did you mean 'kernel=b'"),
        (["r3,nobody"], "no run and no host 'nobody'"),
        (["r3,no4,no8,no1,no6,no2,no7,no3,no5"], "no run and no host 'no4'"),
        (["kernel=a", "r1"], "run r1 is on both sides, 'kernel=a' and 'r1'"),
        (["r3", "epyc", "kernel=a"], "run r1 is on both sides, 'epyc' and 'kernel=a'"),
    ],
)
def test_a_side_that_means_nothing_or_shares_a_run_is_refused(
    root: Path, texts: Sequence[str], words: str
) -> None:
    with pytest.raises(UsageError) as refused:
        resolve_sides(root, texts)
    assert words in str(refused.value)


def test_the_runs_of_one_host_are_named_host_at_side(root: Path) -> None:
    (label,) = resolve_sides(root, ["kernel=a"])
    part = label.split_by_host()["rpi5"]
    assert part.name == "rpi5@kernel=a"
    assert list(part.runs["run_id"]) == ["r2-b"]
    assert list(part.runs.index) == [0]
    (named,) = resolve_sides(root, ["epyc@kernel=a"])
    assert named.split_by_host()["epyc"].name == "epyc@kernel=a"


@pytest.mark.parametrize("text", ["age<1d", "age<1h"])
def test_a_side_without_runs_is_a_mistake_and_no_damage(root: Path, text: str) -> None:
    with pytest.raises(UsageError, match=f"side '{text}': no stored run is of it"):
        resolve_sides(root, ["rpi5", text])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("governor=performance", ["r1"]),
        ("model=*epyc*", ["r1", "r2"]),
        ("model=made-up EPYC", ["r1", "r2"]),
        ("web*@boost=off", ["r2"]),
        ("boost=on", ["r1"]),
        ("os=linux", ["r1", "r2", "r3"]),
        ("kernel=6.13*", ["r3"]),
        ("kernel=old", ["r1"]),  # a label
    ],
)
def test_runs_are_selected_by_facts(
    tmp_path: Path, text: str, expected: list[str]
) -> None:
    changes: dict[str, dict[str, object]] = {
        "r1": {"governor": "performance", "cpu_model": "Made-up EPYC", "boost": True},
        "r2": {"governor": "powersave", "cpu_model": "Made-up EPYC", "boost": False},
        "r3": {"governor": None, "cpu_model": None, "boost": None, "kernel": "6.13.1"},
    }
    for run_id, facts in changes.items():
        run = builders.a_run(run_id=run_id, host=Host(f"web-{run_id}", "192.0.2.1"))
        changed = replace(run.facts, kernel="6.12")
        run = replace(run, facts=replace(changed, **facts))  # type: ignore[arg-type]
        labels = {"kernel": "old"} if run_id == "r1" else {}
        run = replace(run, labels=MappingProxyType(labels))
        Store(tmp_path).publish(run, builders.make_bursts(run))
    listing = Listing(tmp_path)
    chosen = select_runs(listing.runs, [text], listing)
    assert [run.run_id for run in chosen] == expected


def test_a_fact_that_no_run_has_is_refused_with_what_there_is(root: Path) -> None:
    with pytest.raises(
        UsageError, match=r"no run has 'os=qnx'; .* There are: os=linux\."
    ):
        resolve_sides(root, ["os=qnx"])
    with pytest.raises(UsageError, match=r"no run has 'hue=red'.* Labels: .* Facts: m"):
        resolve_sides(root, ["hue=red"])
