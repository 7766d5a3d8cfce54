"""A session as a live table: a row per host, or an overview of many."""

from collections.abc import Iterator, Sequence

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
from fleet.session.live_medians import LiveMedians
from fleet.session.outcome import State

_COLOURS = {
    State.COMPLETE: "green",
    State.PARTIAL: "yellow",
    State.FAILED: "red",
    State.INTERRUPTED: "yellow",
}
_LINES_BESIDE_TABLE = 3
_MAPS_A_SECOND = 1  # one of 128 CPUs takes a twentieth of a second


class LiveTable:
    """Follows a session's events and draws them, never taller than the terminal. as_map: with a heat map."""

    def __init__(self, hosts: Sequence[Host], console: Console, *, as_map: bool = False) -> None:
        self._rows = Rows(hosts)
        self._console = console
        self._as_map = as_map

    def __call__(self, event: events.Event) -> None:
        """Take an event into the table; of few hosts, print notes above it; of more the end has them."""
        self._rows.take(event)
        if isinstance(event, events.NoteAdded) and len(self._rows.of) <= NOTES_AS_THEY_ARRIVE:
            line = f"{event.host.name}: {strip_host_name(event.host, event.text)}"
            self._console.print(Text(line, style="dim"))  # takes the console's own lock

    def live(self) -> Live:
        """The table on the terminal, as long as this context lasts."""
        pace = _MAPS_A_SECOND if self._as_map else 4
        return Live(
            get_renderable=self.render, console=self._console, refresh_per_second=pace, transient=True
        )

    def render(self) -> Table | Group:
        """Draw the present state; called by the refreshing thread."""
        room = max(1, self._console.size.height - _LINES_BESIDE_TABLE)
        with self._rows.guard:
            rows = self._rows.of
            if len(rows) <= min(room, MANY):
                drawn: Table | Group = self._drawn(list(rows), room)
            else:
                overview = Text(self._rows.overview(), no_wrap=True, overflow="ellipsis")
                drawn = Group(overview, self._drawn(notable(rows, room - 1), room - 1))
            measured = [(row.began, name) for name, row in rows.items() if row.so_far and row.so_far.latest]
            so_far = rows[min(measured)[1]].so_far if self._as_map and measured else None
        if so_far is None:
            return drawn
        room -= len(self._console.render_lines(drawn))
        return Group(drawn, *self._maps(min(measured)[1], so_far, room))

    def _maps(self, host: str, so_far: LiveMedians, room: int) -> Iterator[Text]:
        """The heat maps of a host's benchmarks, as many as there is room for: of each pair its last burst."""
        from fleet.analysis.reduce.topology import layout_of  # noqa: PLC0415
        from fleet.analysis.views.heatmap import Canvas, draw_matrix  # noqa: PLC0415

        numbers = [cpu.cpu for cpu in so_far.cpus]
        for benchmark, cells in sorted(so_far.latest.items()):
            found = np.array(cells, dtype=np.float64).reshape(len(numbers), -1)
            known = np.flatnonzero(np.isfinite(found).any(axis=0))
            order = layout_of(so_far.cpus, [numbers[place] for place in known])
            at = [numbers.index(cpu) for cpu in order.cpus]
            canvas = Canvas(self._console.width, self._console.color_system is not None, room - 1)
            shown, label = found[np.ix_(at, at)], so_far.labels[benchmark]
            drawn = draw_matrix(shown, order, canvas, label=label, as_map=True)
            room -= 1 + len(drawn.plain.splitlines())
            if room < 0:
                return
            drawn.rstrip()
            yield Text(f"{host}, {benchmark}, the last burst of each pair").append("\n").append_text(drawn)

    def _drawn(self, names: Sequence[str], room: int) -> Table:
        """The rows of these hosts; the benchmarks of one below one another where there is room."""
        rows = [self._rows.of[name] for name in names]
        between = "\n" if sum(max(len(row.medians), 1) for row in rows) <= room else "; "
        titles = ["host", "stage", "bursts", "left"]
        if any(row.medians for row in rows):
            titles.append("medians so far, ns")
        table = Table(box=None, pad_edge=False, header_style="bold")
        for title in titles:
            justify = "right" if title in ("bursts", "left") else "left"
            table.add_column(title, justify=justify, no_wrap=True, overflow="ellipsis")  # type: ignore[arg-type]
        for name, row in zip(names, rows, strict=True):
            table.add_row(name, *[*self._cells(row), Text(row.numbers(between))][: len(titles) - 1])
        return table

    def _cells(self, row: Row) -> tuple[Text | str, ...]:
        if row.outcome is not None:
            state = row.outcome.state
            word = f"{state}" if state is State.COMPLETE else f"{state} ({row.stage})"
            return Text(word, style=_COLOURS[state]), row.bursts, f"in {row.outcome.seconds:.1f} s"
        left = row.left(self._rows.clock())[1] if row.stage == "measure" else ""
        return Text(row.stage, style="dim" if row.stage == WAITING else ""), row.bursts, left


def notable(rows: dict[str, Row], room: int) -> list[str]:
    """At most `room` hosts: those that did not end well, at most half of it, then the longest at work."""
    ended = [name for name, row in rows.items() if row.state not in (None, State.COMPLETE)]
    working = [name for name, row in rows.items() if row.state is None and row.stage != WAITING]
    working.sort(key=lambda name: rows[name].started)
    share = max(room // 2, room - len(working))
    chosen = [*ended[-share:], *working]
    return chosen[:room]
