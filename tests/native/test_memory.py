"""The benchmarks that work on memory, chase and bandwidth: their points, records,
counts and ends.
"""

import os
from pathlib import Path

import pytest

from tests import needs
from tests.native.agent import (
    LONG,
    Record,
    bursts,
    decode,
    failures,
    measure,
    notes,
    run,
    start_agent,
    wrong,
)
from tests.native.build import build
from tests.native.emulated import measure_emulated
from tests.native.preload import preload
from tests.native.targets import AARCH64, make_troubled

SHORT = ("--rounds", "2", "--samples", "2", "--iterations", "3")
SMALL = ("--sizes", "16K,64K", *SHORT)
OPERATIONS = ("read", "write", "nt", "zero", "modify", "copy", "ntcopy")
# bytes moved in a pass, by bytes worked on
FACTOR = {
    "modify": 2,
    "copy": 1,
    "ntcopy": 1,
}


@pytest.fixture(scope="module")
def chase() -> list[Record]:
    return measure("-b", "chase", "--variant", "all", "--seed", "7", *SMALL)


@pytest.fixture(scope="module")
def bandwidth() -> list[Record]:
    needs.cpus(2)
    return measure(
        *("-b", "bandwidth", "--variant", "all", "--seed", "7", *SMALL),
        *("--op", ",".join(OPERATIONS), "--share", "own,one", "--threads", "1,all"),
    )


def points(records: list[Record]) -> dict[str, list[str]]:
    return {
        choice["variant"]: choice["points"]
        for choice in records[0]["plan"]["benchmarks"]
    }


def test_a_chase_goes_through_each_size_in_each_order(chase: list[Record]) -> None:
    pages = bursts(chase)[0]["parameters"]["pages"]
    names = [
        f"{o}.{s}.{pages}"
        for o in ("random", "window", "rising")
        for s in ("16K", "64K")
    ]
    assert set(map(tuple, points(chase).values())) == {tuple(names)}
    assert not wrong(chase)
    for burst in bursts(chase):
        parameters = burst["parameters"]
        order, size, _ = burst["point"].split(".")
        assert parameters["order"] == order
        assert parameters["bytes"] == int(size[:-1]) << 10
        assert parameters["stride_bytes"] == (256 if order == "random" else 64)
        assert burst["unit"] == "load"
        assert burst["iterations"] == 3 * 16


@pytest.mark.parametrize("name", ["chase", "bandwidth"])
def test_each_point_is_visited_once_a_round_on_each_set_of_cpus(
    name: str, request: pytest.FixtureRequest
) -> None:
    records = request.getfixturevalue(name)
    visits = [
        (b["variant"], b["point"], b["round"], b["ping"], b["pong"])
        for b in bursts(records) + failures(records)
    ]
    assert len(visits) == len(set(visits)) == records[0]["bursts"]
    assert records[-1]["bursts"] == len(bursts(records))
    assert {(variant, point) for variant, point, *_ in visits} == {
        (variant, point)
        for variant, names in points(records).items()
        for point in names
    }


def test_bytes_are_those_that_instructions_move(bandwidth: list[Record]) -> None:
    assert not wrong(bandwidth)
    for burst in bursts(bandwidth):
        parameters = burst["parameters"]
        factor = FACTOR.get(parameters["operation"], 1)
        assert burst["unit"] == "byte"
        assert burst["iterations"] == 3 * factor * parameters["bytes"]


def test_each_thread_has_its_own_times(bandwidth: list[Record]) -> None:
    for burst in bursts(bandwidth):
        cpus = burst["cpus"]
        assert burst["point"].endswith(f".x{len(cpus)}")
        assert burst["ping"] == cpus[0]
        assert burst["pong"] == cpus[-1]
        assert len(burst["other_ticks"]) == len(cpus) - 1
        assert all(
            len(ticks) == len(burst["ticks"]) == 3 for ticks in burst["other_ticks"]
        )
        assert all(min(ticks) > 0 for ticks in [burst["ticks"], *burst["other_ticks"]])


def test_one_buffer_is_only_read_and_only_by_several(bandwidth: list[Record]) -> None:
    shared = {
        b["point"] for b in bursts(bandwidth) if b["parameters"]["sharing"] == "one"
    }
    assert shared
    assert all(
        point.startswith("read.one.") and not point.endswith(".x1") for point in shared
    )


def test_a_variant_has_only_the_operations_it_has_loops_for(
    bandwidth: list[Record],
) -> None:
    operations = {
        variant: {name.split(".")[0] for name in names}
        for variant, names in points(bandwidth).items()
    }
    assert operations["c11"] == {"read", "write", "modify", "copy"}
    assert operations["libc"] == {"zero", "copy"}


def test_left_to_itself_each_operation_takes_the_best_variant_that_has_it() -> None:
    records = measure(
        "-b", "bandwidth", *SMALL, "--threads", "1", "--op", ",".join(OPERATIONS)
    )
    operations = [
        name.split(".")[0] for names in points(records).values() for name in names
    ]
    assert len(operations) == 2 * len(set(operations))
    assert {"read", "write", "copy"} <= set(operations)


def test_the_frequency_of_the_core_is_told_where_an_addition_takes_a_cycle(
    chase: list[Record],
) -> None:
    if os.uname().machine not in ("x86_64", "aarch64"):
        needs.missing("not known of this architecture")
    for burst in bursts(chase):
        assert all(100 < mhz < 10_000 for mhz in burst["core_mhz"])


def test_memory_is_new_in_each_round(chase: list[Record]) -> None:
    physical = {b["round"]: b["line_physical"] for b in bursts(chase)}
    if None not in physical.values():
        assert len(set(physical.values())) == 2


@pytest.mark.parametrize("form", ["csv", "matrix"])
def test_every_format_knows_points(form: str) -> None:
    text = run("-b", "clock,chase,bandwidth", "--op", "read", *SMALL, "-f", form).stdout
    if form == "csv":
        assert text.splitlines()[0].startswith("benchmark,variant,point,")
        assert ",random.16K." in text
    else:
        assert "ns per load" in text
        assert "GB/s" in text
        assert [
            line.split()[0]
            for line in text.splitlines()
            if line.strip().startswith("64K")
        ] == ["64K"] * 2


def test_an_automatic_sample_lasts_long_enough_and_holds_whole_passes() -> None:
    records = measure(
        "-b",
        "bandwidth",
        "--op",
        "copy",
        "--sizes",
        "16K",
        "--threads",
        "1",
        "--rounds",
        "2",
    )
    for burst in bursts(records):
        assert burst["iterations"] % 16384 == 0
        assert len(burst["ticks"]) == 1 + 5
        assert max(burst["ticks"]) > records[0]["ticks_per_second"] / 20_000


def test_base_pages_can_be_asked_for_and_are_in_the_name() -> None:
    records = measure("-b", "chase", "--pages", "base", *SMALL)
    assert all(burst["point"].endswith(".base") for burst in bursts(records))
    assert not [text for text in notes(records) if "huge pages" in text]


@pytest.mark.parametrize(
    ("size", "base"), [(2 << 20, False), (512 << 20, True), (0, True)]
)
def test_huge_pages_that_are_too_large_are_not_used(
    tmp_path: Path, size: int, base: bool
) -> None:
    kernel = tmp_path / "sys/kernel/mm"
    (kernel / "transparent_hugepage").mkdir(parents=True)
    (kernel / "transparent_hugepage/hpage_pmd_size").write_text(f"{size}\n")
    # a size that no pool here has
    (kernel / "hugepages/hugepages-1024kB").mkdir(parents=True)
    (kernel / "hugepages/hugepages-1024kB/free_hugepages").write_text("8\n")
    tree = preload("groups.c") | {"TREE": str(tmp_path)}
    (plan,) = decode(
        run("-b", "chase", "--sizes", "64K", "-c", "0", "--forecast", env=tree).stdout
    )
    note = (
        "No huge pages of up to 32 MiB are to be had here: memory lies in base pages."
    )
    assert (note in plan["notes"]) == base
    assert plan["bytes"] == 2 * (64 << 10 if base else 2 << 20)


def test_the_stride_asked_for_is_in_the_name() -> None:
    records = measure("-b", "chase", "--stride", "128", *SMALL)
    assert all(".s128." in burst["point"] for burst in bursts(records))
    assert {burst["parameters"]["stride_bytes"] for burst in bursts(records)} == {128}


# ---- what is done already
# ---------------------------------------------------------------------------------


@pytest.mark.parametrize("point", ["read.own.16K.huge.x9", "-", ""])
def test_a_point_that_the_plan_lacks_is_refused(tmp_path: Path, point: str) -> None:
    file = tmp_path / "done"
    file.write_text(f"chase c11 {point} 0 0 16 100\nend\n")
    done = run("-b", "chase", "-v", "c11", *SMALL, "--done", str(file))
    assert done.returncode == 2
    assert "line 1 of" in done.stderr


# ---- ending and trouble
# -----------------------------------------------------------------------------------


def test_the_deadline_ends_it() -> None:
    with start_agent(
        "-b", "bandwidth", "--sizes", "16M", *LONG, "--deadline", "0.3"
    ) as process:
        assert decode(process.stdout.read())[-1]["reason"] == "deadline"


@pytest.mark.slow
def test_a_thread_of_a_group_that_never_arrives_costs_its_burst_and_not_the_run() -> (
    None
):
    needs.cpus(2)
    first, second = sorted(os.sched_getaffinity(0))[:2]
    env = preload("affinity.c") | {
        "TROUBLE": "sleep",
        "TROUBLE_CPU": str(second),
        "TROUBLE_S": "3",
    }
    plan = (
        "-b",
        "bandwidth",
        "-c",
        f"{first},{second}",
        "--op",
        "read",
        "--sizes",
        "16K",
        "-i",
        "3",
    )
    records = measure(*plan, "--rounds", "1", "--stuck-timeout", "0.3", env=env)
    assert {record["reason"] for record in failures(records)} == {
        "no progress for 0.3 s"
    }
    assert [burst["cpus"] for burst in bursts(records)] == [[first]]


def test_a_loop_that_does_less_than_it_is_told_yields_a_reason_and_no_number() -> None:
    plan = ("-b", "chase,bandwidth", "--op", "copy", "-v", "short", *SMALL)
    records = measure(*plan, binary=build(make_troubled("short")))
    assert not bursts(records)
    reasons = {
        (record["benchmark"], record["reason"].rstrip("0123456789 loads"))
        for record in failures(records)
    }
    assert reasons == {
        ("chase", "the chase did not"),
        (
            "bandwidth",
            "a loop did not go through the memory it was given".rstrip(
                "0123456789 loads"
            ),
        ),
    }


def test_a_variant_that_dies_when_it_is_tried_is_left_out_and_said() -> None:
    binary = build(make_troubled("deadly"))
    records = measure("-b", "bandwidth", "--op", "read", *SMALL, binary=binary)
    assert list(points(records)) == ["c11"]
    assert "bandwidth/deadly is left out: it died when it was tried." in notes(records)
    refused = run("-b", "bandwidth", "-v", "deadly", binary=binary)
    assert refused.returncode == 5


@pytest.mark.slow
@pytest.mark.parametrize("cpu", AARCH64.emulators)
def test_every_loop_of_aarch64_does_what_is_counted(cpu: str) -> None:
    plan = ("-b", "chase,bandwidth", "-v", "all", "--op", ",".join(OPERATIONS), *SMALL)
    records = measure_emulated(AARCH64, *plan, cpu=cpu)
    assert not wrong(records)
    assert {"neon", "zva", "ldr", "c11", "libc"} <= set(points(records))
    assert ("sve" in points(records)) == (cpu == "max")
