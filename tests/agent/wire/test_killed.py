"""What is concluded from the signal that killed an agent, and from how often memory was
lacking.
"""

import json

import pytest

from fleet.agent.measure import make_failed_record_after_kill
from fleet.agent.wire.conversation import Reader
from tests.agent.wire.test_conversation import BURST, HELLO, line

VISIT = {key: BURST[key] for key in ("benchmark", "variant", "round", "ping", "pong")}
BEGUN = line({"record": "alive", **VISIT})
LACKED = (
    b'{"record":"machine","memory_limit":"control group /job, 160'
    b' MiB","memory_kills":3}'
)


@pytest.mark.parametrize(
    ("name", "machine", "reason", "given_up"),
    [
        (
            "KILL",
            LACKED,
            "for lack of memory (oom_kill 1; control group /job, 160 MiB)",
            "memory",
        ),
        ("KILL", LACKED.replace(b"3", b"2"), "by SIGKILL", "point"),
        (
            "KILL",
            LACKED.replace(b"3", b"null"),
            "by SIGKILL (for lack of memory?)",
            "memory",
        ),
        ("KILL", b"sh: out of memory", "by SIGKILL (for lack of memory?)", "memory"),
        ("BUS", LACKED, "by SIGBUS (for lack of memory?)", "memory"),
        ("SEGV", LACKED, "by SIGSEGV", "variant"),
    ],
)
def test_the_visit_has_failed_with_the_cause(
    name: str, machine: bytes, reason: str, given_up: str
) -> None:
    reader = Reader()
    for sent in (line(HELLO | {"memory_kills": 2}), BEGUN, b'{"record":"alive"}'):
        reader.read_line(sent)
    failed = make_failed_record_after_kill(reader, [name.encode(), machine])
    assert failed is not None
    assert json.loads(failed) == {
        **VISIT,
        "record": "failed",
        "reason": f"the agent was killed {reason}",
        "given_up": given_up,
    }
    reader.read_line(failed)
    assert make_failed_record_after_kill(reader, [name.encode(), machine]) is None


@pytest.mark.parametrize(
    ("sent", "after"),
    [
        ([], [b"KILL"]),
        ([BEGUN, line(BURST)], [b"KILL"]),
        ([BEGUN], [b"TERM"]),
        ([BEGUN], []),
    ],
    ids=["no visit", "its burst is there", "an order", "no word"],
)
def test_nothing_is_concluded_without_a_visit_and_a_signal(
    sent: list[bytes], after: list[bytes]
) -> None:
    reader = Reader()
    for text in (line(HELLO), *sent):
        reader.read_line(text)
    assert make_failed_record_after_kill(reader, after) is None
