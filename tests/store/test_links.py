"""A link that another user put below a shared root is never written through."""

import contextlib
import os
from pathlib import Path

import pytest

from fleet.errors import FleetError
from fleet.model import Host
from fleet.session import events
from fleet.session.log import SessionLog
from fleet.store import Intent, Store
from tests import builders

SESSION = "s20260102T030400Z-00000001"
RUN = builders.a_run().run_id


def use_everything(root: Path) -> None:
    """Do what a session does: note, journal, log, publish, amend; a refusal by one does not keep the next."""
    store, run = Store(root), builders.a_run()
    log = SessionLog(store.state_dir / "logs" / SESSION, lambda _: None)
    with contextlib.suppress(FleetError), store.under_way(Intent(SESSION, ("b1",))):
        pass
    with contextlib.suppress(FleetError), store.reopen(RUN) as journal:
        journal.append(b"arrived")
    with contextlib.suppress(FleetError):
        log(events.NoteAdded(Host("b1", "192.0.2.1"), "a line"))
    for work in (
        lambda: store.publish(run, builders.bursts_of(run)),
        lambda: store.label([RUN], {"a": "b"}),
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
    root, victim = tmp_path / "results", tmp_path / "victim"
    victim.write_text("precious")
    Store(root).journal(builders.a_run()).close()
    link = root / name.replace("PID", str(os.getpid()))
    link.parent.mkdir(parents=True, exist_ok=True)
    link.unlink(missing_ok=True)
    link.symlink_to(victim)
    use_everything(root)
    assert victim.read_text() == "precious"
