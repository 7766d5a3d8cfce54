"""An agent that says whatever a test wants: a script on this machine, over a real
connection, up to the journal.
"""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fleet.agent.measure import measure
from fleet.agent.wire.parts import RunSoFar, read_run
from fleet.model import Host, Run, Via
from fleet.store import Store
from tests import builders
from tests.agent.wire.test_conversation import BURST, END, HELLO
from tests.shared import local_connection

HERE = Host("here", "localhost", Via.LOCAL)
ROUNDS = 3
_NUMBERS = {"samples": 2, "warmup": 1, "iterations": BURST["iterations"]}
_ASKED = builders.a_run()
RUN = replace(
    _ASKED,
    plan=replace(_ASKED.plan, rounds=ROUNDS, **_NUMBERS),
    agent=replace(_ASKED.agent, build=HELLO["build"]),
)
"""What is asked: cas between two CPUs, three times."""
_PLAN = {**HELLO["plan"], **_NUMBERS, "rounds": ROUNDS}
_HELLO = HELLO | {"cpus": [0, 1], "pairs": 1, "seed": RUN.plan.seed, "plan": _PLAN}
_BURST = BURST | {"pong": 1, "pong_cpus": [1, 1]}
SAID = [
    _HELLO | {"bursts": ROUNDS},
    *(_BURST | {"round": number} for number in range(ROUNDS)),
    END | {"bursts": ROUNDS},
]
"""What an honest agent answers."""


@dataclass
class Liar:
    """The script's folder, and the root that has its journal."""

    folder: Path

    def measure(
        self, run: Run, lines: Sequence[bytes], then: str = "", machine: str = ""
    ) -> RunSoFar:
        """Measure `run` with an agent that prints `lines` and ends with `then`.
        machine: its answer to `--machine`.
        """
        said = self.folder / "said"
        said.write_bytes(b"".join(line + b"\n" for line in lines))
        return self.measure_with(run, f"cat {shlex.quote(str(said))}\n{then}", machine)

    def measure_with(self, run: Run, script: str, machine: str = "") -> RunSoFar:
        """Measure `run` with an agent that is this sh text."""
        path = self.folder / "agent"
        answer = f"case $* in --machine*) echo {shlex.quote(machine)}; exit ;; esac"
        path.write_text(f"#!/bin/sh\n{answer}\n{script}\n")
        path.chmod(0o700)
        run = replace(run, agent=replace(run.agent, path=str(path)))
        with (
            local_connection(HERE) as connection,
            Store(self.folder / "results").new_journal(run) as journal,
        ):
            return measure(
                connection,
                run,
                RunSoFar(),
                journal,
                on_start=lambda stream: None,
                on_record=lambda record, reader: None,
            )

    def read_journal(self, run: Run) -> RunSoFar:
        """Read what the journal of `run` keeps, as `fleet resume` does."""
        with Store(self.folder / "results").reopen_journal(run.run_id) as journal:
            return read_run(journal.parts(), requested=run)
