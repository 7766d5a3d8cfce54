"""Joins the parts of a run, the outputs of one agent each (docs/wire.md). Pure."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

from fleet.agent.wire.conversation import (
    NO_HELLO,
    BurstName,
    Reader,
    add_flags_and_start,
    decode_hello,
    name_burst,
)
from fleet.agent.wire.done import Done
from fleet.agent.wire.records import Record, WireError, decode_record, split_noise
from fleet.model import Burst, End, Failed, Hello, Note, Pairs, Run, Shape

Part = Iterable[bytes | None]
"""The lines of a part; None for one that its journal does not hold as it was
written.
"""


@dataclass(frozen=True, slots=True)
class RunSoFar:
    """A run put together from its parts, the outputs of one agent each, without the
    bursts.
    """

    hello: Hello | None = None  # of the first part that has one
    end: End | None = None  # of the last part, with the counts of all; None if cut
    failed: tuple[Failed, ...] = ()
    notes: tuple[str, ...] = ()
    bursts: int = 0  # their number
    done: Done = field(default_factory=Done)
    parts: int = 0  # the number of those with a hello
    missing: str | None = NO_HELLO  # what is unfinished; None if the run is finished
    lines: tuple[int, ...] = ()  # how many good lines each part has in the journal
    refused: int = 0  # how many lines were bad, or came behind a bad one in their part
    damage: str | None = None  # why the first bad line is bad; None if none is

    @property
    def lacks_bursts(self) -> bool:
        """Whether a pair has, at a planned point, fewer bursts than the plan has
        rounds.
        """
        if self.hello is None:
            return True
        rounds = self.hello.raw["plan"].get("rounds") or 1
        return bool(self.failed) and self.done.count_short(rounds) > 0

    def add_part(self, reader: Reader) -> "RunSoFar":
        """Return the run with the part that `reader` read; unchanged if that part has
        no hello.

        An agent may take again a visit whose failed burst is in an earlier part, so the
        failed bursts of all parts are marked, and the end record counts all parts.
        """
        if reader.hello is None:
            return self
        bursts = self.bursts + reader.bursts
        failed = (*self.failed, *reader.failed)
        if reader.retaken:
            failed = tuple(_mark_retaken(failed, reader.retaken))
        end = reader.end
        if end is not None:
            retaken = sum(burst.again for burst in failed)
            end = replace(end, bursts=bursts, failed=len(failed), again=retaken)
        return replace(
            self,
            hello=self.hello or reader.hello,
            end=end,
            failed=failed,
            bursts=bursts,
            parts=self.parts + 1,
            missing=reader.explain_unfinished(),
        )


def read_run(
    parts: Iterable[Part],
    on_burst: Callable[[Burst], None] | None = None,
    requested: Run | None = None,
) -> RunSoFar:
    """Read each part up to its first line that is invalid or of another run. on_burst:
    takes each burst. requested: the run with its plan, if fleet sent one to the agent.
    """
    run = RunSoFar()
    for part in parts:
        run = _read_part(run, part, on_burst, requested)
    return run


def _read_part(
    run: RunSoFar,
    part: Part,
    on_burst: Callable[[Burst], None] | None,
    requested: Run | None,
) -> RunSoFar:
    """Return the run with another part added, up to the first bad line of that part."""
    part_reader = _PartReader(run, on_burst, requested)
    lines = iter(part)
    try:
        for line in lines:
            part_reader.read_line(line)
    except WireError as err:
        # the iterator `lines` still has the lines behind the bad one, which are refused
        # with it
        run = _set_damage_and_refused(run, str(err), lines)
    return replace(
        run.add_part(part_reader.reader),
        done=part_reader.done,
        notes=tuple(part_reader.notes),
        lines=(*run.lines, part_reader.good_lines),
    )


class _PartReader:
    """Reads a part of a run and adds its visits to those of the parts before it."""

    def __init__(
        self,
        run: RunSoFar,
        on_burst: Callable[[Burst], None] | None,
        requested: Run | None,
    ) -> None:
        """Begin a part. run: what the parts before it hold. requested: the run with the
        plan that fleet sent; None if it sent none.
        """
        self.reader = Reader(run.done, run.hello, requested)
        self.done = run.done
        self.notes = list(run.notes)
        self.good_lines = 0
        self._on_burst = on_burst

    def read_line(self, line: bytes | None) -> None:
        """Read the next line; None stands for a line that was damaged in the journal.
        Raises WireError for a bad line, which then counts nowhere.
        """
        if line is None:
            raise WireError(
                f"line {self.good_lines + 1} is not what was written (checksum)"
            )
        good_counts = self.reader.get_counts()
        try:
            self._add(self.reader.read_line(line))
        except WireError:
            self.reader.undo_to(good_counts)
            raise
        self.good_lines += 1

    def _add(self, record: Record | None) -> None:
        """Add a good record to the run; None stands for a line of noise. Of the hello,
        end and exit records, `reader` keeps what the run needs.
        """
        if isinstance(record, Hello):
            # `Done` must know before its first visit whether A,B and B,A are two pairs.
            # Later hellos say the same, or `reader` refuses them.
            if not self.done.visits:
                self.done = Done(ordered=_has_ordered_pairs(record))
        elif isinstance(record, Burst | Failed):
            self.done.add(record, _find_shape_of_benchmark(self.reader, record))
            if isinstance(record, Burst) and self._on_burst is not None:
                self._on_burst(record)
        elif isinstance(record, Note):
            self.notes.append(record.text)


def _set_damage_and_refused(
    run: RunSoFar, why: str, lines: Iterator[object]
) -> RunSoFar:
    """Return the run with a bad line in its `damage` and `refused`. lines: the lines
    behind it in its part, which are refused too.
    """
    refused = 1 + sum(1 for _ in lines)
    return replace(run, damage=run.damage or why, refused=run.refused + refused)


def _has_ordered_pairs(hello: Hello) -> bool:
    return bool(hello.raw["plan"].get("pairs") == Pairs.ORDERED)


def _find_shape_of_benchmark(reader: Reader, record: Burst | Failed) -> Shape:
    """Return the shape of the record's benchmark: how many CPUs a visit uses."""
    assert reader.hello is not None  # noqa: S101 - for the type checker
    return reader.hello.get_benchmark_or_shipped(record.benchmark).shape


def _mark_retaken(
    failed: Iterable[Failed], retaken: Iterable[BurstName]
) -> Iterator[Failed]:
    """Yield the failed bursts; set `again` where a later burst took their place."""
    names = {*retaken}
    for burst in failed:
        is_retaken = burst.again or name_burst(burst, burst.attempt) in names
        yield replace(burst, again=is_retaken)


def decode_bursts(parts: Iterable[Part]) -> Iterator[Burst]:
    """Yield the bursts that `read_run` passes to `on_burst`. The parts must be good,
    without the lines that `read_run` refused: nothing is checked again.
    """
    first_hello: Hello | None = None
    for part in parts:
        hello: Hello | None = None
        for line in filter(None, part):
            if hello is None:
                # still None if the line is noise, which may come before a part's hello
                hello = decode_hello(line)
                first_hello = first_hello or hello
                continue
            _noise, record_text = split_noise(line)
            if not record_text:
                continue
            record = decode_record(record_text)
            if isinstance(record, Burst):
                yield add_flags_and_start(record, hello, first_hello)
