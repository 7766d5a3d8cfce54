"""A host whose memory is limited by a control group above the agent's own: as in a Slurm step or a pod."""

import os
from pathlib import Path

from tests.command import Fleet
from tests.hosts import odd

CHASE = ("-b", "chase", "--rounds", "1", "-q", "--json")


def test_a_plan_keeps_to_the_limit_or_is_refused_by_its_name(tmp_path: Path) -> None:
    work = tmp_path / "work"
    name = f"fleet-test-memory-{os.getpid()}"
    with odd.memory_group(name, 160 << 20) as group, Fleet(tmp_path) as fleet:
        into = f'echo $$ >{group}/cgroup.procs; exec "$@"'
        fleet.inventory(f"hosts:\n  job: {{via: command, workdir: {work}, command: [sh, -c, '{into}', -]}}\n")
        (refused,) = fleet("run", *CHASE, "--sizes", "256M").json
        assert refused["stage"] == "usage"
        assert not (tmp_path / "results").exists() or not any(fleet.results.rglob("*.parquet"))
        assert f"available (control group /{name}, 160 MiB) may be taken: --sizes," in refused["message"]
        (kept,) = fleet("run", *CHASE, "--sizes", "16K,32K").json
        assert kept["state"] in {"complete", "partial"}, kept
        assert len(fleet.samples()) > 0
