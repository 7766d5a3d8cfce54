"""Turns an agent killed by a signal into a failed visit, and gives up what is like it. Pure."""

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from fleet.agent.wire.conversation import Reader
from fleet.agent.wire.line import Int64, WireError, decode_line

BY_VARIANT = ("ILL", "SEGV", "FPE", "ABRT", "SYS", "TRAP")
"""Signals that instructions or the agent itself bring about; KILL and BUS come from elsewhere."""


class _Machine(Struct):
    memory_limit: Annotated[str, Meta(max_length=200)] | None = None
    memory_kills: Int64 | None = None


def failed_record_after_kill(reader: Reader, after: Sequence[bytes]) -> bytes | None:
    """Return the `failed` record of the visit in which the agent was killed; None if there was none.

    after: the lines behind the agent's output, which name the signal and hold its `--machine`.
    """
    name = after[0].decode("ascii", "replace") if after else ""
    if reader.hello is None or reader.visiting is None or name not in (*BY_VARIANT, "KILL", "BUS"):
        return None
    try:
        machine = decode_line(msgspec.json.Decoder(_Machine), after[1]) if len(after) > 1 else _Machine()
    except WireError:
        machine = _Machine()
    kills_before, kills_after = reader.hello.raw.get("memory_kills"), machine.memory_kills
    kills = kills_after - kills_before if isinstance(kills_before, int) and kills_after is not None else None
    limit = f"; {machine.memory_limit}" if machine.memory_limit else ""
    given_up = "variant" if name in BY_VARIANT else "point" if kills == 0 and name == "KILL" else "memory"
    reason = f"by SIG{name}" + " (for lack of memory?)" * (given_up == "memory")
    if kills and name == "KILL":
        reason = f"for lack of memory (oom_kill {kills}{limit})"
    record = msgspec.json.decode(reader.visiting)
    return msgspec.json.encode(
        record | {"record": "failed", "reason": f"the agent was killed {reason}", "given_up": given_up}
    )
