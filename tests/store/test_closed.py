"""What an ordinary user may not list or read in a root is named, and never taken for
nothing.
"""

import errno
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyarrow import fs

from fleet.errors import StoreError
from fleet.model import Host
from fleet.store import Store
from fleet.store.files import list_folder
from fleet.store.places import Bucket, parse_place
from fleet.store.runs import Listing
from fleet.store.verify import verify
from fleet.store.writing import write_summary
from tests import builders
from tests.command import Done
from tests.processes import obeying_permissions
from tests.store.test_links import SUMMARY

RUNS = {"a": "r20260101T000000Z-00000001", "b": "r20260102T000000Z-00000002"}


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A root with a run of host a, a withdrawn one of b, and a journal."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    store = Store(tmp_path / "results")
    for name, run_id in RUNS.items():
        run = builders.a_run(run_id=run_id, host=Host(name, "192.0.2.7"))
        store.publish(run, builders.make_bursts(run))
    store.withdraw([RUNS["b"]])
    write_summary(store.place.root, "board", [SUMMARY])
    store.new_journal(builders.a_run(run_id="r20260103T000000Z-00000003")).close()
    yield store.place.root
    for path in store.place.root.rglob("*"):
        if path.is_dir():
            path.chmod(0o755)


Run = Callable[[Sequence[str]], Done]


@pytest.fixture
def run_bound(root: Path, fleet_here: Callable[..., Done]) -> Run:
    def run(words: Sequence[str]) -> Done:
        with obeying_permissions():
            return fleet_here(*words, "-r", str(root))

    return run


@pytest.mark.parametrize(
    ("folder", "words"),
    [
        *(
            ("amendments", words)
            for words in ("runs", "show", "show a", "label a x=1", "withdraw", "verify")
        ),
        ("amendments", "compare a b"),
        ("amendments", "export a -o -"),
        *(("samples", words) for words in ("runs", "show", "verify")),
        ("summaries", "runs --summaries"),
        (".fleet/journal", "resume"),
        *((folder, "verify") for folder in ("runs", "cpus", "summaries", "counters")),
        ("samples/host_id=a", "verify"),
        (".fleet/journal", "verify"),
    ],
)
def test_what_a_command_cannot_do_without_ends_it(
    root: Path, run_bound: Run, folder: str, words: str
) -> None:
    (root / folder).mkdir(exist_ok=True)
    (root / folder).chmod(0)
    done = run_bound(words.split())
    said = done.stdout + done.stderr
    assert done.exit_code == StoreError.exit_code, done
    assert str(root / folder) in said
    assert "Permission denied" in said
    assert "Give this user permission" in said


@pytest.mark.parametrize(
    "folder", ["runs", "cpus", ".fleet/journal", "samples/host_id=b"]
)
def test_what_a_listing_can_do_without_is_named(
    root: Path, run_bound: Run, folder: str
) -> None:
    (root / folder).chmod(0)
    done = run_bound(["runs"])
    assert done.exit_code == 0, done
    assert (RUNS["a"] in done.stdout, RUNS["b"] in done.stdout) == (True, False)
    assert done.stderr.count("Permission denied") == 1
    assert str(root / folder) in done.stderr


class Denying:
    """Objects in a folder, of which a prefix may not be listed, as pyarrow's client of
    an S3 server says so.
    """

    def __init__(self, folder: Path, prefix: str) -> None:
        self._objects = fs.SubTreeFileSystem(str(folder), fs.LocalFileSystem())
        self._prefix = prefix

    def __getattr__(self, name: str) -> Any:
        return getattr(self._objects, name)

    def get_file_info(self, wanted: Any) -> Any:
        if isinstance(wanted, fs.FileSelector) and wanted.base_dir == self._prefix:
            raise OSError(
                f"When listing objects under key '{self._prefix}/': AWS Error"
                " ACCESS_DENIED during ListObjectsV2 operation: Access Denied"
            )
        return self._objects.get_file_info(wanted)


@pytest.mark.parametrize(
    ("prefix", "words"),
    [
        *(("amendments", words) for words in ("runs", "show a", "label a x=1")),
        ("samples", "runs"),
        ("summaries", "runs --summaries"),
        *((prefix, "verify") for prefix in ("amendments", "samples", "runs", "cpus")),
    ],
)
def test_a_prefix_of_a_bucket_that_may_not_be_listed_ends_a_command(
    root: Path,
    monkeypatch: pytest.MonkeyPatch,
    fleet_here: Callable[..., Done],
    prefix: str,
    words: str,
) -> None:
    objects = Denying(root.parent, f"{root.name}/{prefix}")
    monkeypatch.setattr(Bucket, "filesystem", objects)
    monkeypatch.setenv("XDG_STATE_HOME", str(root.parent / "state"))
    done = fleet_here(*words.split(), "-r", f"s3://{root.name}")
    assert done.exit_code == StoreError.exit_code, done
    said = " ".join(done.stderr.split())
    assert f"'{root.name}/{prefix}/': AWS Error ACCESS_DENIED" in said
    assert "Look at the credentials" in said


@pytest.mark.parametrize("word", ["runs", "show", "verify"])
@pytest.mark.parametrize("closed", ["names alone", "file"])
def test_a_withdrawn_run_stays_withdrawn_if_its_amendment_is_closed(
    root: Path, run_bound: Run, closed: str, word: str
) -> None:
    folder = root / "amendments"
    (file,) = folder.iterdir()
    if closed == "file":
        file.chmod(0)
    else:
        folder.chmod(0o444)
    done = run_bound([word])
    assert f"amendments/{file.name}" in done.stdout + done.stderr
    if word == "verify":
        assert done.exit_code == StoreError.exit_code
    else:
        assert (RUNS["a"] in done.stdout, RUNS["b"] in done.stdout) == (True, False)


def test_a_folder_of_samples_that_only_shows_its_names_is_closed(
    root: Path, run_bound: Run
) -> None:
    (root / "samples").chmod(0o444)
    done = run_bound(["runs"])
    assert done.exit_code == 11
    assert "Permission denied" in done.stderr


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ESTALE, errno.EIO])
@pytest.mark.parametrize("folder", ["amendments", "samples"])
def test_no_error_of_the_system_is_an_empty_folder(
    root: Path, monkeypatch: pytest.MonkeyPatch, number: int, folder: str
) -> None:
    list_names = os.listdir

    def fail(path: str | Path) -> list[str]:
        if Path(path).name == folder:
            raise OSError(number, os.strerror(number), str(path))
        return list_names(path)

    monkeypatch.setattr(os, "listdir", fail)
    with pytest.raises(StoreError, match=os.strerror(number)):
        Listing(root).runs  # noqa: B018
    problems = ""
    try:
        problems = " ".join(verify(parse_place(root)).problems)
    except StoreError as err:
        problems = str(err)
    assert os.strerror(number) in problems


def test_a_link_to_a_disk_that_is_not_mounted_is_no_empty_folder(root: Path) -> None:
    assert list_folder(root / "none") == []
    (root / "amendments").rename(root / "elsewhere")
    (root / "amendments").symlink_to(root / "not mounted")
    with pytest.raises(StoreError, match="amendments"):
        Listing(root).runs  # noqa: B018


def test_a_journal_whose_parts_cannot_be_listed_is_not_continued(root: Path) -> None:
    journal = root / ".fleet/journal/r20260103T000000Z-00000003"
    journal.chmod(0o311)
    with obeying_permissions(), pytest.raises(StoreError, match="Permission denied"):
        Store(root).reopen_journal(journal.name)
