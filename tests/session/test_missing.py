"""A session that could not measure a host says so wherever its runs are shown."""

import pytest

from tests.command import Fleet

RUN = ("run", "-b", "clock", "--rounds", "1", "--samples", "9", "-q")


@pytest.mark.long
def test_a_host_that_a_session_could_not_reach_is_missing_until_it_is_measured(
    fleet: Fleet,
) -> None:
    fleet.inventory(
        "hosts:\n  here: {via: local}\n  twin: {via: local}\n  gone: {address:"
        " 127.0.0.1, port: 1}\n"
    )
    assert fleet(*RUN).exit_code == 1
    heading = fleet("show").stdout.partition("\n")[0]
    assert heading.startswith("2 of 3 hosts, 2 runs, ")
    assert "; missing: gone (connection refused, " in heading
    assert fleet("show", "--csv").stderr == f"{heading}\n"
    reason = heading[heading.index("gone (") :]
    assert f"<p>{heading}. Measured: clock" in fleet("report", "-o", "-").stdout
    assert fleet("report", "all", "-o", "site/").exit_code == 0
    assert reason in (fleet.folder / "site/index.html").read_text()
    *_, gone = fleet("show", "--json").json
    assert gone["run"]["host_name"] == "gone"
    assert gone["run"]["state"] == "missing"
    assert gone["pairs"] == []
    assert "connection refused" in gone["run"]["why"]
    answer = fleet("show", "gone")
    assert answer.exit_code == 2
    assert "gone: not measured. At 20" in answer.stderr
    assert "connection refused). Is the host up, " in answer.stderr
    starts = {
        host["name"]: host["measured_utc"] for host in fleet("hosts", "--json").json
    }
    assert starts["gone"] is None
    assert starts["here"].endswith("Z")
    assert [host["name"] for host in fleet("hosts", "age>1h", "--json").json] == [
        "gone"
    ]
    assert fleet("show", "age>1h").exit_code == 2
    fleet.inventory(
        "hosts:\n  here: {via: local}\n  twin: {via: local}\n  gone: {via: local}\n"
    )
    assert fleet("resume", "-q").exit_code == 0
    assert "missing" not in fleet("show").stdout


def test_a_host_of_which_an_older_run_is_shown_is_not_missing(fleet: Fleet) -> None:
    fleet.inventory("hosts:\n  here: {via: local}\n")
    run = ("run", "-b", "clock", "--rounds", "1", "-q")
    assert fleet(*run).exit_code == 0
    fleet.inventory("hosts:\n  here: {address: 127.0.0.1, port: 1}\n")
    assert fleet(*run).exit_code != 0
    assert "missing" not in fleet("show").stdout


def test_a_single_host_is_shown_below_the_missing_ones(fleet: Fleet) -> None:
    fleet.inventory(
        "hosts:\n  here: {via: local}\n  gone: {via: local, before: exit 3}\n"
    )
    fleet(*RUN)
    shown = fleet("show").stdout
    assert "1 of 2 hosts, 1 run, " in shown
    assert "gone (`…` of `before` failed, " in shown
    assert "missing" not in fleet("show", "here").stdout
