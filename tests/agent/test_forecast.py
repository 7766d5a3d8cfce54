"""The controller's own agent, asked what a plan costs on another machine."""

import tempfile
from pathlib import Path

import pytest

from fleet.agent.build.on_controller import Builder
from fleet.agent.forecast import Forecaster
from fleet.agent.wire.forecast import usual_machine
from fleet.model import Host, RequestedOptions
from fleet.plan.merge import plan_on
from tests.shared import agents_cache


def test_it_forecasts_for_another_machine_and_keeps_no_file_that_a_kill_would_leave(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host, facts = Host("rome", "rome"), usual_machine(range(8))
    plan = plan_on(host, RequestedOptions(), facts)
    asked = Forecaster(Builder(agents_cache() / "fleet" / "agents"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for _ in range(2):
        forecast = asked.of_facts(host, facts, plan)
        assert forecast is not None
        assert (forecast.cpus, forecast.pairs) == (8, 28)
        assert list(tmp_path.iterdir()) == []
