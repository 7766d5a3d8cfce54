"""Results in an object store: a real S3 server on loopback, killed, restarted, and
written to at once.
"""

import itertools
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from fleet.analysis.reduce import (
    history,
    load_cpus,
    load_pairs,
    load_runs,
    load_samples,
)
from fleet.errors import StoreError
from fleet.model import Burst, Run, RunState
from fleet.store import Listing, Store, new_run_id
from fleet.store.places import parse_place
from fleet.store.verify import verify
from tests import builders
from tests.command import ROOT as CHECKOUT
from tests.command import Fleet, journal_lines, wait_for
from tests.hosts.markers import accept_folder_markers
from tests.hosts.proxy import FaultProxy, Faults
from tests.hosts.s3 import BUCKET, KEY, SECRET, ObjectStore
from tests.planting import home

pytestmark = pytest.mark.slow
ROOT = f"s3://{BUCKET}/team/lab"


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    """The server, and a process whose environment names it and keeps journals in
    `tmp_path`.
    """
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    with ObjectStore(tmp_path / "buckets") as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        yield server


@pytest.fixture
def store(server: ObjectStore) -> Store:
    return Store(ROOT)


def read_bursts(store: Store) -> pd.DataFrame:
    """Read every burst as a stranger's pandas does; each must be there once."""
    frame = pd.read_parquet(
        store.place.path("samples"), filesystem=store.place.filesystem
    )
    assert not frame.duplicated(
        ["run_id", "benchmark", "variant", "round", "ping_cpu", "pong_cpu"]
    ).any()
    return frame


def test_plain_pandas_reads_the_samples_as_the_page_says(
    store: Store, server: ObjectStore
) -> None:
    """The block of docs/scale.md."""
    run = builders.a_run()
    store.publish(run, builders.make_bursts(run))
    page = (CHECKOUT / "docs/scale.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    names: dict[str, Any] = {}
    code = code.replace("bucket/prefix", ROOT.removeprefix("s3://"))
    address = f'endpoint_override="127.0.0.1:{server.port}", scheme="http"'
    exec(code.replace('region="eu-central-1"', address), names)
    assert len(names["samples"]) == len(read_bursts(store)) > 0


def begin_journal(store: Store, run: Run) -> list[Burst]:
    bursts = list(builders.make_bursts(run))
    with store.new_journal(run) as journal:
        journal.append(b"arrived")
    return bursts


def test_a_run_is_three_objects_and_its_journal_stays_here(
    store: Store, server: ObjectStore
) -> None:
    store.require_writable()
    run = builders.a_run()
    bursts = begin_journal(store, run)
    assert [left.state for left in Listing(store.place).list_with_unfinished()] == [
        RunState.UNFINISHED
    ]
    assert server.objects() == []
    name = store.publish(run, bursts)
    assert server.objects() == [
        f"team/lab/cpus/{run.run_id}.parquet",
        f"team/lab/runs/{run.run_id}.parquet",
        f"team/lab/{name}",
    ]
    assert [
        summary.bursts for summary in Listing(store.place).list_with_unfinished()
    ] == [3]
    assert {tuple(ticks) for ticks in read_bursts(store)["ticks"]} == {
        burst.ticks for burst in bursts
    }
    assert (len(load_samples(ROOT)), len(load_runs(ROOT)), len(load_cpus(ROOT))) == (
        3,
        1,
        2,
    )
    assert list((store.state_dir / "journal").iterdir()) == []


def test_pairs_are_derived_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    run = builders.a_run(builders.small_desktop())
    store.publish(run, builders.make_bursts(run))
    first = load_pairs(ROOT)
    monkeypatch.setattr(home(load_pairs), "derive_pairs", None)
    pd.testing.assert_frame_equal(load_pairs(ROOT), first)
    assert list(history(ROOT, relation="smt")["pairs"]) == [4]


def test_publishing_twice_changes_nothing_and_other_samples_are_refused(
    store: Store, server: ObjectStore
) -> None:
    run = builders.a_run()
    store.publish(run, builders.make_bursts(run))
    before = read_bursts(store)
    store.publish(run, builders.make_bursts(run))
    begin_journal(store, run)
    with pytest.raises(StoreError, match="other samples"):
        store.publish(run, builders.make_bursts(run, seed=8))
    pd.testing.assert_frame_equal(read_bursts(store), before)
    assert journal_lines(store.state_dir / "journal" / run.run_id / "stream.jsonl") == [
        b"arrived"
    ]


def test_a_server_killed_between_two_objects_leaves_a_run_that_publishing_again_completes(
    store: Store, server: ObjectStore
) -> None:
    run = builders.a_run()
    bursts = begin_journal(store, run)
    put = store.place.put
    names = []

    def put_and_die(draft: Path, name: str) -> bool:
        put(draft, name)
        names.append(name)
        server.stop()
        return True

    store.place.put = put_and_die  # type: ignore[method-assign]
    with pytest.raises(
        StoreError, match=r"cannot publish the run.*kept in the journal"
    ) as caught:
        store.publish(run, bursts)
    store.place.put = put  # type: ignore[method-assign]
    assert SECRET not in str(caught.value)
    assert KEY not in str(caught.value)
    server.start()
    assert server.objects() == [f"team/lab/{names[0]}"]
    assert [
        summary.state for summary in Listing(store.place).list_with_unfinished()
    ] == [RunState.COMPLETE], "the samples are in place"
    store.publish(run, bursts)
    assert len(read_bursts(store)) == 3
    assert [
        summary.state for summary in Listing(store.place).list_with_unfinished()
    ] == [RunState.COMPLETE]


def test_an_upload_cut_in_the_middle_shows_nothing(
    server: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draft = tmp_path / "draft"
    name = "samples/host_id=a/run_id=r1/samples.parquet"
    content = os.urandom(24 << 20)
    draft.write_bytes(content)
    direct = parse_place(ROOT)
    assert direct.files("*") == []
    with FaultProxy(
        ("127.0.0.1", server.port), Faults(freeze_up_after=2 << 20)
    ) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{proxy.port}")
        place = parse_place(ROOT)
        errors = []

        def upload() -> None:
            try:
                place.put(draft, name)
            except OSError as err:
                errors.append(err)

        uploading = threading.Thread(target=upload, daemon=True)
        uploading.start()
        wait_for(proxy._frozen.is_set)
        assert direct.stamp(name) is None
        proxy.faults = Faults(hang_up=True)
        server.stop()
        proxy.cut()
        uploading.join(60)
    assert errors
    server.start()
    assert direct.stamp(name) is None
    assert draft.read_bytes() == content
    assert direct.put(draft, name)
    with direct.filesystem.open_input_file(direct.path(name)) as stream:
        assert stream.read() == content


PUBLISHER = """
import sys
from dataclasses import replace
from fleet.model import Host
from fleet.store import Store
from tests import builders
for run_id in sys.argv[2:]:
    run = builders.a_run(run_id=run_id, host=Host("host-" + run_id[-2:], "192.0.2.1"))
    Store(sys.argv[1]).publish(run, builders.make_bursts(run))
"""


def test_controllers_publish_into_one_root_at_once_and_readers_see_whole_runs(
    store: Store,
) -> None:
    """Three controllers with runs of their own, all three also with the same two
    runs.
    """
    shared = [new_run_id() for _ in range(2)]
    own = [[new_run_id() for _ in range(4)] for _ in range(3)]
    controllers = [
        subprocess.Popen(
            [sys.executable, "-c", PUBLISHER, ROOT, *shared, *runs],
            env={
                **os.environ,
                "XDG_STATE_HOME": str(store.state_dir / f"controller-{number}"),
            },
            stderr=subprocess.PIPE,
        )
        for number, runs in enumerate(own)
    ]
    while any(controller.poll() is None for controller in controllers):
        listed = {summary.run_id for summary in store.list_runs()}
        if listed:
            per_run = read_bursts(store).groupby("run_id", observed=True).size()
            assert listed <= set(per_run.index)
            assert set(per_run) == {3}
    for controller in controllers:
        errors = controller.communicate()[1].decode()
        assert not errors, errors
        assert controller.returncode == 0
    assert {summary.run_id for summary in store.list_runs()} == {
        *shared,
        *itertools.chain(*own),
    }
    assert len(read_bursts(store)) == 3 * 14


UNUSABLE = {
    "bucket": "no bucket 'nowhere'",
    "secret": "AWS_PROFILE",
    "server": "NETWORK_CONNECTION",
}


@pytest.mark.parametrize(("spoilt", "words"), UNUSABLE.items())
def test_a_store_that_cannot_be_used_is_said_before_anything_is_measured(
    spoilt: str, words: str, server: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = "s3://nowhere/lab" if spoilt == "bucket" else ROOT
    if spoilt == "secret":
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    if spoilt == "server":
        server.stop()
    with pytest.raises(
        StoreError, match=rf"s3://.*cannot store results there.*{words}"
    ) as caught:
        Store(root).require_writable()
    assert SECRET not in str(caught.value)
    assert KEY not in str(caught.value)


def test_the_commands_work_on_an_object_store(
    server: ObjectStore, tmp_path: Path
) -> None:
    folder = tmp_path / "here"
    folder.mkdir()
    with Fleet(folder, environment=server.environment) as fleet:
        fleet.inventory("hosts: {here: {via: local}}\n")
        done = fleet(
            "run",
            "-b",
            "clock",
            "--rounds",
            "2",
            "--plan",
            "spread_s=0",
            "-q",
            "-r",
            ROOT,
        )
        assert done.exit_code == 0, done.stderr
        listed = fleet("runs", "-r", ROOT, "--json").json
        assert [run["host_name"] for run in listed] == ["here"]
        matrix = fleet("show", "here", "-r", ROOT)
        assert matrix.exit_code == 0, matrix.stderr
        assert "clock" in matrix.stdout
        plain = fleet("show", "here", "-r", f"s3://{KEY}:{SECRET}@{BUCKET}/team/lab")
        assert plain.exit_code == 2
        for text in (done, matrix, plain):
            assert SECRET not in text.stdout + text.stderr
    assert not (folder / "results").exists()
    assert not (folder / "s3:").exists()


def test_old_runs_are_removed_from_an_object_store_whole_and_only_these(
    store: Store, server: ObjectStore, tmp_path: Path
) -> None:
    ids = []
    for number in range(11):
        run = builders.a_run(run_id=f"r20260102T030405Z-{number:08x}")
        store.publish(run, builders.make_bursts(run))
        ids.append(run.run_id)
    before = server.objects()
    folder = tmp_path / "here"
    folder.mkdir()
    words = ("prune", "--older", "1d", "-r", ROOT)
    with accept_folder_markers(server.port) as port:
        endpoint = {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}"}
        with Fleet(folder, environment=server.environment | endpoint) as fleet:
            listed = fleet(*words, "--dry-run")
            assert "Would remove 2 runs from before " in listed.stdout, listed
            assert server.objects() == before
            done = fleet(*words)
            assert done.exit_code == 0, done.stderr
            again = fleet(*words)
    # the first eight are the baseline, and the last run stays
    gone = ids[8:-1]
    left = server.objects()
    assert [run.run_id for run in Store(ROOT).list_runs()] == [*ids[:8], ids[-1]]
    assert not [name for name in left if any(run_id in name for run_id in gone)]
    assert {*left} < {*before}
    assert verify(parse_place(ROOT)).problems == ()
    assert len(read_bursts(store)) == 9 * 3
    assert again.stdout.startswith("Removed 0 runs from before ")


def test_a_removed_object_is_gone_though_its_folder_cannot_be_made(
    store: Store, server: ObjectStore
) -> None:
    run = builders.a_run()
    name = store.publish(run, builders.make_bursts(run))
    store.place.remove(name)
    assert not [key for key in server.objects() if key.endswith(name)]
    with pytest.raises(FileNotFoundError):
        store.place.remove(name)


def test_a_run_whose_store_died_meanwhile_is_published_by_resuming(
    server: ObjectStore, tmp_path: Path
) -> None:
    folder = tmp_path / "here"
    state = tmp_path / "state"
    folder.mkdir()
    with Fleet(folder, {**server.environment, "XDG_STATE_HOME": str(state)}) as fleet:
        fleet.inventory("hosts: {here: {via: local}}\n")
        session = fleet.start(
            "run",
            "-b",
            "clock",
            "--rounds",
            "5",
            "--plan",
            "spread_s=1",
            "-q",
            "-r",
            ROOT,
        )
        wait_for(lambda: list(state.glob("fleet/*/journal/r*/stream.jsonl")))
        server.stop()
        out, err = session.communicate()
        assert session.returncode == 11, err
        assert "Traceback" not in err, err
        assert "cannot publish the run" in out
        assert "kept in the journal" in out
        server.start()
        assert [run["state"] for run in fleet("runs", "-r", ROOT, "--json").json] == [
            "unfinished"
        ]
        done = fleet("resume", "-q", "-r", ROOT)
        assert done.exit_code == 0, done.stderr
        assert [run["state"] for run in fleet("runs", "-r", ROOT, "--json").json] == [
            "complete"
        ]
