"""An agent's end, told from its exit code and its last line."""

from dataclasses import replace
from pathlib import Path

from tests import builders
from tests.agent.liar import Liar
from tests.agent.wire.test_conversation import BURST, HELLO, line

VISIT = {key: BURST[key] for key in ("benchmark", "variant", "ping", "pong")}
RUN = replace(
    builders.a_run(),
    agent=replace(builders.a_run().agent, build=HELLO["build"]),
)
SAID = [
    line(HELLO, cpus=[0, 1], pairs=1, seed=RUN.plan.seed, memory_kills=2),
    line(BURST, pong=1, pong_cpus=[1, 1]),
    line({"record": "alive", **VISIT}, round=1, pong=1),
]


def test_the_visit_that_killed_the_agent_has_failed_though_its_record_was_torn(
    tmp_path: Path,
) -> None:
    torn = 'printf %s \'{"record":"burst","benchm\'; kill -s KILL $$'
    machine = '{"record":"machine","memory_limit":"/job, 1 MiB","memory_kills":3}'
    liar = Liar(tmp_path)
    run = liar.measure(RUN, SAID, torn, machine)
    (failed,) = run.failed
    assert failed.round == 1
    assert failed.given_up == "memory"
    reason = "the agent was killed for lack of memory (oom_kill 1; /job, 1 MiB)"
    assert failed.reason == reason
    kept = liar.read_journal(RUN)
    assert (kept.failed, kept.bursts, kept.damage) == (run.failed, 1, None)
