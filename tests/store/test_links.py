"""A link that another user put below a shared root is never written through."""

import contextlib
import os
import shutil
from pathlib import Path

import pytest

from fleet.errors import FleetError, StoreError
from fleet.model import Host
from fleet.session import events
from fleet.session.log import SessionLog, prune_logs
from fleet.store import Intent, Store
from fleet.store.writing import write_summary
from tests import builders

SESSION = "s20260102T030400Z-00000001"
RUN = builders.a_run().run_id
OLD = "s20010101T000000Z-00000001"
SUMMARY = {
    "summary": "board",
    "benchmark": "cas",
    "relation": "llc",
    "tool": "c2clat",
    "source": "a page",
}
SUMMARY |= {"labels_json": "{}", "ping_cpu": 0, "pong_cpu": 1, "latency_ns": 40.0}


def use_everything(root: Path) -> None:
    """Do what a session does: note, journal, log, publish, amend; a refusal by one does
    not keep the next.
    """
    store = Store(root)
    run = builders.a_run()
    log = SessionLog(store.state_dir / "logs" / SESSION, lambda _: None)
    with contextlib.suppress(FleetError), store.hold_session(Intent(SESSION, ("b1",))):
        pass
    with contextlib.suppress(FleetError), store.reopen_journal(RUN) as journal:
        journal.append(b"arrived")
    with contextlib.suppress(FleetError):
        log(events.NoteAdded(Host("b1", "192.0.2.1"), "a line"))
    for work in (
        store.require_writable,
        lambda: store.publish(run, builders.make_bursts(run)),
        lambda: store.label([RUN], {"a": "b"}),
        lambda: store.complete_tables(run.session_id),
        lambda: write_summary(root, "board", [SUMMARY]),
        lambda: store.drop_journal(RUN),
        lambda: store.end_session(SESSION),
        lambda: prune_logs(store),
    ):
        with contextlib.suppress(FleetError):
            work()


@pytest.mark.parametrize(
    "name",
    [
        f".fleet/journal/{RUN}/lock",
        f".fleet/journal/{RUN}/stream.jsonl",
        f".fleet/journal/{SESSION}.json",
        f".fleet/journal/.{SESSION}.json.PID",
        f".fleet/logs/{SESSION}/session.log",
        ".fleet/tables.lock",
        f"samples/host_id=rpi5/run_id={RUN}/samples.parquet",
        f"runs/{RUN}.parquet",
        f"cpus/{RUN}.parquet",
    ],
)
def test_what_a_link_leads_to_stays_as_it_is(tmp_path: Path, name: str) -> None:
    root = tmp_path / "results"
    victim = tmp_path / "victim"
    victim.write_text("precious")
    Store(root).new_journal(builders.a_run()).close()
    link = root / name.replace("PID", str(os.getpid()))
    link.parent.mkdir(parents=True, exist_ok=True)
    link.unlink(missing_ok=True)
    link.symlink_to(victim)
    use_everything(root)
    assert victim.read_text() == "precious"


@pytest.mark.parametrize(
    "name",
    [
        ".fleet",
        ".fleet/journal",
        f".fleet/journal/{RUN}",
        ".fleet/staging",
        ".fleet/logs",
        f".fleet/logs/{SESSION}",
        "samples",
        "samples/host_id=rpi5",
        f"samples/host_id=rpi5/run_id={RUN}",
        "runs",
        "cpus",
        "amendments",
        "summaries",
    ],
)
def test_nothing_is_written_into_or_removed_from_a_folder_that_a_link_leads_to(
    tmp_path: Path, name: str
) -> None:
    root = tmp_path / "results"
    victim = tmp_path / "victim"
    files = (
        "stream.jsonl",
        f"journal/{RUN}/stream.jsonl",
        f"{RUN}/run.json",
        f"{SESSION}.json",
    )
    for file in (*files, f"{OLD}/a.log", f"{RUN}-old/x"):
        (victim / file).parent.mkdir(parents=True, exist_ok=True)
        (victim / file).write_text("precious")
    for path in (victim / f"{OLD}/a.log", victim / OLD):
        os.utime(path, (0, 0))
    Store(root).new_journal(builders.a_run()).close()
    before = contents(victim)
    link = root / name
    shutil.rmtree(link, ignore_errors=True)
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(victim)
    use_everything(root)
    assert contents(victim) == before


def test_a_folder_that_became_a_link_meanwhile_is_not_written_into(
    tmp_path: Path,
) -> None:
    root = tmp_path / "results"
    victim = tmp_path / "victim"
    victim.mkdir()
    store = Store(root)
    with store.new_journal(builders.a_run()) as journal:
        journal.folder.rename(tmp_path / "away")
        journal.folder.symlink_to(victim)
        journal.append(b"arrived")
    assert list(victim.iterdir()) == []
    assert (tmp_path / "away/stream.jsonl").read_bytes().startswith(b"arrived")


def test_the_root_itself_may_be_a_link_and_a_link_below_it_is_named(
    tmp_path: Path,
) -> None:
    (tmp_path / "disk").mkdir()
    root = tmp_path / "results"
    root.symlink_to(tmp_path / "disk")
    run = builders.a_run()
    Store(root).publish(run, builders.make_bursts(run))
    (root / "amendments").symlink_to(tmp_path)
    with pytest.raises(
        StoreError, match=r"it is a link, which fleet does not .* Look at .*/amendments"
    ):
        Store(root).label([RUN], {"a": "b"})


def contents(folder: Path) -> dict[str, bytes | None]:
    return {
        str(path): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }
