"""The table of options against the real agent: ranges, words, defaults, and what
excludes what.
"""

import re

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from fleet.model import InputError, Plan, Preset, RequestedOptions, override_options
from fleet.plan.conflicts import find_conflicts
from fleet.plan.grammars import format_decimal
from fleet.plan.options import (
    BY_NAME,
    DEFAULTS,
    OPTIONS,
    Option,
    agent_arguments,
)
from tests import needs
from tests.native.agent import decode, run

RANGED = [option for option in OPTIONS if option.grammar.limits]
WORDS = [option for option in OPTIONS if option.grammar.metavar == "WORD"]
SETTINGS = settings(
    max_examples=60, deadline=None, suppress_health_check=list(HealthCheck)
)


def answer(*arguments: str) -> tuple[int, str]:
    """The agent's exit code and message for options that it reads but does not
    act on.
    """
    done = run(*arguments, "--help")
    return done.returncode, done.stderr


@pytest.mark.parametrize("option", RANGED, ids=lambda option: option.name)
def test_the_agent_takes_what_the_table_allows_and_no_more(option: Option) -> None:
    assert option.grammar.limits
    low, high = option.grammar.limits
    beside = ("--warmup=0",) if option.name == "samples" else ()
    step = (
        1e-6
        if option.name == "precision"
        else 4
        if option.name == "separation_bytes"
        else 1
    )
    assert answer(
        f"--{option.flag}={option.grammar.write(type(low)(low))}", *beside
    ) == (
        0,
        "",
    )
    code, words = answer(f"--{option.flag}={option.grammar.write(high)}", *beside)
    assert code == 0 or (option.name == "warmup" and "together" in words)
    above = (
        format_decimal(high + step)
        if isinstance(high, float)
        else str(high + int(step))
    )
    code, words = answer(f"--{option.flag}={above}")
    assert code == 2
    assert f"--{option.flag} wants" in words
    if result := re.search(r"from (\d+) to (\d+)", words):
        assert int(result[1]) == low
        assert int(result[2]) == high


@pytest.mark.parametrize("option", WORDS, ids=lambda option: option.name)
def test_the_agent_knows_the_same_words(option: Option) -> None:
    code, words = answer(f"--{option.flag}=nothing")
    listed = option.grammar.allowed.replace(" or ", ", ").split(", ")
    assert code == 2
    assert all(word in words for word in listed)
    assert all(answer(f"--{option.flag}={word}") == (0, "") for word in listed)


@pytest.mark.parametrize(
    ("benchmark", "name", "text"),
    [
        *(("chase", "sizes", text) for text in ("auto", "4K", "4097", "8K..4K")),
        *(("chase", "sizes", text) for text in ("16K,1M..2M", "1025G", "16K,", "")),
        *(("interleave", "blocks", text) for text in ("64", "32", "64K", "128K")),
        *(("interleave", "blocks", text) for text in ("96", "64..4K", "auto", "")),
        *(("loaded", "load", text) for text in ("0", "0.1", "0.05", "64", "65")),
        *(("loaded", "load", text) for text in ("0,full", "fast", "1,", "")),
        *(("gemm", "shape", text) for text in ("auto", "256x256x256", "big", "")),
        *(("gemm", "shape", text) for text in ("8x8x4097", "0x8x8", "8x8x8x")),
        *(("bandwidth", "threads", text) for text in ("1,all", "cores", "some", "0")),
    ],
)
def test_the_agent_reads_a_text_that_we_read_and_no_other(
    benchmark: str, name: str, text: str
) -> None:
    needs.cpus(2)
    option = BY_NAME[name]
    done = run("-b", benchmark, f"--{option.flag}={text}", "--forecast")
    if f"--{option.flag} wants" in done.stderr:
        assert option.grammar.allowed in done.stderr
        with pytest.raises(InputError, match=re.escape(option.grammar.allowed)):
            option.grammar.read(text)
    else:
        option.grammar.read(text)


def test_the_agent_has_the_defaults_of_the_table() -> None:
    plan = decode(run("-b", "clock", "--deadline", "0.1", "-f", "jsonl").stdout)[0][
        "plan"
    ]
    for name in ("samples", "warmup", "order", "line", "owner"):
        assert plan[name] == getattr(DEFAULTS, name), name
    assert plan["rounds"] < DEFAULTS.rounds, "the fewest, if they take long"
    assert plan["precision_ppm"] == DEFAULTS.precision * 1e6
    assert plan["spread_ms"] == DEFAULTS.spread_s * 1e3


@SETTINGS
@given(
    st.builds(
        RequestedOptions,
        preset=st.none() | st.sampled_from(Preset),
        samples=st.sampled_from((None, 1, 39_000, 39_999, 40_000)),
        warmup=st.sampled_from((None, 0, 1, 1_000, 39_990)),
        rounds=st.sampled_from((None, 1, 5)),
        precision=st.sampled_from((None, 0.0, 0.01)),
        time_budget_s=st.sampled_from((None, 0.001, 60.0)),
        spread_s=st.sampled_from((None, 0.0, 1e9)),
        node=st.sampled_from((None, 0)),
        nodes=st.sampled_from((None, "all")),
    )
)
@example(RequestedOptions(rounds=2, time_budget_s=5.0))
@example(RequestedOptions(preset=Preset.C2CLAT, time_budget_s=5.0))
@example(RequestedOptions(benchmarks=("cas",), node=0, nodes="all"))
def test_the_agent_refuses_what_we_call_a_conflict_and_nothing_else(
    options: RequestedOptions,
) -> None:
    refused = answer(*agent_arguments(override_options(Plan(), options)))[0]
    assert refused == (2 if any(find_conflicts(options)) else 0)


@pytest.mark.parametrize(
    "texts",
    [
        {"benchmarks": "cas", "cpus": "0"},
        {"cpus": "0", "pairs": "0-1"},
    ],
    ids=str,
)
def test_the_agent_refuses_a_conflict_it_sees_on_the_machine(
    texts: dict[str, str],
) -> None:
    options = RequestedOptions(
        **{name: BY_NAME[name].grammar.read(text) for name, text in texts.items()}
    )
    assert any(find_conflicts(options))
    done = run(*agent_arguments(override_options(Plan(), options)))
    assert done.returncode in (2, 3, 4, 5), done.stderr
