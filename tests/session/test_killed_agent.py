"""Agents that a signal kills in a burst: what is like its visit is given up, the rest
is stored.
"""

import json
import signal
from pathlib import Path

import pandas as pd
import pytest

from tests import needs
from tests.command import Fleet
from tests.native.preload import preload
from tests.shared import agents_cache

PLAN = (
    "-b",
    "chase,clock",
    "--sizes",
    "16K,64K,8M",
    "--plan",
    "pages=base",
    "--cpus",
    "0",
    "--rounds",
    "2",
)
"""Memory is written 4 MiB at a time."""


@pytest.mark.long
@pytest.mark.parametrize(
    ("number", "given_up", "deaths"),
    [
        (signal.SIGBUS, "memory", 1),
        (signal.SIGKILL, "point", 3),
        (signal.SIGILL, "variant", 1),
    ],
    ids=str,
)
def test_what_kills_the_agent_is_given_up_and_the_rest_is_stored(
    tmp_path: Path, number: signal.Signals, given_up: str, deaths: int
) -> None:
    needs.program("cc", "gcc")
    env = preload("lethal.c") | {
        "LETHAL_BYTES": str(6 << 20),
        "LETHAL_SIGNAL": str(int(number)),
    }
    with Fleet(
        tmp_path, environment={"XDG_CACHE_HOME": str(agents_cache("dynamic"))}
    ) as fleet:
        fleet.inventory(f"hosts:\n  here: {{via: local, env: {json.dumps(env)}}}\n")
        (row,) = fleet("run", *PLAN, "--json").json
        assert row["state"] == "partial"
        assert f"8M.base 0-0: the agent was killed by {number.name}" in row["message"]
        assert any(
            "Given up after an agent was killed: " in note for note in row["notes"]
        )
        failed = json.loads(pd.read_parquet(fleet.results / "runs")["failed_json"][0])
        missing = [visit for visit in failed if not visit.get("again")]
        killed = [
            visit for visit in failed if f"killed by {number.name}" in visit["reason"]
        ]
        assert len(killed) == deaths
        assert {visit["given_up"] for visit in killed} == {given_up}
        visits = [
            *fleet.samples().to_dict("records"),
            *(visit for visit in missing if visit not in killed),
        ]
        measured = [visit["point"] for visit in visits if visit["benchmark"] == "chase"]
        assert "8M.base" not in str(measured)
        # rounds, orders, sizes
        assert given_up == "variant" or len(measured) == 2 * 3 * 2
        assert len(visits) == len(measured) + 2
        assert "no unfinished session" in fleet("resume").stdout
