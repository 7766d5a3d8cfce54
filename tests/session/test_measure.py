"""`fleet.measure`: what `fleet run` does, from Python."""

import re
from pathlib import Path

import pytest

import fleet
from fleet.errors import FleetError, StoreWarning, UsageError
from tests.command import ROOT, entry
from tests.hosts.sshd import MakeKnown
from tests.shared import agents_cache


@pytest.fixture
def inventory(
    tmp_path: Path, known_hosts: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """The path of the inventory in the current folder; each test has a machine of its
    own.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FLEET_AGENT_LOCK", str(tmp_path / "agent.lock"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(agents_cache()))
    return tmp_path / "inventory.yaml"


def example() -> str:
    """The example for pytest of the docs."""
    page = (
        (ROOT / "docs/reading.md").read_text().partition("## Measuring from Python")[2]
    )
    (code,) = re.findall(r"```python\n(.*?)```", page.partition("\n## ")[0], re.DOTALL)
    return str(code)


def test_the_example_of_the_docs_measures_a_host_over_ssh(
    inventory: Path, make_known: MakeKnown
) -> None:
    inventory.write_text("hosts:\n" + entry(make_known().entry(name="rpi5")))
    names: dict[str, object] = {}
    exec(example(), names)
    (test,) = (
        value
        for name, value in names.items()
        if name.startswith("test_") and callable(value)
    )
    test()
    assert [*fleet.open().runs("suite=nightly")["host_name"]] == ["rpi5"]


def test_only_the_runs_just_measured_are_returned(inventory: Path) -> None:
    inventory.write_text("hosts: {here: {via: local}}\n")
    plan = {"rounds": 1, "samples": 50, "iterations": 100}
    first = fleet.measure(benchmarks="clock", inventory="inventory.yaml", **plan)
    second = fleet.measure("here", ["clock"], inventory="inventory.yaml", **plan)
    (run_id,), (other,) = first.runs()["run_id"], second.runs()["run_id"]
    assert run_id != other
    assert set(fleet.open().runs()["run_id"]) == {run_id, other}


def test_the_inventory_named_by_the_environment_gives_its_defaults(
    inventory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = inventory.with_name("lab.yaml")
    lab.write_text(
        "hosts: {here: {via: local}}\nfleet: {results: data, label: suite=nightly}\n"
    )
    monkeypatch.setenv("FLEET_INVENTORY", str(lab))
    fleet.measure("age>1d", "clock", rounds=1)
    assert [*fleet.open().runs("suite=nightly")["host_name"]] == ["here"]
    assert (lab.parent / "data").is_dir()
    monkeypatch.setenv("FLEET_RESULTS", str(lab.parent / "other"))
    assert len(fleet.measure(benchmarks="clock", rounds=1).runs("here")) == 1
    assert len(fleet.open().runs()) == 1


def test_a_session_in_which_a_host_fails_gives_the_runs_of_the_others(
    inventory: Path,
) -> None:
    inventory.write_text(
        "hosts: {here: {via: local}, gone: {address: 127.0.0.1, port: 1}}\n"
    )
    with pytest.warns(StoreWarning, match="gone: no TCP connection"):
        runs = fleet.measure(benchmarks="clock", rounds=1)
    assert [*runs.runs()["host_name"]] == ["here"]
    assert [*runs.failures] == ["gone"]


def test_an_option_that_is_none_and_a_host_that_fails_are_errors(
    inventory: Path,
) -> None:
    inventory.write_text("hosts: {here: {address: 127.0.0.1, port: 1}}\n")
    with pytest.raises(
        UsageError, match="'round' is not an option of a plan; did you mean 'rounds'"
    ):
        fleet.measure("here", "clock", round=1)
    with pytest.raises(FleetError, match="here: no TCP connection"):
        fleet.measure("here", "clock", rounds=1)
    with pytest.raises(UsageError, match="no host or group is called 'there'"):
        fleet.measure("there")
