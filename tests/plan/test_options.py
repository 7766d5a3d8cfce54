"""The table of plan options: what each takes, and that everything that knows options
reads it there.
"""

import re
import runpy
from dataclasses import fields
from pathlib import Path

import pytest
import typer

from fleet.cli.app import app
from fleet.errors import UsageError
from fleet.inventory import schema
from fleet.model import BENCHMARKS, PairChoice, Pairs, Plan, Preset, RequestedOptions
from fleet.plan.grammars import format_duration
from fleet.plan.options import (
    BY_NAME,
    DEFAULTS,
    OFFERED,
    OPTIONS,
    PRESETS,
    parse_plan_words,
    parse_requested,
    resolve_defaults,
)

ROOT = Path(__file__).parents[2]


def read(name: str, text: str) -> object:
    return BY_NAME[name].grammar.read(text)


def test_every_field_of_a_plan_has_its_option() -> None:
    assert [option.name for option in OPTIONS] == [
        part.name for part in fields(RequestedOptions)
    ]
    assert [part.name for part in fields(Plan)] == [
        part.name for part in fields(RequestedOptions)
    ]
    assert Plan().benchmarks == DEFAULTS.benchmarks


@pytest.mark.parametrize("name", ["run", "check"])
def test_a_command_has_every_option_with_its_words_and_default(name: str) -> None:
    command = typer.main.get_command(app).commands[name]
    parameters = {
        flag: parameter for parameter in command.params for flag in parameter.opts
    }
    for option in OFFERED:
        if option.is_rare:
            assert f"--{option.flag}" not in parameters
            assert option.name in parameters["--plan"].help
            continue
        help_text = parameters[f"--{option.flag}"].help
        words = "" if option.grammar.limits else f"{option.grammar.allowed}; "
        if option.name == "benchmarks":  # the rest is below --help-all
            words = (
                "cas, readwrite, message, chase, bandwidth, loaded, contend, gemm, …; "
            )
        assert f"[{words}default: {option.default}]" in help_text
        assert option.default


def test_the_inventory_has_the_options_that_the_table_gives_it() -> None:
    assert [option.name for option in OFFERED if option.key[:1] == ("plan",)] == list(
        schema.PLAN
    )
    assert {option.name for option in OPTIONS if len(option.key) == 1} <= set(
        schema.ENTRY
    )


def test_each_range_stands_once_in_the_code() -> None:
    patterns = (
        *(r"40[_,]?000\b", r"1[_]?000[_]?000[_]?000\b", r"\b1[_]?000[_]?000\b"),
        *(r"\b1023\b", r"\b1 << 20\b.*sep|sep.*\b1 << 20\b", r"\(1, 98\)", r"2\*\*63"),
    )
    texts = [(ROOT / "fleet/agent/measure.py").read_text()]
    for room in ("plan", "cli", "inventory"):
        modules = sorted((ROOT / "fleet" / room).rglob("*.py"))
        texts += [path.read_text() for path in modules]
    lines = "\n".join(texts).splitlines()
    assert [line for line in lines for p in patterns if re.search(p, line)] == []


def test_the_page_about_options_is_what_its_script_writes() -> None:
    """On failure: .venv/bin/python docs/options.py."""
    script = runpy.run_path(str(ROOT / "docs/options.py"))
    assert script["PAGE"].read_text() == script["page"]()


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("pairs", "half", PairChoice()),
        ("pairs", "ordered", PairChoice(Pairs.ORDERED)),
        ("pairs", "0-1,4:0", PairChoice(Pairs.LISTED, ((0, 1), (0, 4)))),
        ("pairs", "per-relation:4", PairChoice(Pairs.PER_RELATION, per_relation=4)),
        ("precision", "1%", 0.01),
        ("precision", "0.01", 0.01),
        ("precision", "2.5 %", 0.025),
        ("precision", "100%", 1.0),
        ("precision", "off", 0.0),
        ("spread_s", "20", 20.0),
        ("spread_s", "0.5", 0.5),
        ("spread_s", "500ms", 0.5),
        ("spread_s", "90s", 90.0),
        ("time_budget_s", "5m", 300.0),
        ("time_budget_s", "1.5 h", 5400.0),
        ("deadline_s", "2m", 120),
        ("boost", "on", True),
        ("boost", "off", False),
        ("benchmarks", "all", tuple(BENCHMARKS)),
        ("benchmarks", "clock, cas,clock", ("clock", "cas")),
        ("sizes", "16K, 1M..64M", "16K,1M..64M"),
        ("sizes", "auto", "auto"),
        ("stride_bytes", "512", 512),
        ("operations", "read,copy,read", ("read", "copy")),
        ("threads", "1,llc,all", ("1", "llc", "all")),
        ("samples", "40000", 40_000),
        ("preset", "c2clat", Preset.C2CLAT),
        ("cpus", "0-2,8", (0, 1, 2, 8)),
    ],
)
def test_a_value_is_read_as_people_write_it(
    name: str, text: str, value: object
) -> None:
    result = read(name, text)
    assert result == value
    assert type(result) is type(value)


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        (
            "pairs",
            "all",
            "--pairs all: must be half, ordered, per-relation:K, or a list",
        ),
        ("pairs", "0-1,1-0", "the pair 0-1 is listed twice"),
        ("pairs", "2-2", "is one CPU, not a pair"),
        ("pairs", "0-1,x", "not 'x'"),
        ("pairs", "0-70000", "there is no CPU 70000"),
        ("pairs", "per-relation:0", "would measure nothing"),
        ("precision", "1", "--precision 1: must be a share such as 1%"),
        ("precision", "101%", "from 0.0001% to 100%"),
        ("precision", "-1%", "must be a share"),
        (
            "time_budget_s",
            "1e9",
            "must be a duration such as 90, 90s, 500ms, 5m or 1h, from 1ms",
        ),
        ("time_budget_s", "0", "from 1ms to"),
        ("spread_s", "1w", "from 0s to"),
        (
            "deadline_s",
            "500ms",
            "a duration of whole seconds, such as 90, 90s, 5m or 1h, from 1s to",
        ),
        (
            "preset",
            "c2cla",
            "core-to-core-latency or c2clat, not 'c2cla'; did you mean 'c2clat'?",
        ),
        ("order", "random", "must be shuffled or sequential"),
        ("line", "old", "must be fresh or fixed"),
        ("owner", "both", "must be ping or pong"),
        ("boost", "yes", "must be on or off"),
        ("governor", "no good", "must be a governor's name"),
        ("benchmarks", "cas/nope", "unknown variant 'nope' of cas"),
        (
            "benchmarks",
            "cas,cash",
            "unknown benchmark 'cash'; there are cas, readwrite, clock, message",
        ),
        ("benchmarks", ",", "names no benchmark"),
        ("samples", "40001", "must be a whole number from 1 to 40000; not '40001'"),
        ("sizes", "5000", "multiples of 4K; not '5000'"),
        ("sizes", "64K..16K", "multiples of 4K"),
        ("sizes", "1T", "multiples of 4K"),
        ("stride_bytes", "12", "a multiple of 8"),
        ("operations", "read,red", "copy, nt, zero, ntcopy, idle or mix, not 'red'"),
        (
            "threads",
            "0",
            "must be a list of smt, llc, cores, node, package, all and numbers",
        ),
        ("samples", "007", "must be a whole number"),
        ("separation_bytes", "6", "from 4 to 1048576, a multiple of 4; not '6'"),
    ],
)
def test_a_value_that_is_not_allowed_is_refused_with_what_is(
    name: str, text: str, words: str
) -> None:
    with pytest.raises(UsageError, match=re.escape(words)) as caught:
        parse_requested({name: text})
    assert str(caught.value).startswith(f"{BY_NAME[name].as_typed(text)}: ")


@pytest.mark.parametrize(
    "option",
    [option for option in OPTIONS if option.grammar.limits],
    ids=lambda one: one.name,
)
def test_what_is_shown_of_a_value_reads_back_as_it(option) -> None:  # type: ignore[no-untyped-def]
    for limit in option.grammar.limits:
        assert option.grammar.read(option.grammar.show(limit)) == limit


def test_what_few_runs_need_is_set_by_name() -> None:
    texts = parse_plan_words(["states=written,clean", "seed=7", "seed=7"])
    assert texts == {"states": "written,clean", "seed": "7"}
    requested = parse_requested(texts)
    assert requested.states == ("written", "clean")
    assert requested.seed == 7
    with pytest.raises(UsageError, match=r"^--plan order=random: must be shuffled"):
        parse_requested(parse_plan_words(["order=random"]))


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["rounds=3"], "^--plan rounds=3: write --rounds 3.$"),
        (["state=own"], "^--plan state=own: must be NAME=VALUE; did you mean 'states'"),
        (["variant=lse"], "^--plan variant=lse: must be NAME=VALUE"),
        (["seed"], "^--plan seed: must be NAME=VALUE"),
        (["seed=1", "seed=2"], "^--plan seed=2: seed=1 was given before; keep one"),
    ],
)
def test_a_word_that_sets_nothing_is_refused(words: list[str], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        parse_plan_words(words)


def test_a_duration_is_shown_in_its_largest_whole_unit() -> None:
    durations = [
        format_duration(seconds) for seconds in (0, 0.5, 1, 1.5, 90, 300, 5400, 7200)
    ]
    assert durations == ["0s", "500ms", "1s", "1.5s", "90s", "5m", "90m", "2h"]


def test_a_preset_and_a_number_of_rounds_turn_the_precision_off() -> None:
    assert resolve_defaults(RequestedOptions()).precision == 0.01
    assert resolve_defaults(RequestedOptions(rounds=3)).precision == 0
    assert (
        resolve_defaults(RequestedOptions(rounds=3, precision=0.05)).precision == 0.05
    )
    options = resolve_defaults(RequestedOptions(preset=Preset.C2CLAT, samples=7))
    assert options.samples == 7
    assert options.iterations == 100
    assert options.rounds == 1
    assert options.spread_s == 0
    assert set(PRESETS) == set(Preset)
