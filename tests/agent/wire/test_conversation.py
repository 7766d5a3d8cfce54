"""The wire's reader: what docs/wire.md allows goes through unchanged, everything else
is refused in words.
"""

import itertools
import json
from typing import Any

import pytest

from fleet.agent.wire import conversation, records
from fleet.agent.wire.conversation import Reader
from fleet.agent.wire.parts import decode_bursts
from fleet.agent.wire.records import TEXT_LIMIT, WireError
from fleet.model import Burst, End, Failed, Hello
from tests.builders import burst_key

HELLO: dict[str, Any] = {
    "record": "hello",
    "protocol": 1,
    "build": "0123456789abcdef",
    "os": "linux",
    "arch": "x86_64",
    "clock": "tsc",
    "ticks_per_second": 2_500_000_000,
    "clock_quantum_ticks": 2,
    "cpus": [0, 1, 3],
    "plan": {"benchmarks": [{"benchmark": "cas", "variant": "cmpxchg"}]},
    "pairs": 3,
    "bursts": 2,
}
BURST: dict[str, Any] = {
    "record": "burst",
    "benchmark": "cas",
    "variant": "cmpxchg",
    "round": 0,
    "ping": 0,
    "pong": 3,
    "iterations": 1000,
    "warmup": 1,
    "ticks": [300_000, 250_001, 250_002],
    "start_ns": 17,
    "ping_cpus": [0, 0],
    "pong_cpus": [3, 3],
    "switches": [1, 0, 1, 0],
    "line_page": 34359738368,
    "line_offset": 128,
    "line_node": None,
}
END = {"record": "end", "bursts": 2, "failed": 0, "reason": "done"}


def line(record: dict[str, Any], **changes: object) -> bytes:
    return json.dumps({**record, **changes}, separators=(",", ":")).encode()


def feed_lines(*lines: bytes) -> Reader:
    reader = Reader()
    for text in lines:
        reader.read_line(text)
    return reader


def test_a_burst_arrives_number_for_number() -> None:
    burst = records.decode_record(line(BURST))
    assert isinstance(burst, Burst)
    assert burst.ticks == (300_000, 250_001, 250_002)
    assert burst_key(burst) == ("cas", "cmpxchg", None, 0, 0, 3)
    assert burst.line_page == 34359738368
    assert burst.line_offset == 128
    assert burst.line_node is None


def test_a_whole_conversation_is_a_finished_run() -> None:
    reader = feed_lines(line(HELLO), line(BURST), line(BURST, round=1), line(END))
    assert reader.explain_unfinished() is None
    assert isinstance(reader.hello, Hello)
    assert reader.end == End(2, 0, "done")


def test_what_a_login_script_prints_is_a_note() -> None:
    reader = feed_lines(b"Welcome to \x1b[31mboard7", b"", line(HELLO))
    assert reader.notes == [
        "before hello the host printed: 'Welcome to \\x1b[31mboard7'"
    ]
    assert reader.read_line(b"Welcome again") is None
    assert reader.notes[1:] == [
        "among the agent's records the host printed: 'Welcome again'"
    ]
    with pytest.raises(WireError, match="not a JSON record"):
        reader.read_line(b"{Welcome again")


def test_words_left_without_a_newline_before_a_record_cost_only_a_note() -> None:
    reader = feed_lines(
        line(HELLO), b"You have mail. " + line(BURST), line(BURST, round=1), line(END)
    )
    assert reader.explain_unfinished() is None
    assert reader.notes == [
        "among the agent's records the host printed: 'You have mail. '"
    ]
    lines = [line(HELLO), b"You have mail. " + line(BURST), b"more", line(END)]
    assert len(list(decode_bursts([lines]))) == 1


CHATTER = [b"la"] * conversation.NOISE_LIMIT_LINES
BEGUN = [line(HELLO)]
FEW = line(HELLO, bursts=2, bursts_max=4)
REFUSED = [
    (CHATTER, b"la", "still no hello"),
    (
        [*BEGUN, *CHATTER],
        b"la",
        r"lines that are not records; does a login script print.* The last: 'la'",
    ),
    ([], b" " * (conversation.LINE_LIMIT_BYTES + 1), "bytes; at"),
    ([], line(HELLO, protocol=2), "wire protocol 2; this fleet speaks 1"),
    ([], line(HELLO, build=7), "build: expected str, got int"),
    ([], line(HELLO, ticks_per_second=0), "ticks_per_second: expected int >= 1"),
    ([], line(HELLO, cpus="0-3"), "cpus: expected array, got str"),
    ([], line(HELLO, plan={}), "plan: object missing required field benchmarks"),
    ([*BEGUN, line(BURST)], line(HELLO), "a second hello record"),
    ([*BEGUN, line(BURST)], line(HELLO, build="f" * 16), "a second hello record"),
    (
        BEGUN,
        line(BURST, ticks=[1, -2, 3]),
        r"ticks\[1\]: expected int >= 0: '{\"record\":\"burst\"",
    ),
    (BEGUN, line(BURST, ticks=[1, 2.5, 3]), r"ticks\[1\]: expected int, got float"),
    (BEGUN, line(BURST, ticks=[1, True, 3]), r"ticks\[1\]: expected int, got bool"),
    (
        BEGUN,
        line(BURST, ticks=[2**63, 1]),
        r"ticks\[0\]: expected int <= 9007199254740992",
    ),
    (BEGUN, line(BURST, ticks=[5]), "leave none"),
    (
        BEGUN,
        line(BURST, ticks=[1, 1, 1], iterations=1_000_000),
        r"4e-07 ns a round_trip, less than a CPU",
    ),
    (BEGUN, line(BURST, ticks=[0, 0, 0]), "most samples took no time"),
    (BEGUN, line(BURST, iterations=0), "iterations: expected int >= 1"),
    (BEGUN, line(BURST, ping_cpus=[0, 1]), "asked for CPUs 0,3 but ran on"),
    (BEGUN, line(BURST, pong_cpus=[3]), "pong_cpus: expected array of length 2"),
    (BEGUN, line(BURST, switches=[0, 0]), "switches: expected array of length 4"),
    (BEGUN, line(BURST, variant="lse"), "not in the plan"),
    (BEGUN, line(BURST, pong=2, pong_cpus=[2, 2]), "not in the plan's CPUs"),
    ([FEW, line(BURST, round=1)], line(BURST, round=1), "came twice"),
    ([FEW, line(BURST, round=1)], line(BURST), "round 0 after round 1"),
    ([*BEGUN, line(END)], line(BURST), "after the end record"),
    (BEGUN, b'{"record":"exit","code":3}', "an exit record before the end record"),
]


@pytest.mark.parametrize(
    ("before", "bad", "words"), REFUSED, ids=[words for *_, words in REFUSED]
)
def test_a_line_that_is_not_allowed_is_refused(
    before: list[bytes], bad: bytes, words: str
) -> None:
    reader = feed_lines(*before)
    with pytest.raises(WireError, match=words):
        reader.read_line(bad)


def test_as_much_noise_as_allowed_may_come_before_hello() -> None:
    assert Reader().read_line(b" " * conversation.LINE_LIMIT_BYTES) is None
    reader = feed_lines(*CHATTER, line(HELLO))
    assert reader.notes[0] == "before hello the host printed: 'la'"
    assert len(reader.notes) == len(CHATTER)
    assert reader.hello is not None


ROUNDS = [line(BURST, round=at) for at in range(4)]


@pytest.mark.parametrize(
    ("lines", "end", "verdict"),
    [
        ([], None, "the agent sent no hello record"),
        ([*BEGUN, *ROUNDS[:1]], None, "cut after 1 of 2 bursts"),
        (
            [*BEGUN, *ROUNDS[:1]],
            {},
            "the end record counts 2 bursts, 0 failed ones and 0 taken again, but 1, 0"
            " and 0 arrived",
        ),
        (BEGUN, {"bursts": 0}, "2 bursts were promised, 0 arrived"),
        (
            [*BEGUN, *ROUNDS[:1]],
            {"bursts": 1, "reason": "deadline"},
            "ended early (deadline) after 1 of 2 bursts",
        ),
        ([FEW, *ROUNDS[:2]], None, "cut after 2 of at least 2 bursts"),
        (
            [FEW, *ROUNDS[:1]],
            {"bursts": 1},
            "at least 2 bursts were promised, 1 arrived",
        ),
        ([FEW, *ROUNDS[:1]], {"bursts": 1, "reason": "time budget"}, None),
        ([FEW, *ROUNDS[:2]], {"bursts": 2}, None),
        ([FEW, *ROUNDS[:3]], {"bursts": 3}, None),
        ([FEW, *ROUNDS], {"bursts": 4}, None),
    ],
)
def test_a_run_is_finished_between_its_least_and_most_bursts(
    lines: list[bytes], end: dict[str, Any] | None, verdict: str | None
) -> None:
    reader = feed_lines(*lines, *([] if end is None else [line(END, **end)]))
    assert reader.explain_unfinished() == verdict


def test_a_failed_burst_counts_as_a_visit_and_has_no_numbers() -> None:
    failed = {k: BURST[k] for k in ("benchmark", "variant", "round", "ping", "pong")}
    reader = feed_lines(
        line(HELLO),
        line(BURST),
        line(
            {"record": "failed", **failed, "round": 1, "reason": "no progress for 5 s"}
        ),
        line(END, bursts=1, failed=1),
    )
    assert reader.explain_unfinished() is None
    assert reader.failed == [Failed("cas", "cmpxchg", 1, 0, 3, "no progress for 5 s")]


def test_what_may_have_spoilt_a_burst_becomes_a_flag() -> None:
    hello = line(HELLO, clock_quantum_ticks=10_000)
    interrupted = {
        "switches": [0, 0, 0, 2],
        "ticks": [*BURST["ticks"][:-1], 2 * max(BURST["ticks"])],
    }
    lines = [
        b'{"record":"burst"}',
        hello,
        line(BURST),
        line(BURST, **interrupted),
        line(END),
    ]
    calm, pushed = decode_bursts([lines])
    assert calm.flags == ("coarse_clock",)
    assert pushed.flags == ("preempted", "coarse_clock")


CAS = {
    "name": "cas",
    "question": "",
    "unit": "round_trip",
    "latencies": 2,
    "shape": "pair",
    "view": "matrix",
    "heading": "",
}


@pytest.mark.parametrize(
    "name", ["..", "", "a/b", "Cas", "1st", "a b", "a,b", "a=b", "cas\n", "x" * 48, "é"]
)
def test_a_benchmark_has_a_name_that_the_command_line_can_take(name: str) -> None:
    plan = {"benchmarks": [{"benchmark": name, "variant": "cmpxchg"}]}
    with pytest.raises(WireError, match="benchmark"):
        Reader().read_line(line(HELLO, plan=plan))
    with pytest.raises(WireError, match="benchmark"):
        Reader().read_line(line(HELLO, benchmarks=[{**CAS, "name": name}]))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"rate": "GB/s"},
            "benchmark cas has rate GB/s, which this version knows as None",
        ),
        (
            {"unit": "byte"},
            "benchmark cas has unit byte, which this version knows as round_trip",
        ),
        (
            {"latencies": 1},
            "benchmark cas has latencies 1, which this version knows as 2",
        ),
        (
            {"shape": "group"},
            "benchmark cas has shape group, which this version knows as pair",
        ),
        (
            {"view": "ladder"},
            "benchmark cas has view table, which this version knows as matrix",
        ),
        (
            {
                "name": "walk",
                "unit": "load",
                "latencies": 1,
                "shape": "group",
                "view": "table",
            },
            "lacks its",
        ),
        (
            {"name": "load"},
            "benchmark load has unit round_trip, which this version knows as byte",
        ),
    ],
)
def test_a_description_that_contradicts_a_known_benchmark_is_refused(
    changes: dict[str, object], words: str
) -> None:
    assert Reader().read_line(
        line(HELLO, benchmarks=[CAS | {"heading": "any", "question": "other words"}])
    )
    with pytest.raises(WireError, match=words):
        Reader().read_line(line(HELLO, benchmarks=[CAS | changes]))


def test_an_exit_code_that_contradicts_the_end_leaves_the_run_unfinished() -> None:
    lines = [line(HELLO), line(BURST), line(BURST, round=1), line(END)]
    reader = feed_lines(*lines, b'{"record":"exit","code":3}')
    assert (
        reader.explain_unfinished() == "ended early (exit code 3) after 2 of 2 bursts"
    )


def test_deep_nesting_is_refused_not_followed() -> None:
    for line, words in (
        (b"[" * 100_000, "expected object, got array"),
        (b'{"a":' * 100_000, "not a JSON record"),
    ):
        with pytest.raises(WireError, match=words):
            records.decode_record(line)


def test_as_many_notes_as_allowed_are_kept_and_one_more_is_refused() -> None:
    note = line({"record": "note", "text": "x"})
    limit = conversation.NOISE_LIMIT_LINES + conversation.NOTE_LIMIT
    reader = feed_lines(line(HELLO), *[note] * limit)
    assert reader.notes == ["x"] * limit
    with pytest.raises(WireError, match=f"more than {conversation.NOTE_LIMIT} notes"):
        reader.read_line(note)


def test_a_failed_burst_too_many_is_refused_with_its_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(conversation, "FAILED_LIMIT", 2)
    failed = {k: BURST[k] for k in ("benchmark", "variant", "ping", "pong")}
    failed |= {"record": "failed", "reason": "no"}
    reader = feed_lines(
        line(HELLO, bursts=9), *(line(failed, round=at) for at in range(2))
    )
    assert len(reader.failed) == 2
    with pytest.raises(WireError, match="more than 2 failed bursts; the last: 'no'"):
        reader.read_line(line(failed, round=2))


@pytest.mark.parametrize(
    ("ping", "pong", "known"),
    [(0, 1, True), (1, 0, True), (3, 1, True), (2, 0, False), (0, 2, False)],
)
def test_every_pair_of_the_plans_cpus_is_a_visit_of_its_own(
    ping: int, pong: int, known: bool
) -> None:
    reader = feed_lines(
        line(HELLO, bursts=9),
        line(BURST),
        line(BURST, ping=3, pong=0, ping_cpus=[3, 3], pong_cpus=[0, 0]),
    )
    other = line(
        BURST, ping=ping, pong=pong, ping_cpus=[ping] * 2, pong_cpus=[pong] * 2
    )
    if not known:
        with pytest.raises(
            WireError, match=f"pair {ping},{pong} is not in the plan's CPUs"
        ):
            reader.read_line(other)
        return
    reader.read_line(other)
    assert reader.bursts == 3
    with pytest.raises(WireError, match="came twice"):
        reader.read_line(other)


def test_all_pairs_of_many_cpus_are_told_apart() -> None:
    cpus = list(range(0, 36, 2))
    reader = feed_lines(line(HELLO, cpus=cpus, bursts=18 * 17))
    for ping, pong in itertools.permutations(cpus, 2):
        reader.read_line(
            line(
                BURST, ping=ping, pong=pong, ping_cpus=[ping] * 2, pong_cpus=[pong] * 2
            )
        )
    assert reader.bursts == 18 * 17
    with pytest.raises(WireError, match="came twice"):
        reader.read_line(
            line(BURST, ping=34, pong=32, ping_cpus=[34] * 2, pong_cpus=[32] * 2)
        )


def test_without_a_known_quantum_a_tick_is_one() -> None:
    hello = {key: value for key, value in HELLO.items() if key != "clock_quantum_ticks"}
    lines = [
        line(hello),
        line(BURST, ticks=[99, 99]),
        line(BURST, ticks=[99, 100], round=1),
    ]
    assert [burst.flags for burst in decode_bursts([lines])] == [
        ("preempted", "coarse_clock")[1:],
        (),
    ]


def test_a_long_text_is_kept_up_to_its_limit() -> None:
    for length, note in (
        (TEXT_LIMIT, "x" * TEXT_LIMIT),
        (TEXT_LIMIT + 1, "x" * (TEXT_LIMIT - 3) + "..."),
    ):
        reader = feed_lines(line(HELLO), line({"record": "note", "text": "x" * length}))
        assert reader.notes == [note]


COUNTED = {**HELLO, "counters": [{"event": "cycles"}, {"event": "r04d2"}]}
COUNT = [7, 100, 90]


def test_counts_arrive_thread_by_thread() -> None:
    reader = feed_lines(line(COUNTED))
    burst = reader.read_line(line(BURST, counters=[[COUNT, None], [None, COUNT]]))
    assert isinstance(burst, Burst)
    assert burst.counters == (((7, 100, 90), None), (None, (7, 100, 90)))
    assert reader.hello
    assert reader.hello.counters == ("cycles", "r04d2")


@pytest.mark.parametrize(
    "counts",
    [
        [[COUNT, None]],
        [[COUNT], [COUNT]],
        [[COUNT, None]] * 3,
        [[COUNT, [1, 2]]] * 2,
        [[-1]],
        5,
    ],
)
def test_counts_that_fit_no_thread_or_event_are_refused(counts: object) -> None:
    with pytest.raises(WireError, match="counters"):
        feed_lines(line(COUNTED), line(BURST, counters=counts))
    with pytest.raises(WireError, match="counters"):
        feed_lines(line(HELLO), line(BURST, counters=[[COUNT], [COUNT]]))


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
def test_an_output_in_another_encoding_is_named(encoding: str) -> None:
    with pytest.raises(
        WireError, match="the hello record is in UTF-16, or has a byte order mark"
    ):
        feed_lines(line(HELLO).decode().encode(encoding))


def test_what_a_login_script_left_of_a_hello_is_noise() -> None:
    reader = feed_lines(
        b'{"record":"hello","protocol":1',
        line(HELLO),
        line(BURST),
        line(BURST, round=1),
        line(END),
    )
    assert reader.explain_unfinished() is None
    assert len(reader.notes) == 1
