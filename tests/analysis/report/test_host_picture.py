"""The picture of several hosts: their numbers as dots with intervals, and what it leaves
out.
"""

import re
from pathlib import Path

import pytest
from PIL import Image

from fleet.analysis.report import draw_hosts, lay_out_host_picture
from fleet.analysis.views import UsualNumbers, load_usual_numbers, select_runs_to_show
from fleet.store import Listing
from tests.command import Fleet


@pytest.fixture(scope="module")
def usual(made_lab: Path) -> UsualNumbers:
    listing = Listing(made_lab / "results")
    runs = select_runs_to_show(listing, ["pisa", "milan", "siena"]).runs
    return load_usual_numbers(listing, runs)


def read_words(svg: bytes) -> list[str]:
    texts = re.findall(r"<text[^>]*>(.*?)</text>", svg.decode(), re.DOTALL)
    return [re.sub(r"<[^>]*>", "", text).strip() for text in texts]


def test_each_host_has_its_number_in_the_panel_of_a_relation(
    usual: UsualNumbers,
) -> None:
    picture = lay_out_host_picture(usual, "Three $machines$ <of mine>")
    words = read_words(draw_hosts(picture, ".svg"))
    assert "Three $machines$ &lt;of mine&gt;" in words
    assert {"milan", "pisa", "siena", "cluster E-E", "system", "ns"} <= {*words}
    drawn = usual.table[usual.table["benchmark"] == "cas"]
    assert {f"{ns:.1f}" for ns in drawn["median_ns"]} <= {*words}
    assert len(picture.rows) == len(drawn)


def test_what_is_not_drawn_is_named(usual: UsualNumbers) -> None:
    table = usual.table
    rows = lay_out_host_picture(usual, None)
    assert rows.left_out == [
        "left out (-b draws them): readwrite; chase random; bandwidth read"
    ]
    # one host each: the first benchmark is drawn
    apart = table[(table["benchmark"] == "bandwidth") | (table["host_name"] == "siena")]
    few = lay_out_host_picture(usual._replace(table=apart), None)
    assert few.title == "cas: one-way latency in ns"
    assert few.left_out[-1] == "left out: pisa"


def test_the_command_draws_several_hosts_and_prints_what_to_paste(
    made_lab: Path, tmp_path: Path
) -> None:
    file = tmp_path / "hosts.png"
    with Fleet(made_lab) as fleet:
        for _ in range(2):  # a picture may be replaced
            done = fleet("report", "pisa", "rome", "-o", str(file), "--title", "Mine")
            assert done.exit_code == 0, done.stderr
        sides = fleet("report", "--compare", "pisa", "rome", "-o", str(file))
    assert done.stdout.startswith("![Mine](hosts.png)\n\n| host | benchmark |")
    assert "\nleft out (-b draws them): readwrite" in done.stdout
    assert Image.open(file).size[0] == 2400
    assert sides.exit_code == 2


def test_the_card_of_one_host_keeps_the_title_and_says_which_run_it_is_of(
    made_lab: Path, tmp_path: Path
) -> None:
    file = tmp_path / "card.svg"
    with Fleet(made_lab) as fleet:
        done = fleet("report", "pisa", "-o", str(file), "--title", "Tuned <desktop>")
    assert done.stderr.startswith("1 of 8 runs: the last, r2026")
    words = read_words(file.read_bytes())
    assert words.index("Tuned &lt;desktop&gt;") + 1 == words.index(
        "Made-up desktop CPU with two kinds of core"
    )
