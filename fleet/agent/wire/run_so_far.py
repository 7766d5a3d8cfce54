"""Joins the parts of a run that took several agents, a `conversation` each (docs/durability.md). Pure."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

from fleet.agent.wire.conversation import NO_HELLO, Done, Reader, add_flags_and_offset, decode_hello
from fleet.agent.wire.records import WireError, decode_record, list_planned, split_noise
from fleet.model import Burst, End, Failed, Hello, Note, Pairs, Plan
from fleet.plan.cpulist import format_cpus

Part = Iterable[bytes | None]
"""The lines of a part; None for one that its journal does not hold as it was written."""
RATE_PPM = 1000
"""How much the rate of a clock that each agent measures anew may differ; far less than any precision."""

_SAME = ("build", "os", "arch", "clock", "cpus", "pairs", "counters", "benchmarks", "seed", "plan")


@dataclass(frozen=True, slots=True)
class RunSoFar:
    """The parts of a run together, without the bursts.

    hello: the first. end: of the last part, with the counts of all; None if cut. missing: what is unfinished.
    parts: the number with a hello. lines: the good lines of each part that a journal has. refused: the lines
    from the first bad one on. damage: why that one is bad.
    """

    hello: Hello | None = None
    end: End | None = None
    failed: tuple[Failed, ...] = ()
    notes: tuple[str, ...] = ()
    bursts: int = 0
    done: Done = field(default_factory=Done)
    parts: int = 0
    missing: str | None = NO_HELLO
    lines: tuple[int, ...] = ()
    refused: int = 0
    damage: str | None = None

    def add_part(self, reader: Reader) -> "RunSoFar":
        """Return the run with the part that `reader` followed; unchanged if that had no hello."""
        if reader.hello is None:
            return self
        bursts, failed = self.bursts + reader.bursts, (*self.failed, *reader.failed)
        return replace(
            self,
            hello=self.hello or reader.hello,
            end=reader.end and replace(reader.end, bursts=bursts, failed=len(failed)),
            failed=failed,
            bursts=bursts,
            parts=self.parts + 1,
            missing=reader.why_unfinished(),
        )


def read_run(parts: Iterable[Part], keep: Callable[[Burst], None] | None = None) -> RunSoFar:
    """Read each part up to a line that is invalid or of another run. keep: receives each burst."""
    run = RunSoFar()
    notes: list[str] = []
    for part in parts:
        reader, done, lines, good_lines = Reader(run.done, run.hello), run.done, iter(part), 0
        before = (done.bursts, done.visits - done.bursts)
        try:
            for line in lines:
                if line is None:
                    raise WireError(f"line {good_lines + 1} is not what was written (checksum)")
                match record := reader.read_line(line):
                    case Hello() as hello:
                        reader.hello = None  # until it is known to be of this run
                        check_same_run(run.hello, hello)
                        reader.hello = hello
                        done = done if done.visits else Done(hello.raw["plan"].get("pairs") == Pairs.ORDERED)
                    case Burst() | Failed():
                        assert reader.hello is not None  # noqa: S101 - for the type checker
                        done.add(record, reader.hello.describe(record.benchmark).shape)
                        if keep is not None and isinstance(record, Burst):
                            keep(record)
                    case Note() as note:
                        notes.append(note.text)
                    case _:
                        pass
                good_lines += 1
        except WireError as err:
            run = replace(run, damage=run.damage or str(err), refused=run.refused + 1 + sum(1 for _ in lines))
            reader.bursts = done.bursts - before[0]  # the reader may have counted the bad line
            del reader.failed[done.visits - done.bursts - before[1] :]
        run = replace(run.add_part(reader), done=done, notes=tuple(notes), lines=(*run.lines, good_lines))
    return run


def check_plan(plan: Plan, hello: Hello) -> None:
    """Raise WireError if an agent measures benchmarks or CPUs outside the plan, or has another seed."""
    if others := sorted({name for name, _, _ in list_planned(hello)} - {*plan.benchmarks}):
        raise WireError(f"it measures {', '.join(others)}, but was asked for {', '.join(plan.benchmarks)}")
    if isinstance(plan.cpus, tuple) and (beyond := {*hello.cpus} - {*plan.cpus}):
        raise WireError(f"it measures CPU {format_cpus(beyond)}, but was asked for {format_cpus(plan.cpus)}")
    if hello.raw.get("seed") != plan.seed:
        raise WireError(f"its seed is {hello.raw.get('seed')}, but was asked for {plan.seed}")


def check_same_run(first: Hello | None, other: Hello) -> None:
    """Raise WireError if two agents cannot have measured one run."""
    if first is None:
        return
    for name in _SAME:
        if first.raw.get(name) != other.raw.get(name):
            raise WireError(f"an agent with another {name} cannot continue this run")
    if abs(other.ticks_per_second / first.ticks_per_second - 1) * 1e6 > RATE_PPM:
        raise WireError(
            f"the clock ticks {other.ticks_per_second} times a second now, {first.ticks_per_second} before"
        )


def decode_bursts(parts: Iterable[Part]) -> Iterator[Burst]:
    """Decode the bursts of parts that were read before, as `read_run` gives them to its `keep`."""
    first: Hello | None = None
    for part in parts:
        hello: Hello | None = None
        for line in filter(None, part):
            if hello is None:
                hello = decode_hello(line)
                first = first or hello
            elif (record_text := split_noise(line)[1]) and isinstance(
                record := decode_record(record_text), Burst
            ):
                yield add_flags_and_offset(record, hello, first)
