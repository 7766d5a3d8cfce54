"""`walk`: loads of which each needs the translation of another page."""

import pytest

from fleet.analysis.reduce import format_size
from tests.native.agent import bursts, measure, points, two_cpus, wrong

SHORT = ("-b", "walk", "--rounds", "1", "--samples", "2", "-v", "all")


@pytest.mark.slow
def test_it_goes_through_a_line_of_each_page_in_base_pages_and_in_huge_ones() -> None:
    records = measure(*SHORT, *two_cpus())
    assert wrong(records) == []
    page = records[0]["page_bytes"]
    sizes = {format_size(page * 16 << power) for power in range(13)}
    for choice in records[0]["plan"]["benchmarks"]:
        for pages in {name.partition(".")[2] for name in choice["points"]}:
            assert {
                name.partition(".")[0]
                for name in choice["points"]
                if name.endswith(pages)
            } == sizes
    assert any(name.endswith(".base") for name in points(records))
    for burst in bursts(records):
        parameters = burst["parameters"]
        assert (
            burst["point"]
            == f"{format_size(parameters['bytes'])}.{parameters['pages']}"
        )
        assert parameters["stride_bytes"] == page + 64


@pytest.mark.long
def test_pages_asked_for_are_the_only_ones() -> None:
    assert all(
        name.endswith(".base")
        for name in points(measure(*SHORT, "--pages", "base", *two_cpus()))
    )
