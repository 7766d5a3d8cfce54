"""`interleave`: two threads that write next to one another; points, records and
counts.
"""

import pytest

from tests import needs
from tests.native.agent import Record, bursts, measure, points, wrong

SHORT = (
    "-b",
    "interleave",
    "--rounds",
    "2",
    "--samples",
    "2",
    "--iterations",
    "3",
    "--seed",
    "7",
)
LINES = (256 << 10) // 64
BLOCKS = [
    str(64 << power) if power < 4 else f"{1 << power - 4}K" for power in range(11)
]


@pytest.fixture(scope="module")
def records() -> list[Record]:
    needs.cpus(2)
    return measure(*SHORT)


def test_each_block_is_written_alone_and_by_turns(records: list[Record]) -> None:
    assert points(records) == [
        f"{way}.write.{block}" for way in ("own", "shared") for block in BLOCKS
    ]


def test_both_threads_count_the_lines_they_wrote(records: list[Record]) -> None:
    assert not wrong(records)
    for burst in bursts(records):
        assert burst["unit"] == "line"
        assert burst["iterations"] == 3 * LINES
        assert burst["cpus"] == [burst["ping"], burst["pong"]]
        assert [len(ticks) for ticks in [burst["ticks"], *burst["other_ticks"]]] == [
            3,
            3,
        ]
        assert min(burst["begin_ns"]) == 0
        assert len(burst["begin_ns"]) == 2
        sharing, operation, block = burst["point"].split(".")
        parameters = burst["parameters"]
        assert parameters["sharing"] == sharing
        assert parameters["operation"] == operation
        assert parameters["block_bytes"] == int(block.removesuffix("K")) * (
            1024 if "K" in block else 1
        )
        assert parameters["bytes"] == 256 << 10
        assert parameters["threads"] == 2
        assert parameters["pages"] == "base"


@pytest.mark.long
def test_every_variant_writes_what_it_is_given() -> None:
    needs.cpus(2)
    records = measure(*SHORT, "-v", "all", "--blocks", "64,1K..4K", "--op", "write,nt")
    assert not wrong(records)
    names_by_variant = {
        choice["variant"]: choice["points"]
        for choice in records[0]["plan"]["benchmarks"]
    }
    assert all(len(names) in (8, 16) for names in names_by_variant.values())
    assert names_by_variant["c11"] == [
        f"{way}.write.{block}"
        for way in ("own", "shared")
        for block in ("64", "1K", "2K", "4K")
    ]
