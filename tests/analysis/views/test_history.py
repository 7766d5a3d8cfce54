import json
import re
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from fleet.analysis.base import format_json, select_runs
from fleet.analysis.reduce import load_history, load_pairs
from fleet.analysis.views import (
    render_relation_history,
    show_as_csv,
    show_as_json,
    show_run,
)
from fleet.errors import StoreError, UsageError
from fleet.model import Host
from fleet.store import Listing, Store, new_run_id
from tests import builders


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Publish two runs of host `a`, one of `b` between them; leave one of `b` under
    way.
    """
    for name, hour in (("a", 1), ("b", 2), ("a", 3)):
        host = Host(name, "192.0.2.1", labels={"rack": name})
        run = builders.a_run(builders.small_desktop(), new_run_id(), host)
        run = replace(
            run, started_utc=f"2026-01-02T{hour:02}:00:00Z", labels={"hour": str(hour)}
        )
        Store(tmp_path / "results").publish(run, builders.make_bursts(run, seed=hour))
    Store(tmp_path / "results").new_journal(
        builders.a_run(host=Host("b", "192.0.2.1"))
    ).close()
    return tmp_path / "results"


def test_runs_are_selected_by_host_label_glob_and_exclusion(root: Path) -> None:
    listing = Listing(root)
    listed = listing.list_with_unfinished()

    def names(*texts: str) -> list[str]:
        return [run.host_name for run in select_runs(listed, texts, listing)]

    assert len(names()) == 4
    assert names("a") == ["a", "a"]
    assert names("[ab]", "!a") == ["b", "b"]
    assert names("rack=*", "!hour=3") == ["a", "b"]
    assert names("a@hour=3") == ["a"]
    assert select_runs(listed, [listed[1].run_id], listing) == [listed[1]]
    with pytest.raises(UsageError, match="no run and no host 'rpi5' in"):
        names("rpi5")
    with pytest.raises(UsageError, match="'a !a' leaves no run"):
        names("a", "!a")


@pytest.mark.long
def test_a_relations_past_is_a_line_per_run_oldest_first(root: Path) -> None:
    history = load_history(root, Listing(root).list_with_unfinished(), "smt", None)
    text = render_relation_history(history)
    assert text.endswith(
        f"What changed when: fleet compare {history['host_name'].iloc[-1]}"
    )
    lines = re.findall(
        r"^2026-01-02 0(\d):00:00  (\w) +r\S+ +cas/cmpxchg +4 +([\d.]+) ",
        text,
        re.MULTILINE,
    )
    assert [(hour, host) for hour, host, _ in lines] == [
        ("1", "a"),
        ("2", "b"),
        ("3", "a"),
    ]
    assert all(5.5 < float(median) < 6.5 for *_, median in lines)
    rows = json.loads(format_json(history))
    assert [row["labels"]["hour"] for row in rows] == ["1", "2", "3"]
    assert "\x1b" not in text


def test_a_past_that_is_not_there_says_what_to_do(root: Path) -> None:
    listed = Listing(root).list_with_unfinished()
    with pytest.raises(
        UsageError, match=r"relation smtt: no such relation; did you mean 'smt'"
    ):
        load_history(root, listed, "smtt", None)
    with pytest.raises(
        UsageError,
        match=r"not measured. There are cas/cmpxchg. `fleet run -b readwrite` me",
    ):
        load_history(root, listed, "smt", "readwrite")


@pytest.mark.long
def test_csv_has_every_pair_of_every_run_as_stored(root: Path, tmp_path: Path) -> None:
    runs = [run.run_id for run in Store(root).list_runs()]
    (tmp_path / "pairs.csv").write_text(show_as_csv(root, runs))
    frame = pd.read_csv(tmp_path / "pairs.csv")
    stored = load_pairs(root).astype({"run_id": str})
    keys = ["run_id", "ping_cpu", "pong_cpu"]
    assert [*frame.columns[:5]] == [
        "host_name",
        "started_utc",
        "cpu_model",
        "kernel",
        "labels",
    ]
    assert len(frame) == 3 * 28
    merged = frame.merge(stored, on=keys, suffixes=("", "_kept"))
    assert (merged["median_ns"].astype("float32") == merged["median_ns_kept"]).all()
    (run,) = json.loads("".join(show_as_json(root, runs[:1])))["rows"]
    assert (
        run["pairs"][0]["median_ns"]
        == frame.set_index(keys)["median_ns"][runs[0], 0, 1]
    )


def test_a_run_whose_samples_cannot_be_read_is_an_error_not_empty_headings(
    root: Path,
) -> None:
    run = Store(root).list_runs()[0].run_id
    show_run(root, run)
    (root / "samples/host_id=a").rename(root / "_moved")
    (root / "samples/host_id=a").write_text("no folder any more")
    with pytest.raises(StoreError, match=f"run {run} is not published"):
        show_run(root, run)
