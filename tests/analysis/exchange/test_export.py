"""Exports of runs and matrices, byte for byte as the tools print them: by the formats
in their sources.
"""

import csv
import io
import math
import statistics
from pathlib import Path

import pytest

from fleet.analysis.exchange import (
    TOOLS,
    Grid,
    export_matrix,
    export_samples,
    read_matrices,
)
from fleet.model import Parameters
from fleet.store import Store
from tests import builders
from tests.peer_formats import WRITERS
from tests.planting import home

CPUS = (0, 2, 11)
CELLS = {(2, 0): 39.999, (11, 0): 120.5, (11, 2): 123456.75}


def printf(form: str, *words: object) -> str:
    return form % words


@pytest.mark.parametrize(
    ("benchmark", "variant", "arch", "title"),
    [
        ("cas", "cmpxchg", "x86_64", "CAS_x86_64"),
        ("cas", "cmpxchg", "i386", "CAS_x86"),
        ("cas", "llsc", "aarch64", "CAS_arm64"),
        ("cas", "lse", "aarch64", "CAS_arm64_lse"),
        ("cas", "c11", "riscv64", "CAS (CPP)"),
        ("cas", "llsc", "riscv64", "CAS"),  # instructions it does not have
        ("readwrite", "mov", "x86_64", "Read/Write"),
    ],
)
def test_core_latency_has_five_wide_whole_numbers(
    benchmark: str, variant: str, arch: str, title: str
) -> None:
    grid = Grid(
        CPUS, CELLS, benchmark, samples=500, iterations=4000, variant=variant, arch=arch
    )
    # its `std::left << std::setw(5) << number << " "` is "%-5d ", its diagonal six
    # spaces
    both = CELLS | {(b, a): value for (a, b), value in CELLS.items()}
    expected = f"Running {title} Core Benchmark\n Samples: 500\n Iterations: 4000\n\n"
    expected += "      " + "".join(printf("%-5d ", cpu) for cpu in CPUS) + "\n"
    for row in CPUS:
        cells = (
            "      " if row == column else printf("%-5d ", int(both[row, column]))
            for column in CPUS
        )
        expected += printf("%-5d ", row) + "".join(cells) + "\n"
    text = WRITERS["core_latency"](grid)
    assert text == expected
    (back,) = read_matrices(text, "x")[1]
    assert back.benchmark == benchmark
    assert back.cells[11, 2] == 123456


def test_c2clat_has_four_wide_whole_numbers_and_zeros_on_the_diagonal() -> None:
    # its `std::setw(4)` of a word is "%4s", of a number " %4d"
    expected = printf("%4s", "CPU") + printf(" %4d %4d %4d\n", *CPUS)
    for row in ((0, 0, 39, 120), (2, 39, 0, 123456), (11, 120, 123456, 0)):
        expected += printf("%4d", row[0]) + printf(" %4d %4d %4d\n", *row[1:])
    assert WRITERS["c2clat"](Grid(CPUS, CELLS, "readwrite")) == expected


def test_the_csv_of_a_matrix_names_its_cpus_and_has_both_sides() -> None:
    text = WRITERS["csv"](Grid(CPUS, CELLS, "cas"))
    heading, *rows = [line.split(",") for line in text.splitlines()]
    assert heading == ["CPU", "0", "2", "11"]
    assert [row[0] for row in rows] == ["0", "2", "11"]
    values = {
        (int(row[0]), int(cpu)): cell
        for row in rows
        for cpu, cell in zip(heading[1:], row[1:], strict=True)
    }
    assert [values[cpu, cpu] for cpu in CPUS] == ["", "", ""]
    for (row, column), value in CELLS.items():
        assert (
            float(values[row, column])
            == float(values[column, row])
            == pytest.approx(value, abs=0.005)
        )


@pytest.mark.parametrize("tool", ["core-to-core-latency"])
def test_a_run_goes_out_with_the_number_of_the_tool(tmp_path: Path, tool: str) -> None:
    run = builders.a_run()
    bursts = list(builders.make_bursts(run))
    Store(tmp_path).publish(run, bursts)
    usual = TOOLS[tool].estimator
    text = export_matrix(tmp_path, run.run_id, tool, "cas")
    assert text == export_matrix(tmp_path, run.run_id, tool, "cas", usual)
    mine = [burst for burst in bursts if burst.benchmark == "cas"]
    low, high = sorted((mine[0].ping_cpu, mine[0].pong_cpu))
    ends = {low, high}
    samples = [
        tick / builders.TICKS_PER_SECOND * 1e9 / burst.iterations / 2
        for burst in mine
        if {burst.ping_cpu, burst.pong_cpu} == ends
        for tick in burst.ticks[burst.warmup :]
    ]
    (grid,) = read_matrices(text, "x", tool)[1]
    cpus = sorted({cpu for burst in mine for cpu in (burst.ping_cpu, burst.pong_cpu)})
    names = dict(zip(cpus, grid.cpus, strict=True))
    printed = grid.cells[names[high], names[low]]
    if tool == "core-to-core-latency":
        assert printed == pytest.approx(statistics.fmean(samples))
    elif tool == "c2clat":
        assert printed == math.floor(min(samples))


@pytest.mark.parametrize("at_once", [1, 3, 8])
def test_samples_are_the_same_where_a_burst_is_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    # samples, of them warm-ups, other threads
    shapes = [
        (7, 2, 1),
        (4, 4, 2),
        (1, 0, 0),
        (6, 4, 1),
    ]
    bursts = [
        builders.a_burst(
            benchmark="bandwidth",
            round=number,
            start_offset_ns=number * 2_000_003,
            ticks=tuple(range(1000, 1000 + samples)),
            warmup=warmup,
            point=f"read.own.1K.x{1 + others}",
            unit="byte",
            parameters=Parameters(
                bytes=1024,
                operation="read",
                sharing="own",
                pages="huge",
                threads=1 + others,
            ),
            pong_cpu=others,
            cpus=tuple(range(1 + others)),
            other_ticks=tuple(
                tuple(range(100 * n, 100 * n + samples)) for n in range(1, 1 + others)
            )
            or None,
        )
        for number, (samples, warmup, others) in enumerate(shapes)
    ]
    run = builders.a_run(benchmarks=("bandwidth",), rounds=len(bursts))
    Store(tmp_path).publish(run, bursts)
    text = "".join(export_samples(tmp_path, [run.run_id], None))
    monkeypatch.setattr(home(export_samples), "SAMPLES_AT_ONCE", at_once)
    pieces = [*export_samples(tmp_path, [run.run_id], None)]
    assert "".join(pieces) == text
    # the first has the header
    assert max(piece.count("\n") for piece in pieces) <= at_once + 1
    rows = sorted(csv.DictReader(io.StringIO(text)), key=lambda row: int(row["round"]))
    assert [
        (int(row["sample"]), row["is_warmup"] == "True", row["other_ticks"])
        for row in rows
    ] == [
        (n, n < warmup, str([100 * k + n for k in range(1, 1 + others)] or ""))
        for samples, warmup, others in shapes
        for n in range(samples)
    ]
