"""Every decoder of what a host or a file says takes what it is given, or refuses it in
its own words.
"""

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests import decoders, needs
from tests.decoders import DECODERS
from tests.lies import MANY

ROOT = Path(__file__).parent.parent
SECONDS = 20  # of fuzzing
WORDS = (
    *(
        b"",
        b"\0",
        b"\xff\xfe",
        b"\n",
        b'"',
        b"{",
        b"]",
        b",",
        b"null",
        b"true",
        b"-1",
        b"-0.0",
        b"NaN",
    ),
    *(
        b"9" * 30,
        b"9" * 5000,
        b"[" * 2000,
        b'{"a":' * 2000,
        b'"\\ud800"',
        b"\x1b[2J",
        b"\xe2\x80\xae",
    ),
    *(
        b"2147483648",
        b"9223372036854775808",
        b"0001-01-01T00:00:00+14:00",
        b'"crc32":"00000000"',
        b"1e400",
    ),
)


@pytest.mark.parametrize("name", DECODERS)
def test_a_decoder_takes_what_is_kept_for_it_or_refuses_it(name: str) -> None:
    assert {DECODERS[name].take(data) for data in decoders.corpus(name)} >= {True}
    assert DECODERS[name].take(b"") in (True, False)


@st.composite
def spoilt(draw: st.DrawFn, corpus: list[bytes]) -> bytes:
    """One of the corpus after some accidents."""
    data = bytearray(draw(st.sampled_from(corpus)))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(data)))
        count = draw(st.sampled_from([0, 1, 2, 8, 100]))
        part = draw(
            st.sampled_from(WORDS)
            | st.binary(max_size=4)
            | st.just(bytes(data[start : start + count]) * 2)
        )
        data[start : start + count] = part
    return bytes(data)


@pytest.mark.slow
@pytest.mark.parametrize("name", DECODERS)
@settings(max_examples=MANY, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_a_decoder_takes_whatever_it_is_given_or_refuses_it(
    name: str, data: st.DataObject
) -> None:
    DECODERS[name].take(data.draw(spoilt(decoders.corpus(name))))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_fuzzer_guided_by_coverage_finds_nothing_else(tmp_path: Path) -> None:
    """With atheris (pip install atheris), for SECONDS."""
    needs.python_module("atheris", "atheris")
    decoders.begin(corpus := tmp_path / "corpus")
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            FUZZER,
            f"-artifact_prefix={tmp_path}/",
            f"-max_total_time={SECONDS}",
            corpus,
        ],
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]


FUZZER = """
import sys

import atheris

with atheris.instrument_imports(include=["fleet"]):
    from tests import decoders

atheris.Setup(sys.argv, decoders.one)
atheris.Fuzz()
"""
