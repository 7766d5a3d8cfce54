"""The table `counters`: written with a run, verified, read; roots without it are read
as before.
"""

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from fleet.analysis import load_counters, load_pairs
from fleet.analysis.report import render
from fleet.analysis.views import count_per_unit, render_tables, tabulate_events
from fleet.model import Burst, Run
from fleet.store import Store, samples
from fleet.store.places import parse_place
from fleet.store.verify import verify
from tests import builders

EVENTS = ("cycles", "odd", "r04d2")
RAW = {
    "counters": [{"event": event} for event in EVENTS],
    "plan": {"benchmarks": [{"benchmark": "cas", "variant": "cmpxchg"}]},
}
# cycles in both threads; odd nowhere; r04d2 for half of the time in ping, never in
# pong.
COUNTS = (
    ((10_000, 90, 90), None, (2_000, 100, 50)),
    ((20_000, 90, 90), None, (0, 100, 0)),
)


def a_run() -> Run:
    run = builders.a_run()
    assert run.hello
    return replace(run, hello=replace(run.hello, counters=EVENTS, raw=RAW))


def a_burst(**changes: object) -> Burst:
    return builders.a_burst(counters=COUNTS, **changes)


def test_counts_are_rows_of_their_burst_and_thread(tmp_path: Path) -> None:
    counted = a_burst()
    uncounted = builders.a_burst(round=1)
    Store(tmp_path).publish(a_run(), [counted, uncounted])
    frame = load_counters(tmp_path)
    plain = pd.read_parquet(tmp_path / "counters")
    pd.testing.assert_frame_equal(frame.astype(plain.dtypes.to_dict()), plain)
    assert frame["cpu"].tolist() == [0, 0, 1, 1]
    assert frame["event"].tolist() == ["cycles", "r04d2", "cycles", "r04d2"]
    assert set(frame["round"]) == {0}
    assert set(frame["units"]) == {5 * builders.ITERATIONS}
    assert frame["count"].isna().tolist() == [False, False, False, True]
    assert frame["count"].tolist()[:3] == [10_000, 2_000, 20_000]
    assert frame["running_ns"].tolist() == [90, 50, 90, 0]
    assert len(pd.read_parquet(tmp_path / "samples")) == 2


def test_a_run_of_several_chunks_has_all_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(samples, "CHUNK_SAMPLES", 10)
    bursts = [a_burst(round=visit) for visit in range(5)]
    for _ in range(2):  # publishing again changes nothing
        Store(tmp_path).publish(a_run(), iter(bursts))
        assert load_counters(tmp_path)["round"].tolist() == [
            visit for visit in range(5) for _ in range(4)
        ]
    assert verify(parse_place(tmp_path)).problems == ()


def test_a_run_without_counters_has_no_file_and_no_rows(tmp_path: Path) -> None:
    Store(tmp_path).publish(builders.a_run(), [builders.a_burst()])
    assert not (tmp_path / "counters").exists()
    none = load_counters(tmp_path)
    assert none.empty
    assert "running_ns" in none


def test_a_damaged_file_is_named_and_left_out(tmp_path: Path) -> None:
    run = a_run()
    Store(tmp_path).publish(run, [a_burst()])
    file = tmp_path / "counters" / f"{run.run_id}.parquet"
    assert verify(parse_place(tmp_path)).files == 4
    file.write_bytes(file.read_bytes()[:-7])
    (problem,) = verify(parse_place(tmp_path)).problems
    assert f"counters/{run.run_id}.parquet" in problem
    with pytest.warns(UserWarning, match="counters"):
        assert load_counters(tmp_path).empty


def test_threads_that_do_the_same_share_a_line_and_events_that_never_occur_are_only_named() -> (
    None
):
    rows = [
        (
            "bandwidth",
            "mov",
            "read.own.16K.huge.x2",
            "package",
            thread,
            event,
            number,
            3,
            False,
        )
        for thread, of_thread in (("ping", 2.0), ("other", 4.0))
        for event, number in (("cycles", of_thread), ("r04d2", 0.0))
    ]
    columns = [
        "benchmark",
        "variant",
        "point",
        "relation",
        "thread",
        "event",
        "per_unit",
        "bursts",
        "scaled",
    ]
    tables = tabulate_events(pd.DataFrame(rows, columns=columns), RAW)
    assert tables
    assert tables.tables[0].titles == ("thread", "cycles")
    assert tables.tables[0].lines == [("each", "3")]
    assert (
        tables.note == "0 everywhere: r04d2; medians of 3 counts; mean of the threads"
    )


@pytest.mark.long
def test_counts_are_shown_for_each_unit_scaled_and_marked(tmp_path: Path) -> None:
    Store(tmp_path).publish(a_run(), [a_burst(round=visit) for visit in range(3)])
    counts = count_per_unit(load_counters(tmp_path), load_pairs(tmp_path))
    assert set(counts["relation"]) == {"unknown"}
    tables = tabulate_events(counts, RAW)
    assert tables
    title, relation, names, ping, other, notes = render_tables(tables).splitlines()
    assert title == "cas/cmpxchg events: counted per round trip in each thread"
    assert relation == "unknown"
    assert names.split() == ["thread", "cycles", "r04d2"]
    assert ping.split() == ["ping", "2", "~0.8"]
    assert other.split() == ["other", "4", "-"]
    assert (
        notes == "medians of 3 counts; -: the CPU had no counter free; "
        "~: counted for a part of the time, the rest is estimated"
    )
    narrow = render_tables(tables, 15).splitlines()
    assert [line.split() for line in narrow[2:8:3]] == [
        ["thread", "cycles"],
        ["thread", "r04d2"],
    ]
    assert tabulate_events(counts.iloc[:0], RAW) is None
    page = render(tmp_path, [a_run().run_id])
    assert "cas/cmpxchg events" in page
    assert "~0.8" in page
