import re
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from io import BytesIO
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from fleet.analysis.reduce import (
    as_float64,
    compute_numbers,
    load_numbers,
    load_pairs,
    read_runs,
)
from fleet.analysis.report import FORMATS, Card, lay_out_card, to_png
from fleet.model import SHIPPED
from fleet.store import Store
from tests import simulated
from tests.command import Done

SVG = "{http://www.w3.org/2000/svg}"
LONG = "A processor whose makers wrote sixty characters into its name"
WIDE = {"smt": 9.0, "llc": 27.0, "package": 64.0, "system": 1234.0}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("results")
    desk = simulated.desktop(
        "desk", facts={"hypervisor": "kvm", "governor": "powersave"}, model="<&]"
    )
    simulated.publish(folder, desk, 0)
    return folder


@cache
def read(root: Path) -> tuple[dict[str, object], *tuple[pd.DataFrame, ...]]:
    """Return a run, its CPUs, pairs and numbers."""
    run_id = Store(root).list_runs()[-1].run_id
    (run,), _, cpus = read_runs(root, [run_id])
    pairs = as_float64(load_pairs(root, run_id=run_id))
    return run, cpus, pairs, load_numbers(root, run_id=run_id)


@cache
def machine(root: Path, count: int) -> Card:
    """A card of so many CPUs, two threads a core, eight cores a cache, two sockets."""
    run, cpus, pairs, _ = read(root)
    numbers = np.arange(count)
    cores = numbers % max(count // 2, 1)
    groups = {
        "core": cores,
        "llc": cores // 8 * 8,
        "package": cores // max(count // 4, 1),
    }
    groups |= {"node": groups["package"], "die": groups["package"]}
    cpus = (
        cpus.iloc[np.zeros(count, int)]
        .reset_index(drop=True)
        .assign(cpu=numbers, **groups, kind=None)
    )
    a, b = np.triu_indices(count, 1)
    of = [groups[level][a] == groups[level][b] for level in ("core", "llc", "package")]
    relation = np.select(of, ["smt", "llc", "package"], "system")
    rows = pairs.iloc[np.zeros(len(a), int)].reset_index(drop=True)
    rows = rows.assign(
        ping_cpu=a,
        pong_cpu=b,
        relation=relation,
        median_ns=[WIDE[name] for name in relation],
    )
    made_up = compute_numbers(rows, cpus, SHIPPED)
    return lay_out_card(run | {"cpu_model": LONG}, cpus, rows, made_up)


def boxes(card: Card) -> list[tuple[float, float, float, float, str]]:
    """Where each text is, in the widest sans-serif font here: left, upper edge, right,
    lower edge.
    """
    rectangles = []
    for text in card.texts:
        width, x = len(text.words) * text.size * 0.62, text.x
        left = x - {"start": 0, "middle": 0.5, "end": 1}[text.anchor] * width
        box = (
            left,
            text.y - 0.75 * text.size,
            left + width,
            text.y + 0.1 * text.size,
            text.words,
        )
        if text.upright:
            box = (
                x - 0.75 * text.size,
                text.y - width / 2,
                x,
                text.y + width / 2,
                text.words,
            )
        rectangles.append(box)
    return rectangles


@pytest.mark.parametrize("count", [2, 4, 16, 32, 128, 384])
def test_no_text_overlaps_another_or_leaves_the_card(root: Path, count: int) -> None:
    rectangles = boxes(machine(root, count))
    assert all(
        a >= 0 and b >= 0 and c <= 1200 and d <= 630 for a, b, c, d, _ in rectangles
    )
    ordered = sorted(rectangles)
    for index, (_, upper, right, lower, words) in enumerate(ordered):
        for left, other_upper, _, other_lower, other in ordered[index + 1 :]:
            if left >= right:
                break
            assert other_upper >= lower or other_lower <= upper, (words, other)


def test_the_scale_has_no_number_twice(root: Path) -> None:
    for count in (2, 4):
        words = [text.words for text in machine(root, count).texts if text.x == 622]
        assert len(words) == len({*words}) == 6


def test_the_svg_is_well_formed_says_everything_in_words_and_fetches_nothing(
    root: Path,
) -> None:
    text = FORMATS[".svg"](lay_out_card(*read(root)))
    tree = ET.fromstring(text)
    legend = tree.findtext(f"{SVG}desc") or ""
    for word in ("<&]", "smt", "cas/cmpxchg", "governor powersave", "virtual machine"):
        assert word in legend
    assert all(
        image.get("href", "").startswith("data:image/png;base64,")
        for image in tree.iter(f"{SVG}image")
    )
    assert "://" not in text.replace("http://www.w3.org/2000/svg", "")
    assert "prefers-color-scheme:dark" in text


def test_the_map_in_it_has_the_shades_of_the_run(root: Path) -> None:
    card = machine(root, 384)
    image = Image.open(BytesIO(to_png(card.cells)))
    assert image.size == card.cells.shape
    assert (np.asarray(image) == card.cells).all()


def test_the_same_run_gives_the_same_bytes_and_a_png_as_large_as_the_svg_and_light(
    root: Path,
) -> None:
    for write in FORMATS.values():
        assert write(lay_out_card(*read(root))) == write(lay_out_card(*read(root)))
    image = Image.open(BytesIO(FORMATS[".png"](lay_out_card(*read(root))))).convert(
        "RGB"
    )
    assert (image.size, image.getpixel((5, 5))) == ((1200, 630), (255, 255, 255))


@pytest.mark.long
def test_the_command_writes_a_card_and_prints_what_to_paste(
    root: Path, tmp_path: Path, fleet_here: Callable[..., Done]
) -> None:
    for name in ("card.svg", "card.png", "card.png"):  # a card may be replaced
        done = fleet_here("report", "desk", "-o", str(tmp_path / name), "-r", str(root))
        assert done.exit_code == 0, done.stderr
        assert re.match(
            rf"!\[<&\\\], cas/cmpxchg: .*\]\({name}\)\n\n\| shared \| median ",
            done.stdout,
        )
    (tmp_path / "mine.png").write_bytes(b"\x89PNG")
    assert (
        fleet_here(
            "report", "desk", "-o", str(tmp_path / "mine.png"), "-r", str(root)
        ).exit_code
        == 2
    )


def test_a_run_without_pairs_of_cpus_has_no_card(
    tmp_path: Path, fleet_here: Callable[..., Done]
) -> None:
    simulated.publish(
        tmp_path / "r", simulated.desktop("desk"), 0, benchmarks=("clock",)
    )
    done = fleet_here(
        "report", "desk", "-o", str(tmp_path / "card.svg"), "-r", str(tmp_path / "r")
    )
    assert (done.exit_code, "has no pairs of CPUs for a card" in done.stderr) == (
        2,
        True,
    )


@pytest.mark.slow
def test_a_card_does_not_import_matplotlib(root: Path) -> None:
    code = (
        "import sys; from fleet.analysis.report import card; from fleet.store import"
        f" Store;run = Store({str(root)!r}).list_runs()[-1].run_id; c ="
        f" card.make_card({str(root)!r}, run);card.render_svg(c), card.render_png(c);"
        " sys.exit('matplotlib' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
