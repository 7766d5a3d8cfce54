"""A run written to its journal comes back as it was, whatever is in it; and no damage
is taken for a run.
"""

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fleet.model import Facts, Host, RequestedOptions, Run
from fleet.store.rows import RUN, decode, to_json
from fleet.store.store import INTENT, Intent
from tests import builders

ROOT = Path(__file__).parents[2]
SETTINGS = settings(
    max_examples=15, deadline=None, suppress_health_check=list(HealthCheck)
)
TEXT = st.text(max_size=6)
st.register_type_strategy(Mapping, lambda _: st.dictionaries(TEXT, TEXT, max_size=2))
st.register_type_strategy(float, st.floats(allow_nan=False, allow_infinity=False))
st.register_type_strategy(str, TEXT)
JSON = st.none() | st.integers() | TEXT | st.lists(st.integers(), max_size=2)
HOSTS = st.builds(Host, name=st.from_regex(r"[a-z][a-z0-9-]{0,8}", fullmatch=True))


def drop_secrets(run: Run) -> Run:
    return replace(run, host=replace(run.host, env={}))


@SETTINGS
@given(st.data())
def test_every_run_comes_back_from_its_json(data: st.DataObject) -> None:
    run = data.draw(st.builds(Run, host=HOSTS, facts=st.builds(Facts), hello=st.none()))
    assert decode(RUN, json.loads(to_json(run))) == drop_secrets(run)


@SETTINGS
@given(st.builds(Intent, requested=st.builds(RequestedOptions)))
def test_every_intent_of_a_session_comes_back(intent: Intent) -> None:
    assert decode(INTENT, json.loads(to_json(intent))) == intent


def test_a_run_with_its_hello_comes_back() -> None:
    run = builders.a_run()
    assert decode(RUN, json.loads(to_json(run))) == drop_secrets(run)


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (
            ("plan", "rounds"),
            "three",
            r"Run.plan.rounds: expected int \| null, got str",
        ),
        (("plan", "rounds"), True, r"expected int \| null, got bool"),
        (
            ("plan", "pairs"),
            {"which": "some"},
            "Run.plan.pairs.which: invalid enum value 'some'",
        ),
        (
            ("facts", "cpus"),
            [{"cpu": 0}, 1],
            r"Run.facts.cpus\[1\]: expected object, got int",
        ),
        (
            ("plan", "pairs"),
            {"which": "listed", "listed": [[1, 2, 3]]},
            r"Run.plan.pairs.listed\[0\]: expected array of length 2",
        ),
        (("run_id",), None, "Run.run_id: expected str, got null"),
    ],
)
def test_what_does_not_fit_is_named(
    path: tuple[str, ...], value: object, words: str
) -> None:
    fields = json.loads(to_json(builders.a_run()))
    inner = fields
    for name in path[:-1]:
        inner = inner[name]
    inner[path[-1]] = value
    with pytest.raises(ValueError, match=words):
        decode(RUN, fields)


@SETTINGS
@given(st.data())
def test_any_damage_to_one_field_ends_in_a_run_or_the_documented_error(
    data: st.DataObject,
) -> None:
    fields: dict[str, Any] = json.loads(to_json(builders.a_run()))
    fields[data.draw(st.sampled_from(sorted(fields)))] = data.draw(JSON)
    try:
        assert isinstance(decode(RUN, fields), Run)
    except ValueError as err:
        assert str(err).startswith("Run")


def test_threads_may_be_the_first_to_read_together() -> None:
    """A thread that used the half-made type information of msgspec ended with
    SIGSEGV.
    """
    done = subprocess.run(
        [sys.executable, "-c", TOGETHER], cwd=ROOT, capture_output=True, check=False
    )
    assert done.returncode == 0
    assert done.stderr == b""


TOGETHER = """
import importlib
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from fleet.store import gate, rows
from tests import builders

run = builders.a_run()
row, cpus = rows.make_runs_row(run, builders.CONTENTS), rows.make_cpus_rows(run)
record = rows.to_json({"run": row, "cpus": cpus}).encode()
together = Barrier(8)


def read(_):
    together.wait()
    gate.parse_record(record)


sys.setswitchinterval(1e-6)
with ThreadPoolExecutor(8) as pool:
    for _ in range(20):
        importlib.reload(gate)  # whose types nobody has used yet
        list(pool.map(read, range(8)))
"""
