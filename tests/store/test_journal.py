import json
import os
import zlib
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from unittest.mock import Mock

import pytest

from fleet.errors import LockedError, StoreError
from fleet.model import RequestedOptions
from fleet.store import Intent, Listing, Store
from fleet.store import journal as journal_module
from fleet.store import store as store_module
from tests import builders
from tests.hosts.odd import mount_disk


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "results")


def test_lines_come_back_byte_for_byte(store: Store) -> None:
    lines = [b'{"record":"hello"}', b"", b"\xff\x00 not text", b"x" * 100_000]
    with store.new_journal(builders.a_run()) as journal:
        for line in lines:
            journal.append(line)
        checked_lines = [line + b"\t%08x\n" % zlib.crc32(line) for line in lines]
        assert journal.part_path.read_bytes() == b"".join(checked_lines)
    assert list(chain.from_iterable(journal.parts())) == lines


def test_a_line_that_is_not_what_was_written_is_known(store: Store) -> None:
    with store.new_journal(builders.a_run()) as journal:
        for line in (b"one", b"two", b"three"):
            journal.append(line)
    content = journal.part_path.read_bytes()
    for changed in (
        b"two",
        b"\t",
        b"\n",
        zlib.crc32(b"one").to_bytes(4).hex().encode(),
    ):
        journal.part_path.write_bytes(content.replace(changed, b"?", 1))
        assert None in chain.from_iterable(journal.parts())


def test_a_line_torn_by_a_power_cut_is_left_out(store: Store) -> None:
    with store.new_journal(builders.a_run()) as journal:
        journal.append(b"whole")
    with journal.part_path.open("ab") as stream:
        stream.write(b"torn")
    assert list(chain.from_iterable(journal.parts())) == [b"whole"]


def test_a_journal_says_what_was_to_be_measured_and_keeps_secrets_out(
    store: Store,
) -> None:
    with store.new_journal(builders.a_run()) as journal:
        text = (journal.folder / "run.json").read_text()
    fields = json.loads(text)
    assert fields["host"]["env"] == ["TOKEN"]
    assert "hunter2" not in text
    assert fields["plan"]["rounds"] == 3
    assert "hello" not in fields


@pytest.fixture
def synced_names(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the names of what was synced, in order; "" for what has none any more."""
    names: list[str] = []
    fsync = os.fsync

    def noting(descriptor: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        names.append(path.name if path.exists() else "")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noting)
    return names


def test_a_run_that_lasts_is_on_the_disk_with_all_that_names_it(
    store: Store, synced_names: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_module, "SYNC_INTERVAL_S", 0.0)
    run = builders.a_run()
    with store.new_journal(run) as journal:
        journal.append(b"one")
        assert synced_names == ["stream.jsonl", "run.json", run.run_id, "journal"]
        journal.append(b"two")
        assert synced_names[4:] == ["stream.jsonl"]
        journal.begin_part()
        journal.append(b"three")
        assert synced_names[-4:] == [
            "stream-2.jsonl",
            "run.json",
            run.run_id,
            "journal",
        ]


def test_a_run_cut_short_is_on_the_disk_and_a_published_one_only_as_tables(
    store: Store, synced_names: list[str], tmp_path: Path
) -> None:
    with store.new_journal(builders.a_run()) as journal:
        journal.append(b"arrived")
    assert synced_names == [
        "stream.jsonl",
        "run.json",
        builders.a_run().run_id,
        "journal",
    ]
    synced_names.clear()
    run = builders.a_run(run_id="r20261121T000000Z-0000beef")
    with store.new_journal(run) as journal:
        journal.append(b"arrived")
        (tmp_path / "backup").hardlink_to(journal.part_path)
        store.publish(run, builders.make_bursts(run))
    drafts = [
        name
        for name in synced_names
        if name == "samples.parquet" or name.startswith(f"{run.run_id}-")
    ]
    assert [name.removeprefix(run.run_id)[:6] for name in drafts] == [
        "sample",
        "-cpus-",
        "-runs-",
    ]
    assert "stream.jsonl" not in synced_names
    assert [name for name in synced_names if name in ("cpus", "runs")] == [
        "cpus",
        "runs",
    ]


def test_much_that_arrived_is_on_the_disk_before_publishing_takes_its_time(
    store: Store, synced_names: list[str]
) -> None:
    with store.new_journal(builders.a_run()) as journal:
        journal.append(b"little")
        journal.sync_if_large()
        assert synced_names == []
        journal.append(b"x" * journal_module.SOON_PUBLISHED_BYTES)
        journal.sync_if_large()
        assert synced_names[0] == "stream.jsonl"


def test_a_run_has_one_journal_which_takes_nothing_once_closed(store: Store) -> None:
    journal = store.new_journal(builders.a_run())
    with pytest.raises(StoreError, match="has a journal already"):
        store.new_journal(builders.a_run())
    journal.close()
    journal.close()
    with pytest.raises(StoreError, match="closed"):
        journal.append(b"late")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with mount_disk(tmp_path / "disk", "size=256k") as folder:
        yield folder


def test_a_full_disk_is_an_error_and_keeps_every_whole_line(disk: Path) -> None:
    line = b"y" * 10_000
    appended = 0
    with Store(disk).new_journal(builders.a_run()) as journal:
        with pytest.raises(
            StoreError, match=r"No space left on device.*kept in the journal"
        ):
            while True:
                journal.append(line)
                appended += 1
        assert len(journal.part_path.read_bytes()) == (len(line) + 10) * appended
    assert appended > 1
    assert len(list(chain.from_iterable(journal.parts()))) == appended


def test_only_what_is_there_is_said_to_be_kept(disk: Path) -> None:
    with Store(disk).new_journal(builders.a_run()) as journal:
        (disk / "ballast").write_bytes(bytes(100_000))
        with pytest.raises(StoreError, match="No space left on device") as full:
            journal.append(b"y" * 500_000)
    assert "kept in the journal" not in str(full.value)


def test_a_disk_that_fills_while_publishing_keeps_the_journal(disk: Path) -> None:
    store = Store(disk)
    run = builders.a_run(builders.hybrid_laptop(), rounds=6)
    with store.new_journal(run) as journal:
        journal.append(b"arrived")
    with pytest.raises(StoreError, match="No space left on device"):
        store.publish(run, builders.make_bursts(run, samples=100))
    assert list(chain.from_iterable(journal.parts())) == [b"arrived"]
    assert list(disk.rglob("*.parquet")) == []
    assert [left.state for left in Listing(store.place).list_with_unfinished()] == [
        "unfinished"
    ]


@pytest.mark.parametrize("spoilt", ["file", "journal"])
def test_a_root_that_cannot_be_written_is_an_error_naming_it(
    tmp_path: Path, spoilt: str
) -> None:
    root = tmp_path / "results"
    if spoilt == "file":
        root.write_text("not a directory")
    else:
        (root / ".fleet").mkdir(parents=True)
        (root / ".fleet/journal").write_text("in the way")
    with pytest.raises(StoreError, match=r"results.*results root"):
        Store(root).new_journal(builders.a_run())


def test_another_agents_words_go_into_a_part_of_their_own(store: Store) -> None:
    with store.new_journal(builders.a_run()) as journal:
        journal.begin_part()
        journal.append(b"first")
    with journal.part_path.open("ab") as stream:
        stream.write(b"torn")
    with store.reopen_journal(builders.a_run().run_id) as journal:
        journal.begin_part()
        journal.begin_part()
        journal.append(b"second")
        assert [list(part) for part in journal.parts()] == [[b"first"], [b"second"]]
    assert journal.part_path.name == "stream-2.jsonl"


def test_a_session_under_way_is_known_by_its_process_and_forgotten_when_it_ends_well(
    store: Store,
) -> None:
    intent = Intent(
        "s20260102T030400Z-00000001",
        ("a", "b"),
        RequestedOptions(rounds=3),
        {"kernel": "6.12"},
    )
    with store.hold_session(intent):
        running = {intent.session_id: (os.getpid(), intent)}
        assert store.running_sessions() == running
        assert store.read_idle_intents() == []
        with (
            pytest.raises(LockedError, match="is under way"),
            store.hold_session(intent),
        ):
            pass
    assert store.running_sessions() == {}
    assert store.read_idle_intents() == [intent]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store_module, "open_regular", Mock(side_effect=PermissionError))
        assert store.read_idle_intents() == []  # another user's
    store.end_session(intent.session_id)
    assert store.read_idle_intents() == []


def test_the_files_of_a_journal_are_its_owners_alone(store: Store) -> None:
    with store.new_journal(builders.a_run()) as journal:
        journal.append(b"line")
        modes = {
            path.name: path.stat().st_mode & 0o777 for path in journal.folder.iterdir()
        }
        assert modes | {"run.json": 0o600} == dict.fromkeys(
            ("run.json", "lock", "stream.jsonl"), 0o600
        )


def test_who_has_a_journal_open_is_named_by_its_process(store: Store) -> None:
    with store.new_journal(builders.a_run()) as journal:
        with pytest.raises(LockedError, match=f"process {os.getpid()} on this machine"):
            store.reopen_journal(journal.folder.name)
        assert (journal.folder / "lock").read_text() == f"{os.getpid():<19}\n"
    with store.reopen_journal(journal.folder.name) as again:
        assert list(chain.from_iterable(again.parts())) == []


def open_files() -> int:
    """How many descriptors this process has."""
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_closing_lets_go_of_every_file(store: Store) -> None:
    """Each host of a session has a journal; a thousand must not leave their descriptors
    behind.
    """
    before = open_files()
    with store.new_journal(builders.a_run()) as journal:
        journal.append(b"one")
        journal.begin_part()
        journal.append(b"two")
        assert open_files() == before + 3  # the folder, the lock and the second part
    assert open_files() == before
    for _ in range(3):
        with (
            store.reopen_journal(journal.folder.name) as first,
            pytest.raises(LockedError),
        ):
            store.reopen_journal(first.folder.name)
    assert open_files() == before


def test_a_part_that_cannot_be_opened_is_an_error_that_says_so(store: Store) -> None:
    with store.new_journal(builders.a_run()) as journal:
        journal.part_path.mkdir()
        with pytest.raises(
            StoreError,
            match=f"{journal.part_path}: cannot open the journal: it is a folder",
        ):
            journal.append(b"line")


def test_a_missing_part_is_named_and_what_follows_is_kept(store: Store) -> None:
    with store.new_journal(builders.a_run()) as journal:
        journal.append(b"{}")
    (journal.folder / "stream.jsonl").rename(journal.folder / "stream-3.jsonl")
    with pytest.raises(
        StoreError, match=r"stream\.jsonl: this part of the journal is missing"
    ):
        store.reopen_journal(builders.a_run().run_id)
    (journal.folder / "stream-3.jsonl").rename(journal.folder / "stream.jsonl")
    store.reopen_journal(builders.a_run().run_id).close()


def test_a_journal_that_another_controller_has_finished_is_no_failure_of_the_store(
    store: Store,
) -> None:
    with pytest.raises(LockedError, match="has just stored it"):
        store.reopen_journal(builders.a_run().run_id)
