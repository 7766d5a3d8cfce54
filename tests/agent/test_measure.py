"""An agent's end, told from its exit code and its last line."""

from pathlib import Path

from tests.agent.liar import RUN, SAID, Liar
from tests.agent.wire.test_conversation import BURST, line

VISIT = {key: BURST[key] for key in ("benchmark", "variant", "ping", "pong")}


def test_the_visit_that_killed_the_agent_has_failed_though_its_record_was_torn(
    tmp_path: Path,
) -> None:
    said = [SAID[0] | {"memory_kills": 2}, SAID[1], SAID[1] | {"round": 1}]
    begun = {"record": "alive", **VISIT, "round": 2, "pong": 1}
    torn = 'printf %s \'{"record":"burst","benchm\'; kill -s KILL $$'
    machine = '{"record":"machine","memory_limit":"/job, 1 MiB","memory_kills":3}'
    liar = Liar(tmp_path)
    run = liar.measure(RUN, [*map(line, said), line(begun)], torn, machine)
    (failed,) = run.failed
    assert failed.round == 2
    assert failed.given_up == "memory"
    reason = "the agent was killed for lack of memory (oom_kill 1; /job, 1 MiB)"
    assert failed.reason == reason
    kept = liar.read_journal(RUN)
    assert kept.failed == run.failed
    assert kept.bursts == 2
    assert kept.damage is None
