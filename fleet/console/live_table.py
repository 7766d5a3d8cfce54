"""Draws a session as a live table: a row per host, or an overview of many."""

from collections.abc import Collection, Iterator, Sequence
from functools import partial
from itertools import compress
from typing import Any, NamedTuple

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from fleet.console.rows import MANY, WAITING, Row, Rows
from fleet.console.summary import MAX_HOSTS_WITH_LIVE_NOTES
from fleet.hostnames import strip_host_name
from fleet.late import np
from fleet.model import Host
from fleet.session import events
from fleet.session.events import State
from fleet.session.live_medians import LiveMedians
from fleet.text import shorten_name

_COLOURS = {State.COMPLETE: "green", State.FAILED: "red"}  # of others: yellow
_LINES_BESIDE_TABLE = 3
_TITLES = ("host", "stage", "bursts", "time")
_NUMBERS = ("bursts", "time")  # titles of columns aligned to the right
_LEAST_NAME_WIDTH = 10
_LEAST_WIDTHS = (9, 6, 6, 0)  # of the columns after the names
_GAP = 2  # between columns
# At the end of a line the terminal shows ^C; wrapped, it would tear the table.
_ROOM_FOR_ECHO = len("^C")
_one_line = partial(Text, no_wrap=True, overflow="ellipsis")


class LiveTable:
    """Handles a session's events and draws its state; no higher than the terminal.
    as_map: add heat maps.
    """

    def __init__(
        self, hosts: Sequence[Host], console: Console, *, as_map: bool = False
    ) -> None:
        self._rows = Rows(hosts)
        self._console = console
        self._as_map = as_map
        self._widths = _Widths()
        self._announced = ""
        self._live: Live | None = None

    def __call__(self, event: events.Event) -> None:
        """Update the table. If there are few hosts, print their notes above it."""
        self._rows.update(event)
        are_few = len(self._rows.by_name) <= MAX_HOSTS_WITH_LIVE_NOTES
        if are_few and isinstance(event, events.NoteAdded):
            self._print_note(event.host, event.text)

    def announce(self, text: str) -> None:
        """Show a line about the whole session below the table until it ends."""
        self._announced = text

    def _print_note(self, host: Host, text: str) -> None:
        """Print a note above the table."""
        note = strip_host_name(host, text)
        line = Text(f"{host.name}: {note}", style="dim")
        if self._live is None:
            self._console.print(line)
            return
        # Rich works out where the table is before it writes: between the two, no other
        # thread may draw.
        with self._live._lock:
            self._console.print(line)

    def live(self) -> Live:
        """Return a context manager that shows the table on the terminal."""
        hz = 1 if self._as_map else 4  # a map of 128 CPUs takes a twentieth of a second
        self._live = Live(
            get_renderable=self.render,
            console=self._console,
            refresh_per_second=hz,
            transient=True,
        )
        return self._live

    def render(self) -> Table | Group:
        """Draw the present state; called by the thread that refreshes the table."""
        height = max(1, self._console.size.height - _LINES_BESIDE_TABLE)
        if self._announced:
            height = max(1, height - 1)
            return Group(self._draw(height), _one_line(self._announced))
        return self._draw(height)

    def _draw(self, height: int) -> Table | Group:
        """Draw the table, and the maps that fit below it."""
        with self._rows.guard:
            table = self._draw_table(height)
            mapped = self._choose_row_to_map()
            medians = mapped.live_medians if mapped else None
        if mapped is None or medians is None:
            return table
        height -= len(self._console.render_lines(table))
        maps = self._draw_maps(mapped.host.name, medians, height)
        return Group(table, *maps)

    def _draw_table(self, height: int) -> Table | Group:
        """Draw a row per host, or counts and the rows that fit below them."""
        rows = list(self._rows.by_name.values())
        if len(rows) <= min(height, MANY):
            return self._draw_rows(rows, height)
        overview = _one_line(self._rows.describe_hosts())
        height_below = height - 1
        fitting = choose_rows(rows, height_below)
        table = self._draw_rows(fitting, height_below)
        return Group(overview, table)

    def _choose_row_to_map(self) -> Row | None:
        """Return the row of the host that has measured longest, of those with pairs."""
        if not self._as_map:
            return None
        rows = self._rows.by_name.values()
        with_pairs = [row for row in rows if _has_measured_pairs(row)]
        return min(with_pairs, key=lambda row: row.entered, default=None)

    def _draw_maps(
        self, host: str, medians: LiveMedians, height: int
    ) -> Iterator[Text]:
        """Draw a heat map of the pairs' last bursts for each benchmark, as many maps as
        fit. medians: of the mapped host. height: the lines that are free.
        """
        for benchmark in sorted(medians.latest):
            heading = Text(f"{host}, {benchmark}, the last burst of each pair\n")
            # the heading takes a line
            drawing = self._draw_map(medians, benchmark, height - 1)
            height -= 1 + len(drawing.plain.splitlines())
            if height < 0:
                return
            drawing.rstrip()
            yield heading.append_text(drawing)

    def _draw_map(self, medians: LiveMedians, benchmark: str, height: int) -> Text:
        """Draw the heat map of a benchmark: the CPUs measured so far, in the order of
        the topology. The matrix has a row and a column for each CPU that may be
        measured, NaN for a pair that was not.
        """
        from fleet.analysis.reduce.topology import lay_out_cpus  # noqa: PLC0415
        from fleet.analysis.views.heatmap import Canvas, draw_matrix  # noqa: PLC0415

        every_cpu = [cpu.cpu for cpu in medians.cpus]
        matrix = _make_matrix(medians.latest[benchmark], len(every_cpu))
        is_measured = np.isfinite(matrix).any(axis=0)
        measured_cpus = list(compress(every_cpu, is_measured))
        layout = lay_out_cpus(medians.cpus, measured_cpus)
        places = [every_cpu.index(cpu) for cpu in layout.cpus]
        rows_and_columns = np.ix_(places, places)
        canvas = Canvas(
            width=self._console.width,
            colour=self._console.color_system is not None,
            height=height,
        )
        return draw_matrix(
            matrix[rows_and_columns],
            layout,
            canvas,
            label=medians.labels[benchmark],
            as_map=True,
        )

    def _draw_rows(self, rows: Sequence[Row], height: int) -> Table:
        """Draw these rows. If `height` allows, each benchmark's medians stand on their
        own line.
        """
        lines_of_rows = [max(len(row.medians), 1) for row in rows]
        separator = "; "
        if sum(lines_of_rows) <= height:
            separator = "\n"
        now = self._rows.clock()
        cells = [_describe_row(row, now, separator) for row in rows]
        hosts = [row.host for row in rows]
        has_medians = any(row.medians for row in rows)
        return self._make_table(hosts, cells, has_medians=has_medians)

    def _make_table(
        self, hosts: Sequence[Host], cells: Sequence["_Cells"], *, has_medians: bool
    ) -> Table:
        """Make a table of these cells, a row per host, no wider than the terminal."""
        self._widths.make_room(cells)
        title, *_ = _TITLES
        names = [title, *(host.name for host in hosts)]
        longest_name = max(map(len, names))
        widths = self._widths.share_out(self._console.width, longest_name)
        table = _make_empty_table(widths, has_medians=has_medians)
        name_width, *_ = widths
        for host, own_cells in zip(hosts, cells, strict=True):
            name = shorten_name(host.name, name_width)
            table.add_row(name, *own_cells)
        return table


class _Cells(NamedTuple):
    """What a row shows beside its host's name. last: its medians, else why it is in its
    stage.
    """

    stage: Text
    bursts: Text
    time: Text
    last: Text


def _describe_row(row: Row, now: float, separator: str) -> _Cells:
    """Return the cells of a row. separator: between the medians of two benchmarks."""
    medians = row.format_medians(separator)
    last = _one_line(medians)
    if not row.medians:
        last = _one_line(row.detail, style="dim")
    return _Cells(
        stage=_describe_stage(row),
        bursts=_one_line(row.bursts),
        time=_one_line(row.describe_time(now)),
        last=last,
    )


def _describe_stage(row: Row) -> Text:
    if row.outcome is not None:
        return _describe_ending(row.outcome.state, row.stage)
    if row.stage == WAITING:
        return _one_line(row.stage, style="dim")
    return _one_line(row.stage)


class _Widths:
    """The widths of the columns, which only grow: columns stay in their place."""

    def __init__(self) -> None:
        self._needed = list(_LEAST_WIDTHS)

    def make_room(self, rows: Sequence[_Cells]) -> None:
        """Make each column as wide as its longest cell. Dim words behind the stage
        widen none: they stand there only until medians come, and may be cut off.
        """
        for row in rows:
            for place, cell in enumerate(row):
                is_stage = place == 0
                if is_stage or cell.style != "dim":
                    width = _measure_width(cell)
                    self._needed[place] = max(width, self._needed[place])

    def share_out(self, total: int, longest_name: int) -> tuple[int, ...]:
        """Return the width of the names and of each column. Names give way first, then
        the last column.
        """
        *middle_widths, last = self._needed
        gaps = _GAP * len(self._needed)
        # The names and the last column share what the others leave. The room for an
        # echo is for the ^C that a user types.
        room = total - _ROOM_FOR_ECHO - sum(middle_widths) - gaps
        shortest_name = min(longest_name, _LEAST_NAME_WIDTH)
        name_that_fits = min(longest_name, room - last)
        name = max(name_that_fits, shortest_name)
        rest = max(room - name, 1)
        return (name, *middle_widths, rest)


def _measure_width(cell: Text) -> int:
    return max(map(len, cell.plain.split("\n")))


def _has_measured_pairs(row: Row) -> bool:
    return row.live_medians is not None and bool(row.live_medians.latest)


def _make_matrix(latest: Sequence[float], count: int) -> Any:
    """Return the last burst of each pair as a matrix of `count` CPUs, NaN where none
    was. latest: the rows of that matrix, one behind another.
    """
    bursts = np.array(latest, dtype=np.float64)
    return bursts.reshape(count, count)


def _describe_ending(state: State, stage: str) -> Text:
    """Describe a final state in its colour, with the stage unless it is complete."""
    text = str(state)
    if state is not State.COMPLETE:
        text += f" ({stage})"
    return _one_line(text, style=_COLOURS.get(state, "yellow"))


def _make_empty_table(widths: Sequence[int], *, has_medians: bool) -> Table:
    """Return a table without rows, of columns with these widths."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    last = "medians so far, ns" if has_medians else ""
    titles = (*_TITLES, last)
    for title, width in zip(titles, widths, strict=True):
        is_number = title in _NUMBERS
        table.add_column(
            _one_line(title),
            width=width,
            justify="right" if is_number else "left",
            no_wrap=True,
            overflow="ellipsis",
        )
    return table


def choose_rows(rows: Collection[Row], count: int) -> list[Row]:
    """Choose at most `count` rows: the most recent failures, oldest first, then the
    hosts that have been at work longest.

    Failures get half of the rows. If the hosts at work leave more than half free,
    failures get all that is free.
    """
    failures = [row for row in rows if _has_failed(row)]
    failures.sort(key=lambda row: row.ended)
    at_work = [row for row in rows if _is_at_work(row)]
    at_work.sort(key=lambda row: row.started)
    half = count // 2
    free = count - len(at_work)  # negative if not even the hosts at work have room
    room_for_failures = max(half, free)
    first_shown = max(len(failures) - room_for_failures, 0)
    last_failures = failures[first_shown:]
    room_for_hosts_at_work = count - len(last_failures)
    return [*last_failures, *at_work[:room_for_hosts_at_work]]


def _has_failed(row: Row) -> bool:
    return row.state is not None and row.state is not State.COMPLETE


def _is_at_work(row: Row) -> bool:
    return row.state is None and row.stage != WAITING
