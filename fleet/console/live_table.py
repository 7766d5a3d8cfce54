"""Draws a session as a live table: a row per host, or an overview of many."""

from collections.abc import Collection, Iterator, Sequence
from functools import partial
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from fleet.console.rows import MANY, WAITING, Row, Rows
from fleet.console.summary import NOTES_AS_THEY_ARRIVE
from fleet.hostnames import strip_host_name
from fleet.late import np
from fleet.model import Host
from fleet.session import events
from fleet.session.events import State
from fleet.session.live_medians import LiveMedians
from fleet.text import NAME_LENGTH, shorten_name

_COLOURS = {State.COMPLETE: "green", State.FAILED: "red"}  # of others: yellow
_LINES_BESIDE_TABLE = 3
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

    def __call__(self, event: events.Event) -> None:
        """Update the table. If there are few hosts, print their notes above it."""
        self._rows.update(event)
        are_few = len(self._rows.by_name) <= NOTES_AS_THEY_ARRIVE
        if are_few and isinstance(event, events.NoteAdded):
            self._print_note(event.host, event.text)

    def _print_note(self, host: Host, text: str) -> None:
        note = strip_host_name(host, text)
        line = Text(f"{host.name}: {note}", style="dim")
        self._console.print(line)  # takes the console's own lock

    def live(self) -> Live:
        """Return a context manager that shows the table on the terminal."""
        hz = 1 if self._as_map else 4  # a map of 128 CPUs takes a twentieth of a second
        return Live(
            get_renderable=self.render,
            console=self._console,
            refresh_per_second=hz,
            transient=True,
        )

    def render(self) -> Table | Group:
        """Draw the present state; called by the thread that refreshes the table."""
        height = max(1, self._console.size.height - _LINES_BESIDE_TABLE)
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
        rows = self._rows.by_name.values()
        if len(rows) <= min(height, MANY):
            return self._draw_rows(list(rows), height)
        overview = _one_line(self._rows.describe_hosts())
        height -= 1
        chosen = choose_rows(rows, height)
        return Group(overview, self._draw_rows(chosen, height))

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
        """Draw a heat map of the pairs' last bursts for each benchmark, as many
        as fit.
        """
        for benchmark in sorted(medians.latest):
            heading = Text(f"{host}, {benchmark}, the last burst of each pair\n")
            drawing = self._draw_map(medians, benchmark, height - 1)
            height -= 1 + len(drawing.plain.splitlines())
            if height < 0:
                return
            drawing.rstrip()
            yield heading.append_text(drawing)

    def _draw_map(self, medians: LiveMedians, benchmark: str, height: int) -> Text:
        """Draw the heat map of a benchmark: the CPUs measured so far, in the order of
        the topology.
        """
        from fleet.analysis.reduce.topology import lay_out_cpus  # noqa: PLC0415
        from fleet.analysis.views.heatmap import Canvas, draw_matrix  # noqa: PLC0415

        numbers = [cpu.cpu for cpu in medians.cpus]
        matrix = _make_matrix(medians.latest[benchmark], len(numbers))
        is_measured = np.isfinite(matrix).any(axis=0)
        measured = [numbers[column] for column in np.flatnonzero(is_measured)]
        layout = lay_out_cpus(medians.cpus, measured)
        places = [numbers.index(cpu) for cpu in layout.cpus]
        has_colour = self._console.color_system is not None
        return draw_matrix(
            matrix[np.ix_(places, places)],
            layout,
            Canvas(self._console.width, has_colour, height),
            label=medians.labels[benchmark],
            as_map=True,
        )

    def _draw_rows(self, rows: Sequence[Row], height: int) -> Table:
        """Draw these rows. If `height` allows, each benchmark's medians stand on their
        own line.
        """
        has_medians = any(row.medians for row in rows)
        lines = sum(max(len(row.medians), 1) for row in rows)
        separator = "\n" if lines <= height else "; "
        table = _make_table(has_medians=has_medians)
        for row in rows:
            cells = [self._shorten_name(row.host), *self._make_state_cells(row)]
            if has_medians:
                cells.append(_one_line(row.format_medians(separator)))
            table.add_row(*cells)
        return table

    def _shorten_name(self, host: Host) -> str:
        """Shorten a host's name to a third of the terminal."""
        third = self._console.width // 3
        return shorten_name(host.name, max(NAME_LENGTH, third))

    def _make_state_cells(self, row: Row) -> tuple[Text | str, ...]:
        """Return the cells of the stage or final state, the bursts and the time."""
        if row.outcome is not None:
            time = f"in {row.outcome.seconds:.1f} s"
            return _describe_ending(row.outcome.state, row.stage), row.bursts, time
        text = row.stage
        if row.detail:
            text += f": {row.detail}"
        style = "dim" if row.stage == WAITING else ""
        left = row.describe_left(self._rows.clock())
        return _one_line(text, style=style), row.bursts, left


def _has_measured_pairs(row: Row) -> bool:
    return row.live_medians is not None and bool(row.live_medians.latest)


def _make_matrix(latest: Sequence[float], count: int) -> Any:
    """Return the last burst of each pair as a matrix of `count` CPUs, NaN where none
    was.
    """
    return np.array(latest, dtype=np.float64).reshape(count, -1)


def _describe_ending(state: State, stage: str) -> Text:
    """Describe a final state in its colour, with the stage unless it is complete."""
    text = str(state)
    if state is not State.COMPLETE:
        text += f" ({stage})"
    return _one_line(text, style=_COLOURS.get(state, "yellow"))


def _make_table(*, has_medians: bool) -> Table:
    """Return a table without rows, whose texts give way to its names and numbers."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(_one_line("host"), no_wrap=True, overflow="ellipsis")
    table.add_column(_one_line("stage"), overflow="ellipsis")
    for title in ("bursts", "left"):
        table.add_column(
            _one_line(title),
            justify="right",
            no_wrap=True,
            overflow="ellipsis",
        )
    if has_medians:
        table.add_column(_one_line("medians so far, ns"), overflow="ellipsis")
    return table


def choose_rows(rows: Collection[Row], count: int) -> list[Row]:
    """Choose at most `count` rows: recent failures in half or in all free ones, then
    the longest at work.
    """
    failed = [row for row in rows if _has_failed(row)]
    working = [row for row in rows if _is_at_work(row)]
    working.sort(key=lambda row: row.started)
    share = max(count // 2, count - len(working))
    return [*failed[-share:], *working][:count]


def _has_failed(row: Row) -> bool:
    return row.state is not None and row.state is not State.COMPLETE


def _is_at_work(row: Row) -> bool:
    return row.state is None and row.stage != WAITING
