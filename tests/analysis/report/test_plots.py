import re
from itertools import pairwise
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from fleet.analysis.reduce import (
    Layout,
    load_cpus,
    load_samples,
    make_layout,
    matrix,
    pair_medians,
)
from fleet.analysis.report import Margins, draw, plots
from tests import simulated

STYLE = Path(plots.__file__).parent / "templates" / "base.css"


@pytest.fixture
def axes() -> Axes:
    return Figure().add_subplot()


def a_map(root: Path, machine: simulated.Machine) -> tuple[pd.DataFrame, Layout]:
    run = simulated.publish(root, machine, rounds=1, samples=2)
    pairs = pair_medians(load_samples(root, run_id=run.run_id))
    order = make_layout(
        load_cpus(root, run_id=run.run_id), [cpu.cpu for cpu in machine.cpus]
    )
    return matrix(pairs, order.cpus), order


def test_a_small_map_has_its_numbers_and_lines_between_cores(
    tmp_path: Path, axes: Axes
) -> None:
    table, order = a_map(tmp_path, simulated.desktop())
    plots.heatmap(table, order, axes)
    written = sorted(text.get_text() for text in axes.texts)
    assert written == sorted(
        f"{value:.1f}" for value in table.to_numpy().ravel() if np.isfinite(value)
    )
    across, down = axes.collections
    assert {float(y) for (_, y), _ in across.get_segments()} == {1.5, 3.5, 5.5}
    assert {float(x) for (x, _), _ in down.get_segments()} == {1.5, 3.5, 5.5}


def test_a_big_map_has_no_numbers_in_its_cells(tmp_path: Path, axes: Axes) -> None:
    cpus = simulated.server().cpus[:48]
    table, order = a_map(tmp_path, simulated.server(cpus=cpus))
    plots.heatmap(table, order, axes)
    assert not axes.texts
    assert all(len(lines.get_segments()) > 2 for lines in axes.collections)


def test_one_slow_pair_does_not_take_all_the_colours() -> None:
    values = np.full((20, 20), 50.0)
    values[3, 4], values[5, 6] = 4000.0, 30.0
    low, high = plots.choose_limits([pd.DataFrame(values)])
    assert low == 30
    assert high < 60
    assert plots.choose_limits([]) == (0.0, 1.0)


def test_every_run_is_a_dot_and_several_have_a_bar_at_their_number(axes: Axes) -> None:
    runs = pd.DataFrame({"host": ["a", "b", "a", "a"], "ns": [10.0, 30.0, 11.0, 15.0]})
    plots.run_dots(runs, axes=axes, usual={"a": 10.5, "b": 30.0})
    dots = {
        (float(x), float(y))
        for line in axes.lines
        if line.get_marker() == "o"
        for x, y in line.get_xydata()
    }
    assert dots == {(10, 0), (11, 0), (15, 0), (30, 1)}
    bars = [line for line in axes.lines if line.get_marker() == "None"]
    assert [float(line.get_xdata()[0]) for line in bars] == [10.5]


def test_runs_that_hardly_differ_do_not_look_far_apart(axes: Axes) -> None:
    plots.run_dots(pd.DataFrame({"host": ["a", "a"], "ns": [100.0, 100.1]}), axes=axes)
    low, high = axes.get_xlim()
    assert high - low >= 4


def test_a_distribution_rises_from_none_to_all(axes: Axes) -> None:
    plots.ecdf({"smt": [5.0, 6.0, 7.0], "system": np.linspace(100, 200, 1000)}, axes)
    for line in axes.lines:
        assert list(line.get_ydata()) == sorted(line.get_ydata())
    assert axes.lines[1].get_ydata()[
        np.searchsorted(axes.lines[1].get_xdata(), 150)
    ] == pytest.approx(0.5, abs=0.01)
    assert axes.get_xscale() == "log"


@pytest.mark.parametrize(
    ("low", "high"), [(25, 600), (4.1, 98), (30, 70_000), (90, 2_000_000)]
)
def test_a_wide_distribution_has_few_plain_numbers_below_it(
    axes: Axes, low: float, high: float
) -> None:
    plots.ecdf({"llc": np.geomspace(low, high, 1000)}, axes)
    axes.figure.draw_without_rendering()
    left, right = axes.get_xlim()
    ticks = [*axes.xaxis.get_major_ticks(), *axes.xaxis.get_minor_ticks()]
    labels = [
        tick.label1.get_text() for tick in ticks if left <= tick.get_loc() <= right
    ]
    labels = [text for text in labels if text]
    assert 2 <= len(labels) <= 6
    assert all(float(text) > 0 for text in labels)


def test_a_name_with_dollars_is_a_name(tmp_path: Path) -> None:
    runs = pd.DataFrame({"host": ["$x^2$ <b>&"], "ns": [10.0]})
    svg = draw(
        "dots",
        'a "title" <b>',
        (340, 80),
        lambda axes: plots.run_dots(runs, axes=axes),
        Margins(left=90, bottom=42, right=18, top=8),
    )
    assert "$x^2$ &lt;b&gt;&amp;" in svg
    assert "<b>" not in svg


def test_what_is_drawn_stands_out_on_the_light_and_the_dark_page() -> None:
    light, dark = (
        luminance(colour)
        for colour in re.findall(r"--page: (#\w{6});", STYLE.read_text())[:2]
    )
    for name, (colour, _) in plots.RELATION_LINES.items():
        assert (light + 0.05) / (luminance(colour) + 0.05) >= 3, name
        assert (luminance(colour) + 0.05) / (dark + 0.05) >= 3, name


def test_text_stands_out_on_both_pages() -> None:
    colours = re.findall(
        r"--(page|ink|muted|link|warn|head|odd|odd-ink): (#\w{6});", STYLE.read_text()
    )
    for theme in (dict(colours[:8]), dict(colours[8:16])):
        backs = ("page", "warn", "head")
        pairs = [(ink, back) for ink in ("ink", "muted", "link") for back in backs] + [
            ("odd-ink", "odd")
        ]
        for ink, back in pairs:
            one, other = sorted((luminance(theme[ink]), luminance(theme[back])))
            assert (other + 0.05) / (one + 0.05) >= 4.5, (ink, back, theme)


def luminance(colour: str) -> float:
    """Relative luminance as WCAG 2 defines it."""
    parts = (int(colour[index : index + 2], 16) / 255 for index in (1, 3, 5))
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
        for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_ink_is_readable_on_every_shade() -> None:
    for scheme in ("viridis", "PuOr_r"):
        for red, green, blue, _ in mpl.colormaps[scheme](np.linspace(0, 1, 64)):
            back = luminance(mpl.colors.to_hex((red, green, blue)))
            ink = 0.0 if plots.choose_ink(red, green, blue) == "black" else 1.0
            assert (max(back, ink) + 0.05) / (min(back, ink) + 0.05) >= 4.5


@pytest.mark.long
@pytest.mark.parametrize(
    ("count", "inches"), [(4, 3.0), (16, 4.0), (32, 4.0), (32, 14.0), (40, 6.0)]
)
def test_no_number_reaches_into_the_next_cell(count: int, inches: float) -> None:
    table = pd.DataFrame(np.full((count, count), 168.5))
    figure = Figure(figsize=(inches, inches), layout="constrained")
    FigureCanvasAgg(figure)
    order = Layout(tuple(range(count)), tuple((0,) * 6 for _ in range(count)))
    axes = plots.heatmap(table, order, figure.add_subplot())
    figure.draw_without_rendering()
    cell = axes.get_window_extent().width / count
    numbers = [text for text in axes.texts if text.get_text() == "168.5"]
    assert len(numbers) in (0, count * count)
    assert all(text.get_window_extent().width <= cell for text in numbers)
    assert numbers or cell / figure.dpi * 72 < 20


@pytest.mark.long
@pytest.mark.parametrize("count", [48, 64, 256])
def test_names_of_cpus_along_an_axis_do_not_overlap(count: int) -> None:
    figure = Figure(layout="constrained")
    FigureCanvasAgg(figure)
    order = Layout(
        tuple(range(100, 100 + count)), tuple((0,) * 6 for _ in range(count))
    )
    table = pd.DataFrame(np.full((count, count), 168.5), order.cpus, order.cpus)
    axes = plots.heatmap(table, order, figure.add_subplot())
    figure.draw_without_rendering()
    for labels, edge in ((axes.get_xticklabels(), "x"), (axes.get_yticklabels(), "y")):
        boxes = sorted(
            (label.get_window_extent() for label in labels),
            key=lambda box: getattr(box, f"{edge}0"),
        )
        assert all(
            getattr(a, f"{edge}1") <= getattr(b, f"{edge}0") for a, b in pairwise(boxes)
        )


@pytest.mark.parametrize(("noise", "shades"), [(0.08, 4), (0.001, 33)])
def test_colours_tell_apart_only_what_differs_by_more_than_the_noise(
    noise: float, shades: int
) -> None:
    table = pd.DataFrame(
        [[np.nan, 58.4, 60.0], [58.4, np.nan, 61.0], [60.0, 61.0, np.nan]]
    )
    table.attrs["noise"] = noise
    low, high = plots.choose_limits([table])
    taken = 32 * (61.0 - 58.4) / (high - low)
    assert taken <= shades
    assert (taken > 16) == (noise < 0.01)
    assert low <= 58.4
