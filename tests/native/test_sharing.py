"""`sharing`: a line that one writes and all others look at; points, counts, and how it
ends.
"""

import pytest

from tests.native.agent import bursts, failures, measure, points, two_cpus, wrong

SHORT = ("-b", "sharing", "--rounds", "2", "--samples", "2", "--seed", "7")


@pytest.mark.parametrize("variant", ["auto", "c11"])
def test_watchers_count_what_they_see_and_answer_each_write(variant: str) -> None:
    records = measure(*SHORT, "-v", variant, *two_cpus())
    assert points(records) == ["watch.k1", "watch.k1.all"]
    assert wrong(records) == []
    assert len(bursts(records)) + len(failures(records)) == records[0]["bursts"]
    for burst in bursts(records):
        (seen,) = burst["other_units"]
        assert len(seen) == len(burst["ticks"]) == 3
        if burst["point"] == "watch.k1.all":
            assert all(abs(count - burst["iterations"]) <= 8 for count in seen)
        else:
            # samples, and what ping did as it looked
            assert sum(seen) <= burst["iterations"] * 4
