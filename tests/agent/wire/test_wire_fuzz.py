"""The wire's reader against whatever a broken or hostile host may send: a documented
end, in bounded memory.

Valid conversations are generated, then cut, repeated, reordered and corrupted; long
hostile streams are weighed. `tests/test_decoders.py` feeds the same reader whatever a
fuzzer makes up.
"""

import json
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fleet.agent.wire import records
from fleet.agent.wire.conversation import Reader
from fleet.agent.wire.parts import decode_bursts
from fleet.agent.wire.records import WireError
from fleet.store.rows import to_json

KINDS = (("cas", "cmpxchg"), ("readwrite", "mov"))
CPUS = (0, 1, 3)
SETTINGS = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


def hello(**changes: object) -> dict[str, Any]:
    record: dict[str, Any] = {
        "record": "hello",
        "protocol": 1,
        "build": "0123456789abcdef",
        "os": "linux",
        "arch": "x86_64",
        "compiler": "gcc",
        "cflags": "-O2",
        "clock": "tsc",
        "ticks_per_second": 2_500_000_000,
        "clock_cost_ticks": 40,
        "clock_quantum_ticks": 2,
        "cpus": list(CPUS),
        "pairs": 3,
        "plan": {
            "benchmarks": [{"benchmark": b, "variant": v} for b, v in KINDS],
            "rounds": 2,
            "rounds_max": 1000,
            "precision_ppm": 10_000,
            "time_budget_ms": None,
            "spread_ms": 5000,
            "preset": None,
            "estimator": "median",
        },
        "bursts": 12,
        "bursts_max": 60,
    }
    return record | changes


def visit(kind: tuple[str, str], round_: int, ping: int, pong: int) -> dict[str, Any]:
    return {
        "benchmark": kind[0],
        "variant": kind[1],
        "round": round_,
        "ping": ping,
        "pong": pong,
    }


def burst(
    kind: tuple[str, str] = KINDS[0], round_: int = 0, ping: int = 0, pong: int = 1
) -> dict[str, Any]:
    return {
        "record": "burst",
        **visit(kind, round_, ping, pong),
        "iterations": 1000,
        "warmup": 1,
        "ticks": [900, 500, 501],
        "start_ns": 7,
        "ping_cpus": [ping, ping],
        "pong_cpus": [pong, pong],
        "switches": None,
        "ran_ppm": [999_000, 1_000_000],
        "steal_ppm": [0, 500],
        "line_page": 17,
        "line_offset": 256,
        "line_node": 0,
        "line_physical": None,
    }


def encode(record: object) -> bytes:
    return json.dumps(record, separators=(",", ":")).encode()


@st.composite
def conversations(draw: st.DrawFn) -> list[bytes]:
    """What an agent may say: noise, hello, two whole rounds in any order, then more of
    some pairs.
    """
    pairs = [(one, other) for one in CPUS for other in CPUS if one < other]
    lines = [encode(hello())]
    sent = {"burst": 0, "failed": 0}
    again = 0
    for round_ in range(draw(st.integers(2, 5))):
        visits = [(kind, pair) for kind in KINDS for pair in pairs]
        if round_ >= 2:
            visits = draw(st.lists(st.sampled_from(visits), unique=True, max_size=4))
        disturbed = []
        for kind, (one, other) in draw(st.permutations(visits)):
            ping, pong = draw(st.sampled_from([(one, other), (other, one)]))
            record = burst(kind, round_, ping, pong)
            if draw(st.integers(0, 9)) == 0:
                record = {
                    "record": "failed",
                    **visit(kind, round_, ping, pong),
                    "reason": "no progress",
                    "disturbed": draw(st.booleans()),
                }
                if record["disturbed"]:
                    disturbed.append((kind, round_, ping, pong))
            sent[record["record"]] += 1
            lines.append(encode(record))
        for key in disturbed:
            lines.append(encode(burst(*key) | {"attempt": 1}))
            sent["burst"] += 1
            again += 1
        lines += draw(
            st.lists(
                st.sampled_from(
                    [
                        encode({"record": "alive"}),
                        encode({"record": "note", "text": "x"}),
                    ]
                ),
                max_size=2,
            )
        )
    end = {
        "record": "end",
        "bursts": sent["burst"],
        "failed": sent["failed"],
        "again": again,
        "reason": "done",
    }
    lines.append(encode(end | {"converged": 5, "unconverged": 1}))
    return (
        draw(st.lists(st.sampled_from([b"", b"motd", b"\xff\xfe"]), max_size=2)) + lines
    )


HOSTILE = st.sampled_from(
    [
        b"",
        b"{}",
        b"[]",
        b"null",
        b"\x00",
        b"\xff" * 50,
        b"[" * 100_000,
        b'{"a":' * 50_000,
        b"9" * 10_000,
        b'{"record":"note","text":"\\ud800"}',
        b'{"record":"note","text":"\xed\xa0\x80"}',
        b'{"record":"note","text":"\x1b]0;gone\x07\x1b[2J"}',
        b'{"record":"end","bursts":1e400,"failed":NaN}',
        b"\xef\xbb\xbf" + encode(burst()),
        encode(burst()).decode().encode("utf-16"),
        encode(burst() | {"ticks": [2**63]}),
        encode(burst() | {"ticks": [10**4000]}),
        encode(burst() | {"round": 2**31}),
        encode(burst() | {"benchmark": "\x1b[31m" * 1000}),
        encode(burst() | {"iterations": -0.0}),
        encode(burst() | {"ran_ppm": [1]}),
        encode(burst() | {"steal_ppm": [0, 1_000_001]}),
        encode(hello()),
        encode({"record": "hello"}),
        encode({"record": ["burst"]}),
        encode({"record": "x" * 9000}),
    ]
)


@st.composite
def draw_damaged(draw: st.DrawFn) -> list[bytes]:
    """A valid conversation after some accidents."""
    lines = draw(conversations())
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.integers(0, max(len(lines) - 1, 0)))
        match draw(
            st.sampled_from(
                ["cut", "repeat", "swap", "drop", "bytes", "hostile", "halve"]
            )
        ):
            case "cut":
                lines = lines[:place]
            case "repeat":
                lines[place:place] = lines[place : place + 1]
            case "swap":
                lines[place : place + 2] = reversed(lines[place : place + 2])
            case "drop":
                del lines[place : place + 1]
            case "bytes" if lines:
                spoilt = bytearray(lines[place] or b" ")
                spoilt[draw(st.integers(0, len(spoilt) - 1))] = draw(
                    st.integers(0, 255)
                )
                lines[place] = bytes(spoilt)
            case "hostile":
                lines.insert(place, draw(HOSTILE))
            case "halve" if lines:
                lines[place] = lines[place][: len(lines[place]) // 2]
    return lines


def follow_lines(lines: list[bytes]) -> tuple[Reader, str | None]:
    """The reader after all lines, or after the one it refused; and its error or
    verdict.
    """
    reader = Reader()
    try:
        for line in lines:
            reader.read_line(line)
    except WireError as err:
        return reader, str(err)
    return reader, reader.explain_unfinished()


@SETTINGS
@given(conversations())
def test_every_conversation_the_wire_allows_is_a_finished_run(
    lines: list[bytes],
) -> None:
    reader, error = follow_lines(lines)
    assert error is None
    assert reader.hello is not None
    assert len(list(decode_bursts([lines]))) == reader.bursts
    assert reader.end is not None
    assert reader.end.converged == 5
    assert reader.end.unconverged == 1


@SETTINGS
@given(draw_damaged())
def test_every_accident_ends_in_a_verdict_or_the_documented_error(
    lines: list[bytes],
) -> None:
    reader, error = follow_lines(lines)
    if error is not None:
        assert error.isprintable()
        assert len(error) < 500
        return
    # what is called finished can be stored, number for number
    assert reader.hello is not None
    for burst in decode_bursts([lines]):
        assert all(0 <= tick <= records.INT64_MAX for tick in burst.ticks)
    for value in (reader.hello.raw, reader.failed, reader.notes):
        to_json(value).encode()


@SETTINGS
@given(conversations(), st.data())
def test_a_visit_lost_or_repeated_is_never_a_finished_run(
    lines: list[bytes], data: st.DataObject
) -> None:
    visits = [place for place, line in enumerate(lines) if b'"ping"' in line]
    place = data.draw(st.sampled_from(visits))
    repeated = [*lines[: place + 1], *lines[place:]]
    lost = lines[:place] + lines[place + 1 :]
    assert follow_lines(repeated)[1] is not None
    assert follow_lines(lost)[1] is not None


def test_more_than_bursts_max_and_less_than_bursts_are_refused() -> None:
    two_promised = encode(hello(bursts=2, bursts_max=2))
    first, second, third = (encode(burst(round_=round_)) for round_ in range(3))
    end = encode({"record": "end", "bursts": 1, "failed": 0, "reason": "done"})
    _, why = follow_lines([two_promised, first, end])
    assert why == "2 bursts were promised, 1 arrived"
    _, why = follow_lines([two_promised, first, second, third])
    assert why == "more bursts than the 2 promised"
    _, why = follow_lines([encode(hello(bursts=2, bursts_max=1))])
    assert "bursts_max 1 is less than bursts 2" in (why or "")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"cpus": [0, 0]}, "each must be listed once"),
        ({"cpus": list(range(5000))}, "cpus: expected array of length <= 4096"),
        ({"cpus": [2**40]}, "cpus[0]: expected int <= 65535"),
        ({"compiler": ["gcc"]}, "compiler: expected str | null, got array"),
        (
            {"clock_cost_ticks": "many"},
            "clock_cost_ticks: expected int | null, got str",
        ),
        ({"deep": [[[[[[[[[[[]]]]]]]]]]]}, "more than 8 levels"),
        (
            {"plan": hello()["plan"] | {"estimator": "best"}},
            "plan.estimator: invalid enum value 'best'",
        ),
        (
            {"plan": hello()["plan"] | {"precision_ppm": 0.1}},
            "plan.precision_ppm: expected int | null, got float",
        ),
        (
            {
                "plan": {
                    "benchmarks": [
                        {"benchmark": "b", "variant": str(n)} for n in range(99)
                    ]
                }
            },
            "plan.benchmarks: expected array of length <= 32",
        ),
    ],
)
def test_a_hello_no_table_could_take_is_refused(
    changes: dict[str, Any], words: str
) -> None:
    assert words in (follow_lines([encode(hello(**changes))])[1] or "")


def make_stream(
    record: Callable[[int], dict[str, Any]], count: int = 4000
) -> Callable[[], Iterator[bytes]]:
    def lines() -> Iterator[bytes]:
        yield encode(hello(cpus=list(range(256)), bursts=1, bursts_max=2**62))
        for number in range(count):
            yield encode(record(number))

    return lines


def noise() -> Iterator[bytes]:
    yield from (bytes(1 << 20) for _ in range(300))


STREAMS = {
    "bursts": make_stream(
        lambda n: (
            burst(ping=n // 256, pong=n % 256) | {"ticks": list(range(n, n + 300))}
        ),
        1500,
    ),
    "new rounds": make_stream(lambda n: burst(round_=n)),
    "failed, long reasons": make_stream(
        lambda n: {
            "record": "failed",
            **visit(KINDS[0], n, 0, 1),
            "reason": "r" * 20_000,
        }
    ),
    "notes": make_stream(lambda n: {"record": "note", "text": "t" * 20_000}),
    "unknown keys": make_stream(lambda n: burst(round_=n) | {f"k{n}": "v" * 20_000}),
    "noise of megabytes": noise,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", STREAMS)
def test_a_long_hostile_stream_takes_little_memory(name: str) -> None:
    tracemalloc.start()
    try:
        reader = Reader()
        try:
            for line in STREAMS[name]():
                reader.read_line(line)
        except WireError:
            pass
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 12 << 20  # each stream is several times as large
