"""Puts a run together that took several agents, one after the other: its parts (docs/durability.md). Pure.

Each part is a conversation of its own, from hello to wherever it was cut; `wire` follows each.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from fleet.agent.wire import conversation
from fleet.agent.wire.done import Done
from fleet.agent.wire.records import WireError
from fleet.model import Burst, End, Failed, Hello, Note, Pairs

Part = Iterable[bytes]
RATE_PPM = 1000
"""How much the rate of a clock that each agent measures anew may differ; far less than any precision."""

_SAME = ("build", "os", "arch", "clock", "cpus", "pairs")
_SAME_RAW = ("seed", "plan")


@dataclass(frozen=True, slots=True)
class RunSoFar:
    """What the parts of a run say together, beside its bursts. `lacking`: why it is not finished, or None.

    hello: the first one, for the whole run; None if no agent ever said it. end: of the last part, with the
    counts of all; None if that was cut. parts: how many said hello.
    """

    hello: Hello | None
    end: End | None
    failed: tuple[Failed, ...]
    notes: tuple[str, ...]
    done: Done
    parts: int
    lacking: str | None


def read(parts: Iterable[Part]) -> RunSoFar:
    """Follow all parts. Raises WireError for what the wire forbids, or parts that are not of one run."""
    first: Hello | None = None
    end: End | None = None
    done, count = Done(), 0
    failed: list[Failed] = []
    notes: list[str] = []
    lacking: str | None = conversation.Reader().verdict()
    for part in parts:
        reader, mine = conversation.Reader(done), done
        for line in part:
            match reader.feed(line):
                case Hello() as hello:
                    check_same_run(first, hello)
                    first = first or hello
                    mine = done if done else Done(_ordered(hello))
                case Burst() | Failed() as visit:
                    mine.add(visit)
                case Note() as note:
                    notes.append(note.text)
                case _:
                    pass
        if reader.hello is None:
            continue
        failed += reader.failed
        done, count, end, lacking = mine, count + 1, reader.end, reader.verdict()
    if end is not None:
        end = replace(end, bursts=done.bursts, failed=len(failed))
    return RunSoFar(first, end, tuple(failed), tuple(notes), done, count, lacking)


def of_one(reader: conversation.Reader) -> RunSoFar:
    """The same of a run in one part that was followed as it came; `done` and `notes` are left empty."""
    return RunSoFar(reader.hello, reader.end, tuple(reader.failed), (), Done(), 1, reader.verdict())


def check_same_run(first: Hello | None, other: Hello) -> None:
    """Raise WireError if two agents cannot have measured one run."""
    if first is None:
        return
    for name in _SAME:
        if getattr(first, name) != getattr(other, name):
            raise WireError(f"an agent with another {name} cannot go on with this run")
    for name in _SAME_RAW:
        if first.raw.get(name) != other.raw.get(name):
            raise WireError(f"an agent with another {name} cannot go on with this run")
    if abs(other.ticks_per_second / first.ticks_per_second - 1) * 1e6 > RATE_PPM:
        raise WireError(
            f"the clock ticks {other.ticks_per_second} times a second now, {first.ticks_per_second} before"
        )


def bursts(parts: Iterable[Part]) -> Iterator[Burst]:
    """Decode the bursts of parts already found good, with their flags, as one run's.

    Their start offsets all count from the first hello, by the host's own clock.
    """
    zero: int | None = None
    for part in parts:
        lines = iter(part)
        hello = conversation.skip_to_hello(lines)
        if hello is None:
            continue
        began = hello.raw.get("monotonic_ns")
        zero = began if zero is None and isinstance(began, int) else zero
        later_ns = began - zero if isinstance(began, int) and zero is not None else 0
        for burst in conversation.bursts_after(lines, hello):
            yield replace(burst, start_offset_ns=burst.start_offset_ns + later_ns) if later_ns else burst


def _ordered(hello: Hello) -> bool:
    plan = hello.raw.get("plan")
    return isinstance(plan, Mapping) and plan.get("pairs") == Pairs.ORDERED
