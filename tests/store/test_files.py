"""Files for the user are whole or not there."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleet.errors import StoreError, UsageError
from fleet.store import Store
from fleet.store.files import write_output
from tests import builders
from tests.hosts.odd import small_disk


def test_a_file_is_written_and_never_over_another(tmp_path: Path) -> None:
    path = tmp_path / "inventory.yaml"
    write_output(path, ["one ", b"two"])
    with pytest.raises(UsageError, match="already exists; it was not changed"):
        write_output(path, ["three"])
    assert path.read_text() == "one two"
    write_output(path, ["three"], replace=True)
    assert path.read_text() == "three"


def test_a_full_disk_leaves_no_part_of_a_file(tmp_path: Path) -> None:
    with (
        small_disk(tmp_path / "disk") as disk,
        pytest.raises(StoreError, match="No space left"),
    ):
        try:
            write_output(disk / "inventory.yaml", [b"." * 4096] * 1000)
        finally:
            assert list(disk.iterdir()) == []


def test_a_full_state_directory_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = builders.a_run()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "disk"))
    store = Store("s3://127.0.0.1/lab?endpoint_override=127.0.0.1:9")
    with small_disk(tmp_path / "disk") as disk:
        with (
            pytest.raises(OSError, match="No space"),
            (disk / "rest").open("wb") as rest,
        ):
            rest.write(bytes(1 << 20))
        with pytest.raises(
            StoreError, match=f"Free some space in {disk}/fleet, or set XDG_STATE_HOME"
        ):
            store.publish(run, builders.make_bursts(run))


def test_an_error_of_the_text_leaves_no_part_of_a_file(tmp_path: Path) -> None:
    def pieces() -> Iterator[str]:
        yield "one"
        raise UsageError("no more")

    with pytest.raises(UsageError, match="no more"):
        write_output(tmp_path / "x.csv", pieces())
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_is_not_there_is_the_systems_refusal(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=os.strerror(errno.ENOENT)):
        write_output(tmp_path / "nowhere" / "x", [""])
