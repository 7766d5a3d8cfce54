"""One run over as many connections as it takes: real agents on this machine, behind a
link that breaks.
"""

import fcntl
import itertools
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from fleet.console.summary import render_outcomes
from fleet.errors import AgentError, LinkError, LockedError, UsageError
from fleet.model import Cpu, Host, LockPolicy, Plan, RequestedOptions, RunState, Via
from fleet.remote import output
from fleet.remote.command import CommandConnection
from fleet.session import link, measurement, resume, runner
from fleet.session.context import DEFAULT_PARALLEL, SessionContext
from fleet.session.events import Event, Outcome, StageEntered, State, ignore
from fleet.session.measurement import require_same_machine
from fleet.store import Intent, Store
from tests import builders, needs
from tests.agent.wire import test_conversation
from tests.agent.wire.test_conversation import BURST, END, line
from tests.shared import agents_cache, local_connection

HERE = Host("here", "localhost", Via.LOCAL)
ASKED = Plan(benchmarks=("cas",))
HELLO = test_conversation.HELLO | {"cpus": [0, 3], "pairs": 1, "seed": ASKED.seed}
ROUNDS = 40
SHORT = RequestedOptions(
    benchmarks=("clock",), rounds=ROUNDS, samples=9, iterations=100, spread_s=0.0
)


class Breaking(CommandConnection):
    """A connection that breaks after so many bursts of each agent. breaks: of the first
    agents.
    """

    breaks: list[int]

    def stream(self, command: str, **limits: Any) -> Any:
        stream = super().stream(command, **limits)
        if "stdin" in limits:  # a build
            return stream
        return _Cut(stream, self.breaks.pop(0) if self.breaks else None)


class _Cut:
    def __init__(self, stream: Any, after: int | None) -> None:
        self._stream, self._after = stream, after

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def __enter__(self) -> "_Cut":
        self._stream.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._stream.__exit__(*error)

    def __iter__(self) -> Iterator[bytes]:
        bursts = 0
        for data in self._stream:
            yield data
            bursts += data.startswith(b'{"record":"burst"')
            if bursts == self._after:
                raise LinkError("here: the link broke.")


@pytest.fixture
def context(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., SessionContext]:
    """Return a maker of sessions; `breaks` is for Breaking, the other arguments for
    SessionContext.
    """
    needs.program("cc", "gcc")
    monkeypatch.setenv("XDG_CACHE_HOME", str(agents_cache()))
    monkeypatch.setenv("FLEET_AGENT_LOCK", str(tmp_path / "agent.lock"))
    monkeypatch.setattr(link, "FIRST_PAUSE_S", 0.01)

    def make(breaks: tuple[int, ...] = (), **arguments: Any) -> SessionContext:
        left = list(breaks)

        def connect(host: Host) -> Breaking:
            connection = local_connection(host, Breaking)
            connection.breaks = left
            return connection

        usual = {
            "session_id": "s1",
            "store": Store(tmp_path / "results"),
            "requested": SHORT,
            "emit": ignore,
        }
        return SessionContext(**{"connect": connect, **usual, **arguments})

    return make


def visits(store: Store) -> Counter[tuple[int, int]]:
    rows = pd.read_parquet(store.place.root / "samples")
    return Counter(zip(rows["round"], rows["ping_cpu"], strict=True))


def run_once(context: SessionContext, host: Host = HERE) -> Outcome:
    (outcome,) = runner.run_session([host], context)
    return outcome


def require_remaining(store: Store, session: str | None = None) -> resume.Remaining:
    """Return what remains of a session, by default of the most recent one."""
    remaining = resume.find_remaining(store, session)
    assert remaining is not None
    return remaining


def finish(session: SessionContext, hosts: list[Host]) -> Outcome:
    """Resume the only host of the most recent session."""
    remaining = require_remaining(session.store)
    (outcome,) = resume.resume_session(remaining, hosts, session)
    return outcome


def stored_run(store: Store) -> dict[str, Any]:
    (row,) = pd.read_parquet(store.place.root / "runs").to_dict("records")
    return row


def publish_partial(session: SessionContext, session_id: str | None = None) -> Outcome:
    """Publish the only journal of a session, by default the most recent, as it is."""
    remaining = require_remaining(session.store, session_id)
    hosts = resume.hosts_to_resume(remaining, {}, partial=True)
    (outcome,) = resume.resume_session(remaining, hosts, session, partial=True)
    return outcome


def require_complete(outcome: Outcome) -> None:
    assert outcome.state == State.COMPLETE
    assert outcome.message == ""


def every_visit() -> Counter[tuple[int, int]]:
    cpus = os.sched_getaffinity(0)
    return Counter(itertools.product(range(ROUNDS), cpus))


@pytest.mark.long
def test_a_run_on_one_link_is_in_one_part(context) -> None:
    session = context()
    require_complete(run_once(session))
    assert visits(session.store) == every_visit()
    assert session.store.read_idle_intents() == []
    assert session.store.read_begun_runs() == []
    row = stored_run(session.store)
    assert not any("parts" in note for note in row["notes"])
    assert row["load_1m_after"] >= 0


@pytest.mark.parametrize("breaks", [(), (5, 7)])
@pytest.mark.parametrize("fits", [True, False])
def test_a_run_is_published_without_decoding_it_again_unless_it_is_too_large_for_memory(
    context, breaks: tuple[int, ...], fits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if fits:
        monkeypatch.delattr(measurement, "decode_bursts")
    else:
        monkeypatch.setattr(measurement, "KEPT_BYTES", 1000 * DEFAULT_PARALLEL)
    session = context(breaks=breaks)
    require_complete(run_once(session))
    assert visits(session.store) == every_visit()


def test_a_link_that_breaks_is_reconnected_and_nothing_is_measured_twice(
    context,
) -> None:
    session = context(breaks=(5, 7, 1))
    outcome = run_once(session)
    require_complete(outcome)
    assert outcome.bursts == len(every_visit())
    assert visits(session.store) == every_visit()
    row = stored_run(session.store)
    assert "Measured in 4 parts: the run was interrupted and continued." in row["notes"]
    assert "here: the link broke. Reconnecting." in row["notes"]
    assert row["state"] == "complete"
    assert row["load_1m_after"] >= 0


def test_a_link_that_stays_broken_is_given_up_once_nothing_arrives_any_more(
    context,
) -> None:
    session = context(breaks=(5, *[0] * 99), reconnect_s=0.0)
    outcome = run_once(session)
    assert outcome.state == State.FAILED
    assert outcome.stage == "link"
    assert outcome.message.startswith(
        "here: the link broke. 5 bursts are kept in the journal of r"
    )
    (run,) = session.store.read_begun_runs()
    remaining = require_remaining(session.store)
    assert remaining.runs == (run,)
    assert remaining.hosts == ()
    assert remaining.names == ["here"]
    resumed = finish(context(), [HERE])
    assert resumed.state == State.COMPLETE
    assert resumed.run_id == run.run_id
    assert visits(session.store) == every_visit()
    assert resume.find_remaining(session.store, None) is None


def test_a_host_that_sends_what_no_agent_does_is_not_asked_again(
    context, monkeypatch
) -> None:
    monkeypatch.setattr(output, "LINE_LIMIT_BYTES", 100)  # shorter than a hello
    outcome = run_once(context())
    assert outcome.state == State.FAILED
    assert outcome.stage == "link"
    assert "a line longer than" in outcome.message
    assert not [note for note in outcome.notes if "Reconnecting" in note]


@pytest.mark.parametrize("after", [5, 0])
def test_a_plan_refused_after_a_lost_link_costs_no_burst(context, after: int) -> None:
    """A host that lets us use fewer CPUs once we are back refuses the plan it accepted
    before.
    """

    session = context(
        connect=changing(" --until-eof", " --until-eof --cpus=1023", after)
    )
    outcome = run_once(session)
    assert outcome.state == State.FAILED
    assert outcome.stage == "measure"
    assert "1023" in outcome.message
    if not after:
        assert outcome.given_up is True
        assert outcome.run_id is None
        assert session.store.read_begun_runs() == []
        return
    assert (
        "--publish-partial` stores what was measured. 5 bursts are kept in"
        in outcome.message
    )
    assert len(session.store.read_begun_runs()) == 1
    require_complete(finish(context(), [HERE]))
    assert visits(session.store) == every_visit()


def changing(old: str, new: str, *breaks: int) -> Callable[[Host], Breaking]:
    """Connect to this machine, where the agent's command has other words after the
    breaks.
    """
    left = list(breaks)

    class Changing(Breaking):
        def stream(self, command: str, **limits: Any) -> Any:
            if not self.breaks:
                command = command.replace(old, new)
            return super().stream(command, **limits)

    def connect(host: Host) -> Changing:
        connection = local_connection(host, Changing)
        connection.breaks = left
        return connection

    return connect


def test_an_agent_that_fails_after_its_end_record_leaves_a_run_to_resume(
    context,
) -> None:
    session = context(connect=changing("\nexit $code", "\nexit 3"))
    outcome = run_once(session)
    assert outcome.state == State.FAILED
    assert outcome.stage == "measure"
    assert "the run is not complete: ended early (exit code 3)" in outcome.message
    require_complete(finish(context(), [HERE]))
    assert visits(session.store) == every_visit()


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (
            "--benchmark=clock",
            "--benchmark=cas",
            "it measures cas, but was asked for clock",
        ),
        ("--seed=", "--seed=7", "its seed is 7"),
    ],
)
def test_an_agent_that_answers_another_plan_is_named(
    context, old: str, new: str, words: str
) -> None:
    needs.cpus(2)
    outcome = run_once(context(connect=changing(old, new)))
    assert outcome.state == State.FAILED
    assert outcome.stage == "measure"
    assert words in outcome.message


def test_what_was_measured_of_an_interrupted_run_can_be_stored_alone(context) -> None:
    session = context(breaks=(5,), reconnect_s=0.0)
    run_once(session)
    stored = publish_partial(context(connect=None))
    assert stored.state == State.PARTIAL
    assert stored.bursts == 5
    assert sum(visits(session.store).values()) == 5
    assert stored_run(session.store)["state"] == RunState.PARTIAL
    assert resume.find_remaining(session.store, None) is None


@pytest.mark.parametrize(
    ("own", "of_session", "state"),
    [
        (LockPolicy.REFUSE, None, State.FAILED),
        (LockPolicy.OFF, None, State.COMPLETE),
        (LockPolicy.REFUSE, LockPolicy.OFF, State.COMPLETE),
        (LockPolicy.OFF, LockPolicy.REFUSE, State.FAILED),
    ],
)
def test_a_machine_another_controller_measures_is_refused_unless_locks_are_off(
    context,
    tmp_path: Path,
    own: LockPolicy,
    of_session: LockPolicy | None,
    state: State,
) -> None:
    """The policy of the session wins over that of the host's entry."""
    with hold_lock(tmp_path / "agent.lock"):
        outcome = run_once(context(lock=of_session), replace(HERE, lock=own))
    assert outcome.state is state
    if state is State.FAILED:
        assert outcome.exit_code == LockedError.exit_code
        assert "`--lock wait` waits" in outcome.message


def test_a_controller_that_waits_measures_once_the_other_is_done(
    context, tmp_path: Path
) -> None:
    with hold_lock(tmp_path / "agent.lock") as unlock:
        stages: list[str] = []

        def emit(event: Event) -> None:
            if isinstance(event, StageEntered):
                stages.append(event.stage)
                if event.stage == "wait":
                    unlock()

        outcome = run_once(context(lock=LockPolicy.WAIT, emit=emit))
    require_complete(outcome)
    assert stages[-4:] == ["measure", "wait", "measure", "store"]
    naming_holder = [note for note in outcome.notes if "somebody@elsewhere" in note]
    assert len(naming_holder) == 1


def test_a_host_that_is_always_measured_is_not_waited_for_without_end(
    context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measurement, "LOCK_WAIT_S", 0.0)
    with hold_lock(tmp_path / "agent.lock"):
        outcome = run_once(context(lock=LockPolicy.WAIT))
    assert outcome.exit_code == LockedError.exit_code
    assert "somebody@elsewhere" in outcome.message
    assert "waited under 1 s for its end. See what holds the lock" in outcome.message


@contextmanager
def hold_lock(path: Path) -> Iterator[Callable[[], None]]:
    """Hold the lock of an agent as another controller's agent does."""
    with path.open("w") as file:
        file.write(f"{os.getpid()} r9 somebody@elsewhere\n")
        file.flush()
        fcntl.lockf(file, fcntl.LOCK_EX)
        yield lambda: fcntl.lockf(file, fcntl.LOCK_UN)


# A host that is not what it was


@pytest.mark.parametrize(
    ("facts", "agent", "words"),
    [
        ({}, {}, None),
        ({"machine_id": "2"}, {}, "the host is another machine (by its machine id)."),
        ({"boot_id": "2"}, {}, "the host has been rebooted."),
        ({}, {"build": "2"}, "the host would now get another build of the agent."),
    ],
)
def test_a_run_continues_only_on_the_same_machine_boot_and_agent(
    facts: Any, agent: Any, words: str | None
) -> None:
    run = builders.a_run()
    run = replace(run, facts=replace(run.facts, machine_id="1", boot_id="1"))
    facts_now = replace(run.facts, **facts)
    agent_now = replace(run.agent, **agent)
    if words is None:
        require_same_machine(run, facts_now, agent_now)
        return
    text = (
        f"rpi5: cannot continue {run.run_id}: {words} `fleet resume --publish-partial`"
    )
    with pytest.raises(AgentError, match=re.escape(text)):
        require_same_machine(run, facts_now, agent_now)


# What remains of sessions


def begin(
    store: Store,
    session: str,
    *hosts: str,
    journals: tuple[str, ...] = (),
    lines: tuple[bytes, ...] = (),
) -> None:
    """A session interrupted with journals of some of its hosts."""
    with store.hold_session(Intent(session, hosts)):
        for number, name in enumerate(journals):
            cpus = (Cpu(0), Cpu(3))
            host = Host(name, "192.0.2.1")
            run = builders.a_run(cpus, run_id=f"r{session}{number}", host=host)
            agent = replace(run.agent, build=HELLO["build"])
            run = replace(run, session_id=session, plan=ASKED, agent=agent)
            with store.new_journal(run) as journal:
                for record in lines:
                    journal.append(record)


def find_remaining(store: Store, session: str | None = None) -> tuple[str, list[str]]:
    remaining = require_remaining(store, session)
    return remaining.session_id, remaining.names


def test_the_most_recent_unfinished_session_is_found_with_its_hosts(
    tmp_path: Path,
) -> None:
    store = Store(tmp_path)
    assert resume.find_remaining(store, None) is None
    begin(store, "s2026b", "x", "y", "z", journals=("y",))
    begin(store, "s2026a", "x")
    assert find_remaining(store) == ("s2026b", ["y", "x", "z"])
    assert find_remaining(store, "s2026a") == ("s2026a", ["x"])
    several = "'s2026' is more than one unfinished session. There are: s2026a, s2026b."
    for text, words in (("s2026", several), ("r", "'r' is no unfinished")):
        with pytest.raises(UsageError) as refused:
            resume.find_remaining(store, text)
        assert words in str(refused.value)


def test_a_session_that_runs_is_left_to_its_controller(tmp_path: Path) -> None:
    store = Store(tmp_path)
    running = f"session s2 is still running: process {os.getpid()} on"
    with store.hold_session(Intent("s2", ("x",))):
        with pytest.raises(LockedError, match=running):
            resume.find_remaining(store, None)
        begin(store, "s1", "x")
        assert find_remaining(store) == ("s1", ["x"])
        remaining = require_remaining(store, "s1")
        assert resume.name_other_sessions(store, remaining) == ""


def test_a_root_without_unfinished_sessions_has_none_to_name(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no unfinished session there"):
        resume.find_remaining(Store(tmp_path), "s1")


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (1, ""),
        (2, "s0"),
        (6, "s0, s1, s2, s3, s4"),
        (7, "1 before, s1, s2, s3, s4, s5"),
    ],
)
def test_the_other_unfinished_sessions_are_named(
    tmp_path: Path, count: int, words: str
) -> None:
    store = Store(tmp_path)
    for number in range(count):
        begin(store, f"s{number}", "x")
    expected = ""
    if words:
        name_one = f"Name one: fleet resume s{count - 2}"
        expected = f"Also unfinished: {words}. {name_one}"
    remaining = require_remaining(store)
    assert resume.name_other_sessions(store, remaining) == expected


def store_one_run(folder: Path) -> Store:
    """A root with a run of host x in session s1."""
    store = Store(folder)
    run = replace(builders.a_run(host=Host("x", "192.0.2.1")), session_id="s1")
    store.publish(run, builders.make_bursts(run))
    return store


def test_a_host_of_the_session_that_is_stored_does_not_remain(tmp_path: Path) -> None:
    store = store_one_run(tmp_path)
    begin(store, "s1", "x", "y")
    assert find_remaining(store) == ("s1", ["y"])
    begin(store, "s2", "x")
    assert find_remaining(store) == ("s2", ["x"]), "stored in another session"


def test_a_session_killed_before_its_very_last_step_is_over(tmp_path: Path) -> None:
    store = store_one_run(tmp_path)
    begin(store, "s1", "x")
    assert len(store.read_idle_intents()) == 1
    assert resume.find_remaining(store, None) is None
    assert store.read_idle_intents() == []


def test_a_journal_without_its_sessions_note_is_found_all_the_same(
    tmp_path: Path,
) -> None:
    store = Store(tmp_path)
    begin(store, "s1", "x", journals=("x",))
    store.end_session("s1")
    assert find_remaining(store) == ("s1", ["x"])


def test_hosts_are_those_of_the_inventory_now(tmp_path: Path) -> None:
    store = Store(tmp_path)
    begin(store, "s1", "x", "y", "z", journals=("y",))
    remaining = require_remaining(store)
    now = {name: Host(name, "198.51.100.1") for name in ("x", "y", "z", "w")}
    assert resume.hosts_to_resume(remaining, now) == [now["y"], now["x"], now["z"]]
    (host,) = resume.hosts_to_resume(remaining, now, partial=True)
    assert host.address == "192.0.2.1"
    lacking = "the inventory no longer has y, z, unfinished in session s1"
    with pytest.raises(UsageError, match=lacking):
        resume.hosts_to_resume(remaining, {"x": now["x"]})


def test_publishing_what_there_is_drops_what_never_began(
    tmp_path: Path, context
) -> None:
    session = context(connect=None)
    lines = (line(HELLO), line(BURST))
    begin(session.store, "s1", "x", "y", "z", journals=("x",), lines=lines)
    begin(session.store, "s2", "w")
    outcome = publish_partial(session, "s1")
    assert outcome.host.name == "x"
    assert outcome.state == State.PARTIAL
    assert outcome.bursts == 1
    assert find_remaining(session.store) == ("s2", ["w"])


def test_a_journal_into_which_nothing_came_is_removed(context) -> None:
    session = context(connect=None)
    begin(session.store, "s1", "x", journals=("x",), lines=(b"Welcome",))
    outcome = publish_partial(session)
    assert outcome.state == State.FAILED
    assert outcome.exit_code == UsageError.exit_code
    assert "nothing of rs10 had arrived; its journal is removed" in outcome.message
    assert "fleet resume" not in render_outcomes([outcome], 1.0), (
        "there is nothing left to resume"
    )
    assert session.store.read_begun_runs() == []
    assert resume.find_remaining(session.store, None) is None


def test_a_whole_journal_is_stored_without_connecting(context) -> None:
    session = context(connect=None)
    lines = (line(HELLO), line(BURST), line(BURST, round=1), line(END))
    begin(session.store, "s1", "x", journals=("x",), lines=lines)
    outcome = finish(session, [Host("x", "192.0.2.1"), Host("other", "192.0.2.2")])
    assert outcome.state == State.COMPLETE
    assert outcome.bursts == 2
    assert outcome.run_id == "rs10"
    assert session.store.read_idle_intents() == []


def test_a_damaged_journal_is_read_up_to_the_damage(context) -> None:
    session = context(connect=None)
    lines = (line(HELLO), b"words", b"{garbage", b"more")
    begin(session.store, "s1", "x", journals=("x",), lines=lines)
    outcome = publish_partial(session)
    assert outcome.run_id == "rs10"
    assert any(
        "The journal of rs10 is damaged: " in note and "2 lines are refused" in note
        for note in outcome.notes
    )
    assert session.store.read_idle_intents() == []


BURSTS = [line(BURST, round=visit) for visit in range(8)]
NOISE = {
    "blank": b"",
    "NULs": b"\0" * 4096,
    "words of a login script": b"You have new mail in /var/mail/root",
    "an escape sequence": b"\x1b[2J\x1b]0;title\x07",
    "another JSON value": b"[1, 2]",
}
BAD = {
    "torn": BURSTS[4][:60],
    "two records in one": BURSTS[4] + BURSTS[5],
    "an unknown record": b'{"record":"burts"}',
    "a flipped bit in a key": BURSTS[4].replace(b'"ticks"', b'"tickr"'),
    "a flipped bit in the round": line(BURST, round=6),
    "the same visit twice": BURSTS[3],
    "a visit left out": BURSTS[5],
    "hello again": line(HELLO),
    "an early end": line(END, bursts=4),
    "no UTF-8 in a record": BURSTS[4].replace(b"cmpxchg", b"cmp\xffchg"),
}


@pytest.mark.parametrize(
    ("extra", "count"),
    [
        *((extra, 8) for extra in NOISE.values()),
        *((extra, 4) for extra in BAD.values()),
    ],
    ids=[*NOISE, *BAD],
)
def test_every_good_burst_before_a_bad_line_is_published(
    extra: bytes, count: int, context
) -> None:
    """The extra line comes after four bursts: noise costs none of the eight, a bad line
    those behind it.
    """
    session = context(connect=None)
    rest = BURSTS[4:] if count == 8 else BURSTS[5:]
    lines = (line(HELLO, bursts=8), *BURSTS[:4], extra, *rest)
    begin(session.store, "s1", "x", journals=("x",), lines=lines)
    outcome = publish_partial(session)
    assert outcome.state == State.PARTIAL
    assert outcome.bursts == count
    samples = pd.read_parquet(session.store.place.root / "samples")
    assert sorted(samples["round"]) == list(range(count))
    is_damaged = any("is damaged" in note for note in outcome.notes)
    assert is_damaged == (count < 8)
