"""Draws a session as a live table: a row per host, or an overview of many."""

from collections.abc import Collection, Iterator, Sequence
from functools import partial

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
        if (
            isinstance(event, events.NoteAdded)
            and len(self._rows.by_name) <= NOTES_AS_THEY_ARRIVE
        ):
            line = f"{event.host.name}: {strip_host_name(event.host, event.text)}"
            self._console.print(Text(line, style="dim"))  # takes the console's own lock

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
            rows = self._rows.by_name
            if len(rows) <= min(height, MANY):
                table: Table | Group = self._draw_rows(list(rows.values()), height)
            else:
                overview = _one_line(self._rows.describe_hosts())
                table = Group(
                    overview,
                    self._draw_rows(choose_rows(rows.values(), height - 1), height - 1),
                )
            with_pairs = [
                row
                for row in rows.values()
                if row.live_medians and row.live_medians.latest
            ]
            first = (
                min(with_pairs, key=lambda row: row.entered)
                if self._as_map and with_pairs
                else None
            )
            medians = first.live_medians if first else None
        if first is None or medians is None:
            return table
        height -= len(self._console.render_lines(table))
        return Group(table, *self._draw_maps(first.host.name, medians, height))

    def _draw_maps(
        self, host: str, medians: LiveMedians, height: int
    ) -> Iterator[Text]:
        """Draw a heat map of the pairs' last bursts for each benchmark, as many
        as fit.
        """
        from fleet.analysis.reduce.topology import lay_out_cpus  # noqa: PLC0415
        from fleet.analysis.views.heatmap import Canvas, draw_matrix  # noqa: PLC0415

        numbers = [cpu.cpu for cpu in medians.cpus]
        for benchmark, cells in sorted(medians.latest.items()):
            matrix = np.array(cells, dtype=np.float64).reshape(len(numbers), -1)
            columns = np.flatnonzero(np.isfinite(matrix).any(axis=0))
            layout = lay_out_cpus(medians.cpus, [numbers[column] for column in columns])
            order = [numbers.index(cpu) for cpu in layout.cpus]
            canvas = Canvas(
                self._console.width, self._console.color_system is not None, height - 1
            )
            label = medians.labels[benchmark]
            drawing = draw_matrix(
                matrix[np.ix_(order, order)], layout, canvas, label=label, as_map=True
            )
            height -= 1 + len(drawing.plain.splitlines())
            if height < 0:
                return
            drawing.rstrip()
            yield (
                Text(f"{host}, {benchmark}, the last burst of each pair")
                .append("\n")
                .append_text(drawing)
            )

    def _draw_rows(self, rows: Sequence[Row], height: int) -> Table:
        """Draw these rows. If `height` allows, each benchmark's medians stand on their
        own line.
        """
        separator = (
            "\n" if sum(max(len(row.medians), 1) for row in rows) <= height else "; "
        )
        titles = ["host", "stage", "bursts", "left"]
        if any(row.medians for row in rows):
            titles.append("medians so far, ns")
        table = Table(box=None, pad_edge=False, header_style="bold")
        for title in titles:
            justify = "right" if title in ("bursts", "left") else "left"
            # The others give way to these.
            no_wrap = title in ("host", "bursts", "left")
            table.add_column(
                _one_line(title),
                justify=justify,  # type: ignore[arg-type]
                no_wrap=no_wrap,
                overflow="ellipsis",
            )
        for row in rows:
            name = shorten_name(
                row.host.name, max(NAME_LENGTH, self._console.width // 3)
            )
            cells = [
                name,
                *self._make_state_cells(row),
                _one_line(row.format_medians(separator)),
            ]
            table.add_row(*cells[: len(titles)])
        return table

    def _make_state_cells(self, row: Row) -> tuple[Text | str, ...]:
        if row.outcome is not None:
            state = row.outcome.state
            word = f"{state}" if state is State.COMPLETE else f"{state} ({row.stage})"
            cell = _one_line(word, style=_COLOURS.get(state, "yellow"))
            return cell, row.bursts, f"in {row.outcome.seconds:.1f} s"
        left = (
            row.estimate_left(self._rows.clock())[1] if row.stage == "measure" else ""
        )
        stage = f"{row.stage}: {row.detail}" if row.detail else row.stage
        return (
            _one_line(stage, style="dim" if row.stage == WAITING else ""),
            row.bursts,
            left,
        )


def choose_rows(rows: Collection[Row], count: int) -> list[Row]:
    """Choose at most `count` rows: recent failures in half or in all free ones, then
    the longest at work.
    """
    failed = [row for row in rows if row.state not in (None, State.COMPLETE)]
    working = [row for row in rows if row.state is None and row.stage != WAITING]
    working.sort(key=lambda row: row.started)
    share = max(count // 2, count - len(working))
    return [*failed[-share:], *working][:count]
