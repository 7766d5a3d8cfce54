"""One flipped bit in any file of results: what is read is what was written, or the file is
named.
"""

import os
import random
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from fleet.agent.wire.parts import decode_bursts, read_run
from fleet.analysis import load_counters, load_samples
from fleet.analysis.exchange import load_imports
from fleet.errors import FleetError, StoreWarning
from fleet.model import Burst
from fleet.store import Intent, Store
from fleet.store.places import parse_place
from fleet.store.runs import read_journal_run
from fleet.store.verify import verify
from fleet.store.writing import write_summary
from tests import builders
from tests.agent.wire.test_conversation import BURST, END, HELLO, line
from tests.store.test_counters import a_burst, a_run
from tests.store.test_links import SUMMARY

FLIPS = int(os.environ.get("FLEET_FLIPS", "100"))
BURSTS = 40
PLAN = {**HELLO, "bursts": BURSTS}


@dataclass(frozen=True)
class Case:
    """A file, and how what is read of it is compared.

    wrong: whether that differs and nobody says so. root: where `fleet verify` must name
    every flip; None for what it does not read.
    """

    file: Path
    wrong: Callable[[], bool]
    root: Path | None = None


def frames(read: Callable[[], pd.DataFrame]) -> Callable[[], bool]:
    """Check whether a frame differs from the first one, though it is read without an
    error or a warning.
    """
    before = read()

    def wrong() -> bool:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                frame = read()
            except FleetError:
                return False
        named = any(isinstance(warning.message, StoreWarning) for warning in caught)
        return not (named or frame.equals(before))

    return wrong


def unless_verified(root: Path, wrong: Callable[[], bool]) -> Callable[[], bool]:
    """Check as a reader without fleet does, who notices only what `fleet verify`
    names.
    """

    def differs_unnoticed() -> bool:
        try:
            differs = wrong()
        except Exception:  # what pandas raises for a file that it cannot read
            return False
        return differs and not verify(parse_place(root)).problems

    return differs_unnoticed


def publish_two_runs(root: Path) -> Store:
    store = Store(root)
    run = replace(a_run(), facts=replace(a_run().facts, cpus=builders.small_desktop()))
    store.publish(
        run, [a_burst(round=visit, start_offset_ns=visit) for visit in range(40)]
    )
    other = builders.a_run(
        builders.small_desktop(), run_id="r20260103T030405Z-0badcafe"
    )
    store.publish(other, builders.make_bursts(other))
    return store


def first(root: Path, pattern: str) -> Path:
    return min(root.glob(pattern))


def samples(root: Path) -> Case:
    publish_two_runs(root)
    return Case(
        first(root, "samples/host_id=*/*/samples.parquet"),
        frames(lambda: load_samples(root)),
        root,
    )


def table(name: str) -> Callable[[Path], Case]:
    def case(root: Path) -> Case:
        publish_two_runs(root)
        file = first(root, f"{name}/*.parquet")
        return Case(
            file,
            unless_verified(root, frames(lambda: pd.read_parquet(root / name))),
            root,
        )

    return case


def counters(root: Path) -> Case:
    publish_two_runs(root)
    return Case(
        first(root, "counters/*.parquet"), frames(lambda: load_counters(root)), root
    )


def amendment(root: Path) -> Case:
    store = publish_two_runs(root)
    store.label([a_run().run_id], {"bios": "2.1", "rack": None, "kernel": "6.12-rc3"})
    store.withdraw([a_run().run_id])
    now = lambda: pd.DataFrame(store.list_runs())  # noqa: E731
    chosen = sorted(
        root.glob("amendments/*.json"), key=lambda path: path.stat().st_size
    )
    return Case(chosen[-1], frames(now), root)


def summary(root: Path) -> Case:
    rows = [
        {**SUMMARY, "pong_cpu": pong, "latency_ns": 40.0 + pong / 8}
        for pong in range(64)
    ]
    write_summary(root, "board", rows)
    return Case(
        first(root, "summaries/*.parquet"), frames(lambda: load_imports(root)), root
    )


def stream(root: Path) -> Case:
    with Store(root).new_journal(a_run()) as journal:
        journal.append(b"")
        journal.append(line(PLAN))
        for visit in range(BURSTS):
            journal.append(
                line(BURST, round=visit, ticks=[300_000, 250_000 + visit, 249_000])
            )
        journal.append(line(END, bursts=BURSTS))
    before = read_back(root)
    assert before[0] is None
    assert len(before[2]) == BURSTS

    def wrong() -> bool:
        missing, hello, bursts, notes = read_back(root)
        same = (
            (hello in (None, before[1]))
            and bursts == before[2][: len(bursts)]
            and notes == []
        )
        return not (same and (len(bursts) == BURSTS or missing))

    return Case(first(root, ".fleet/journal/*/stream.jsonl"), wrong)


def read_back(root: Path) -> tuple[str | None, Any, list[Burst], list[Any]]:
    """Return what `fleet resume` reads: what is missing, the hello, bursts, notes and
    failures.
    """
    with Store(root).reopen_journal(a_run().run_id) as journal:
        partial_run = read_run(journal.parts())
        journal.line_limits = partial_run.lines
        bursts = list(decode_bursts(journal.parts()))
        return (
            partial_run.missing,
            partial_run.hello,
            bursts,
            [*partial_run.notes, *partial_run.failed],
        )


def run_json(root: Path) -> Case:
    store = Store(root)
    store.new_journal(a_run()).close()
    file = first(root, ".fleet/journal/*/run.json")
    return Case(
        file, frames(lambda: pd.DataFrame([str(read_journal_run(file.parent))]))
    )


def note(root: Path) -> Case:
    store = Store(root)
    with store.hold_session(
        Intent("s20260102T030400Z-00000001", ("a", "b"), labels={"kernel": "6.12"})
    ):
        pass
    file = first(root, ".fleet/journal/*.json")
    return Case(file, frames(lambda: pd.DataFrame([str(store.read_idle_intents())])))


CASES: dict[str, Callable[[Path], Case]] = {
    "samples": samples,
    "runs": table("runs"),
    "cpus": table("cpus"),
    "counters": counters,
    "amendment": amendment,
    "summary": summary,
    "journal": stream,
    "run.json": run_json,
    "session": note,
}


def flip_bits(file: Path, seed: int) -> Iterator[tuple[int, int]]:
    """Flip one bit after the other, each in the file as it was."""
    content = file.read_bytes()
    chance = random.Random(seed)
    about = file.stat()
    for _ in range(FLIPS):
        position = chance.randrange(len(content))
        bit = chance.randrange(8)
        spoilt = bytearray(content)
        spoilt[position] ^= 1 << bit
        file.write_bytes(spoilt)
        os.utime(file, ns=(about.st_atime_ns, about.st_mtime_ns))
        yield position, bit
        file.write_bytes(content)
        os.utime(file, ns=(about.st_atime_ns, about.st_mtime_ns))


@pytest.mark.slow
@pytest.mark.timeout(60 + FLIPS)
@pytest.mark.parametrize("kind", CASES)
def test_no_flipped_bit_changes_what_is_read_without_a_word(
    tmp_path: Path, kind: str
) -> None:
    case = CASES[kind](tmp_path)
    assert not case.wrong()
    silent = list[tuple[int, int]]()
    unnamed = list[tuple[int, int]]()
    for place in flip_bits(case.file, seed=7):
        if case.root and not verify(parse_place(case.root)).problems:
            unnamed.append(place)
        if case.wrong():
            silent.append(place)
    assert silent == []
    assert unnamed == []
