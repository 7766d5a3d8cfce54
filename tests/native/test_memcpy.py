"""`memcpy`: calls of the C library that copy few bytes."""

from fleet.analysis.reduce import format_size
from tests.native.agent import bursts, decode, measure, points, run, wrong
from tests.native.preload import preload

SHORT = ("-b", "memcpy", "-c", "0", "--rounds", "1", "--samples", "2")


def test_each_size_is_copied_aligned_unaligned_and_with_others() -> None:
    records = measure(*SHORT)
    sizes = [format_size(16 << power) for power in range(9)]
    kinds = ("aligned", "unaligned", "shuffled")
    assert wrong(records) == []
    assert points(records) == [f"{kind}.{size}" for size in sizes for kind in kinds]
    for burst in bursts(records):
        parameters = burst["parameters"]
        assert (
            burst["point"]
            == f"{parameters['operation']}.{format_size(parameters['bytes'])}"
        )
        assert burst["unit"] == "call"


def test_a_library_that_does_not_copy_all_fails_the_burst() -> None:
    done = run(*SHORT, "--format", "jsonl", env=preload("short_copies.c"))
    failed = {
        (record["point"], record["reason"]) for record in wrong(decode(done.stdout))
    }
    reason = "a call did not copy what it should"
    assert failed == {
        (f"{kind}.2K", reason) for kind in ("aligned", "unaligned", "shuffled")
    }
    assert done.returncode == 0
