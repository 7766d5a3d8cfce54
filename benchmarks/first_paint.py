"""CPU time of a report's page until it is painted and its map answers, and of a move of
the pointer over the map, of made-up machines.

.venv/bin/python -m benchmarks.first_paint [CPUS ...]. Median and range of five loads in
Chromium: of its main thread, the script alone of it, and milliseconds of a move, with
the layout that it asks for.
"""

import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from fleet.analysis.report import render
from fleet.model import Cpu
from tests import simulated
from tests.browser import DESK, Tab

COUNTS = (2, 16, 64, 256, 1024)
LOADS = 5
MOVE = """(canvas => {
  canvas.scrollIntoView();
  const { left, top, width } = canvas.getBoundingClientRect();
  const start = performance.now();
  for (let move = 0; move < 100; move++) {
    const at = (move + 0.5) * width / 100;
    const where = { clientX: left + at, clientY: top + width - at };
    canvas.dispatchEvent(new PointerEvent("pointermove", where));
    document.body.offsetHeight;
  }
  return (performance.now() - start) / 100;
})(document.querySelector(".stack canvas"))"""


def main(counts: Sequence[int]) -> None:
    """Print a line for each number of CPUs."""
    for count in counts:
        with tempfile.TemporaryDirectory() as folder:
            page = write_page(Path(folder), count)
            loads = [load(page) for _ in range(LOADS)]
            size = page.stat().st_size / 1000
        main_thread, script, move = map(describe, zip(*loads, strict=True))
        print(
            f"{count} CPUs, {size:.0f} kB: {main_thread} s, script {script} s,"
            f" move {move} ms"
        )


def write_page(folder: Path, count: int) -> Path:
    """Write the page of a machine: two threads a core, eight CPUs a cache."""
    cores = max(count // 2, 1)
    cpus = tuple(
        Cpu(n, core=n % cores, llc=n // 8 * 8, package=n // 64 * 64, node=n // 64)
        for n in range(count)
    )
    machine = simulated.Machine("made-up", cpus)
    run = simulated.publish(folder, machine, rounds=1, samples=2)
    page = folder / "page.html"
    page.write_text(render(folder, [run.run_id]))
    return page


def load(page: Path) -> tuple[float, float, float]:
    """Return seconds of the main thread and of the script, and milliseconds of a
    move.
    """
    with Tab(page.parent) as tab:
        tab.count_cpu_time()
        tab.open(page, DESK)
        tab.screenshot(page.parent / "painted.png")
        seconds = tab.read_cpu_time()
        return seconds["TaskDuration"], seconds["ScriptDuration"], tab.ask(MOVE)


def describe(values: Sequence[float]) -> str:
    """Write the median and range of values."""
    median = statistics.median(values)
    return f"{median:.3f} ({min(values):.3f} to {max(values):.3f})"


if __name__ == "__main__":
    main([int(count) for count in sys.argv[1:]] or COUNTS)
