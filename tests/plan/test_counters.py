"""The table of performance events, by the CPU of a host."""

import re
from dataclasses import replace

import pytest

from fleet.model import Facts, Host, RequestedOptions
from fleet.plan import counters
from fleet.plan.merge import merge_plan_with_facts
from fleet.plan.options import agent_arguments
from tests.native.agent import run

XEON = Facts(
    "linux", "x86_64", cpu_vendor="GenuineIntel", cpu_family="6", cpu_model_number="143"
)
ZEN = replace(XEON, cpu_vendor="AuthenticAMD", cpu_family="26", cpu_model_number="2")
ARM = Facts(
    "linux", "aarch64", cpu_vendor="0x41", cpu_family="8", cpu_model_number="0xd0c"
)
UNKNOWN = replace(XEON, cpu_model_number="92", cpu_model="Goldmont")

XEON_CODES = (
    "snoop_hit_modified=4:0x4d2",
    "snoop_hit_clean=4:0x2d2",
    "no_snoop=4:0x8d2",
)
ARM_CODES = ("l1_refill=4:0x3", "l2_refill=4:0x17", "last_cache_read=4:0x36")


def _like(facts: Facts, model: str, family: str = "8") -> Facts:
    return replace(facts, cpu_model_number=model, cpu_family=family)


@pytest.mark.parametrize(
    ("facts", "codes"),
    [
        (XEON, XEON_CODES),
        (
            ZEN,
            (
                "fill_complex=4:0x243",
                "fill_near_cache=4:0x443",
                "fill_far_cache=4:0x1043",
            ),
        ),
        (
            _like(ZEN, "113", "23"),
            (
                "fill_near_cache=4:0x243",
                "fill_far_cache=4:0x1043",
                "memory_local=4:0x843",
            ),
        ),
        (
            _like(ZEN, "8", "23"),
            ("l2_hit=4:0xf064", "l2_miss=4:0x864", "l2_upgrade=4:0x860"),
        ),
        (_like(XEON, "183", "6"), XEON_CODES),
        (ARM, ARM_CODES),
        (_like(ARM, "0xd84"), ARM_CODES),
        (
            _like(ARM, "0xd08"),
            (
                "l1_refill_read=4:0x42",
                "l1_refill_write=4:0x43",
                "l1_invalidated=4:0x48",
            ),
        ),
        (
            _like(ARM, "0xd0b"),
            ("l1_refill=4:0x3", "l2_refill=4:0x17", "l3_refill=4:0x2a"),
        ),
    ],
    ids=["Xeon", "Zen 5", "Zen 2", "Zen 1", "Raptor Lake", "N1", "V3", "A72", "A76"],
)
def test_coherence_is_what_the_cpu_can_count(
    facts: Facts, codes: tuple[str, ...]
) -> None:
    result = counters.agent_events(("coherence",), facts)
    assert result[:3] == codes
    assert counters.describe_unknown_events(("coherence", "generic"), facts) is None


def test_names_raw_codes_and_groups_are_counted_once_each() -> None:
    names = counters.parse_events("generic, context-switches,cycles,r04d2,r04d2")
    assert counters.agent_events(names, UNKNOWN) == (
        *(
            "cycles=0:0x0",
            "instructions=0:0x1",
            "cache-references=0:0x2",
            "cache-misses=0:0x3",
        ),
        *("branch-misses=0:0x5", "context-switches=1:0x3:k", "r04d2=4:0x4d2"),
    )


@pytest.mark.parametrize(
    "facts", [UNKNOWN, replace(XEON, cpu_family=None), Facts("qnx", "aarch64")]
)
def test_what_no_table_has_for_the_cpu_is_a_note(facts: Facts) -> None:
    note = counters.describe_unknown_events(("coherence", "l3_miss", "cycles"), facts)
    assert note
    assert note.startswith("Not counted: coherence, l3_miss (not known for this CPU, ")
    assert counters.agent_events(("coherence", "l3_miss"), facts) == ()


@pytest.mark.parametrize("text", ["cyles", "generic,", "r04xy", "R04D2", "cycles=0:0"])
def test_a_wrong_name_is_refused_with_those_there_are(text: str) -> None:
    with pytest.raises(ValueError, match="unknown event") as caught:
        counters.parse_events(text)
    assert all(
        name in str(caught.value) for name in ("generic", "coherence", *counters.NAMES)
    )


def test_the_agent_takes_as_many_events_as_we_allow() -> None:
    raw = ",".join(f"r{number:x}" for number in range(counters.MAX_EVENTS))
    options = RequestedOptions(
        counters=counters.parse_events(raw), benchmarks=("clock",)
    )
    arguments = agent_arguments(
        merge_plan_with_facts(Host("a", "192.0.2.1"), options, UNKNOWN)
    )
    assert run(*arguments, "--rounds=1", "-f", "jsonl").returncode == 0
    with pytest.raises(ValueError, match="names 17 events, and at most 16"):
        counters.parse_events(f"{raw},cycles")


def test_every_name_is_one_that_the_wire_takes() -> None:
    assert all(re.fullmatch("[a-z0-9_-]{1,47}", name) for name in counters.NAMES)
