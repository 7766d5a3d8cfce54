"""The controller's own agent, asked what a plan costs on another machine."""

import gc
import json
import subprocess
import tempfile
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fleet.agent.build.on_controller import Builder
from fleet.agent.forecast import (
    DAY_S,
    Forecast,
    Forecaster,
    choose_deadline_s,
    make_typical_machine,
    read_forecast,
)
from fleet.agent.wire.records import WireError
from fleet.errors import RefusedError
from fleet.model import Host, Node, RequestedOptions
from fleet.plan.merge import merge_plan_with_facts
from tests.native.build import build
from tests.replay import Replay
from tests.shared import agents_cache


def test_it_forecasts_for_another_machine_and_keeps_no_file_that_a_kill_would_leave(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = Host("rome", "rome")
    facts = make_typical_machine(range(8))
    plan = merge_plan_with_facts(host, RequestedOptions(), facts)
    forecaster = Forecaster(Builder(agents_cache() / "fleet" / "agents"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for _ in range(2):
        forecast = forecaster.from_facts(host, facts, plan)
        assert forecast is not None
        assert forecast.cpus == 8
        assert forecast.pairs == 28
        assert list(tmp_path.iterdir()) == []
    with warnings.catch_warnings(action="error"):
        del forecaster
        gc.collect()


def test_a_forecast_of_another_plan_is_named() -> None:
    done = subprocess.run(
        [build(), "--forecast", "-b", "cas,clock"], check=True, stdout=subprocess.PIPE
    )
    assert read_forecast(done.stdout, ("cas", "clock", "fetch")).visits > 0
    with pytest.raises(
        WireError, match="a forecast of 'clock', but was asked for cas, fetch"
    ):
        read_forecast(done.stdout, ("cas", "fetch"))


def test_hosts_that_are_alike_share_an_answer_that_does_not_depend_on_their_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    agents = Forecaster(Builder(agents_cache() / "fleet" / "agents"))
    machines = [
        replace(
            make_typical_machine(range(4)),
            memory_available_bytes=gib << 30,
            nodes=(Node(0, free_bytes=gib << 30),),
        )
        for gib in (4, 5)
    ]
    started = []
    run = subprocess.run
    monkeypatch.setattr(
        subprocess,
        "run",
        lambda words, **how: started.append(words) or run(words, **how),
    )
    for benchmark, answers in (("cas", 1), ("chase", 2)):
        chosen = RequestedOptions(benchmarks=(benchmark,))
        started.clear()
        rounds = [
            agents.from_facts(
                Host(name, name),
                facts,
                merge_plan_with_facts(Host(name, name), chosen, facts),
            )
            for name, facts in zip(("rome", "milan"), machines, strict=True)
        ]
        assert rounds[0] == rounds[1]
        assert len([words for words in started if "--forecast" in words]) == answers


@pytest.mark.parametrize(
    ("said", "requested", "deadline_s"),
    [
        ({}, {}, 700),
        ({"deadline_s": 2**62}, {}, DAY_S),
        ({"deadline_s": 2**62}, {"deadline_s": 90}, 90),
        ({"deadline_s": 2**62}, {"time_budget_s": 60.0}, DAY_S + 300),
        ({"ms_max": 2**62}, {"deadline_s": 90}, 90),
        ({"ms_max": 2**62}, {}, None),
        ({"ms_max": 2000 * DAY_S}, {"spread_s": 1.0 * DAY_S}, 700),
    ],
)
def test_a_forecast_sets_a_deadline_within_a_bound_of_the_plan(
    said: dict[str, int], requested: dict[str, Any], deadline_s: int | None
) -> None:
    """What an agent forecasts must not hold the controller without end."""
    host = Host("liar", "192.0.2.1")
    options = RequestedOptions(**requested)
    plan = merge_plan_with_facts(host, options, make_typical_machine(range(2)))
    record = dict.fromkeys(Forecast.__struct_fields__, 1) | {
        "record": "forecast",
        "left_out": None,
        "nodes": [],
        "benchmarks": [],
        "deadline_s": 700,
    }
    answer = json.dumps(record | said, separators=(",", ":"))
    line = answer.replace('"record":"forecast",', "").replace(
        "{", '{"record":"forecast",', 1
    )
    connection = Replay({"--forecast": line.encode()})
    forecaster = Forecaster(Builder(agents_cache() / "fleet" / "agents"))
    forecast = forecaster.from_host(connection, host, "/tmp/agent", plan)  # type: ignore[arg-type]
    if deadline_s is None:
        with pytest.raises(RefusedError, match=r"it may take 24\.0 h"):
            choose_deadline_s(host, options, plan, forecast)
        return
    assert choose_deadline_s(host, options, plan, forecast) == deadline_s
