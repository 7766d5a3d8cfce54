"""Matrices of other tools: read as they print them, written likewise."""

import contextlib
import math
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.analysis.exchange import TOOLS, Grid, read_matrices
from fleet.errors import UsageError
from tests.peer_formats import WRITERS

CORE_LATENCY = """\
Running CAS Core Benchmark
 Samples: 500
 Iterations: 4000

      0     1     2     3
0           39    13    38
1     38          39    13
2     12    38          39
3     38    12    38
"""
RUST_SCREEN = """\
CPU: Some CPU
Num cores: 3
Num iterations per samples: 4000
Num samples: 500

1) CAS latency on a single shared cache line

           0       2       5
      0
      2   11±0
      5   94±12   93±1

    Min  latency: 11.0ns ±0.0 cores: (2,0)
    Max  latency: 94.2ns ±12.1 cores: (5,0)
    Mean latency: 66.0ns
"""
RUST_CSV = ",,\n20.459379999999996,,\n20.151615000000003,19.43073,\n"
C2CLAT = """\
 CPU    0    1
   0    0   53
   1   53    0
"""


def test_core_latency_leaves_the_diagonal_empty() -> None:
    tool, (grid,) = read_matrices(CORE_LATENCY, "x")
    assert tool == "core_latency"
    assert grid.benchmark == "cas"
    assert grid.samples == 500
    assert grid.iterations == 4000
    assert grid.cpus == (0, 1, 2, 3)
    assert len(grid.cells) == 12
    assert grid.cells[0, 1] == 39
    assert grid.cells[1, 0] == 38
    assert grid.cells[3, 2] == 38


def test_two_benchmarks_in_one_text_are_two_matrices() -> None:
    both = CORE_LATENCY + CORE_LATENCY.replace("CAS", "Read/Write")
    assert [grid.benchmark for grid in read_matrices(both, "x")[1]] == [
        "cas",
        "readwrite",
    ]


def test_a_row_that_a_paste_lost_is_missing_not_an_error() -> None:
    cut = "\n".join(CORE_LATENCY.splitlines()[:-1]) + "\n"
    (grid,) = read_matrices(cut, "x")[1]
    assert grid.cpus == (0, 1, 2, 3)
    assert len(grid.cells) == 9


def test_the_screen_of_the_rust_tool_has_cpu_numbers_and_its_csv_beside_it_the_digits() -> (
    None
):
    tool, (grid,) = read_matrices(RUST_SCREEN, "x")
    assert tool == "core-to-core-latency"
    assert grid.benchmark == "cas"
    assert grid.cpu_model == "Some CPU"
    assert grid.cells == {(2, 0): 11, (5, 0): 94, (5, 2): 93}
    (grid,) = read_matrices(RUST_SCREEN + RUST_CSV, "x")[1]
    assert grid.cells == {
        (2, 0): 20.459379999999996,
        (5, 0): 20.151615000000003,
        (5, 2): 19.43073,
    }
    assert grid.samples == 500


@pytest.mark.parametrize(
    "text",
    [
        RUST_CSV,
        RUST_CSV.replace(",", ";"),
        RUST_CSV.replace("\n", "\r\n"),
        "\ufeff" + RUST_CSV,
        RUST_CSV + "\n\n",
        # rows that end before the diagonal
        "\n20.459379999999996\n20.151615000000003,19.43073\n",
        ",\n20.459379999999996,NaN\n20.151615000000003,19.43073,NaN\n".replace(
            ",\n2", "NaN\n2", 1
        ),
    ],
    ids=[
        "as written",
        "semicolons",
        "windows",
        "byte order mark",
        "empty lines",
        "ragged",
        "ragged, NaN",
    ],
)
def test_every_shape_its_public_csv_files_have_is_read(text: str) -> None:
    (grid,) = read_matrices(text, "x", "core-to-core-latency")[1]
    assert grid.cells == {
        (1, 0): 20.459379999999996,
        (2, 0): 20.151615000000003,
        (2, 1): 19.43073,
    }
    assert grid.benchmark is None


def test_its_csv_is_written_byte_for_byte() -> None:
    (grid,) = read_matrices(RUST_CSV, "x")[1]
    assert WRITERS["core-to-core-latency"](grid) == RUST_CSV


@pytest.mark.parametrize(
    ("count", "names"),
    [(2, [None, None]), (3, ["cas", "readwrite", "message"])],
)
def test_only_all_its_benchmarks_are_told_apart_by_their_order(
    count: int, names: list[str | None]
) -> None:
    text = RUST_CSV * (count - 1) + RUST_CSV.replace("20.", "70.")
    grids = read_matrices(text, "x")[1]
    assert [grid.benchmark for grid in grids] == names
    assert grids[-1].cells[2, 0] == 70.151615000000003


@pytest.mark.parametrize(
    "text",
    [
        C2CLAT,
        "reset\nset autoscale fix\n$data << EOD\n   0   53\n   53   0\nEOD\nplot\n",
    ],
)
def test_c2clat_has_zeros_on_the_diagonal_that_are_no_latencies(text: str) -> None:
    tool, (grid,) = read_matrices(text, "x")
    assert tool == "c2clat"
    assert grid.benchmark == "readwrite"
    assert grid.cells == {(0, 1): 53, (1, 0): 53}


def test_a_plot_of_c2clat_has_headings_and_names_its_writes() -> None:
    title = 'set title "Inter-core one-way write latency between CPU cores"'
    (grid,) = read_matrices(f"{title}\n$data << EOD\n{C2CLAT}EOD\nplot\n", "x")[1]
    assert grid.benchmark == "cas"
    assert grid.cells == {(0, 1): 53, (1, 0): 53}


TITLED = (
    "[CAS (ns)]\n CPU 0 1\n 0 0 71\n 1 71 0\n\n[RW (ns)]\n CPU 0 1\n 0 0 7\n 1 7 0\n"
)


def test_titled_tables_of_c2clat_are_read_by_their_titles() -> None:
    tool, grids = read_matrices(TITLED, "x")
    assert tool == "c2clat"
    assert {grid.benchmark: grid.cells[0, 1] for grid in grids} == {
        "cas": 71,
        "readwrite": 7,
    }
    (grid,) = read_matrices(TITLED.partition("\n\n")[0], "x")[1]
    assert grid.benchmark == "cas"


FOUR = {(0, 1): 41.5, (0, 2): 60.2, (1, 2): 59.8}
LABELLED = ",0,1,2\n0,,41.5,60.2\n1,41.5,,59.8\n2,60.2,59.8,\n"


@pytest.mark.parametrize(
    "text",
    [
        LABELLED,  # pandas
        LABELLED.replace(",0", "CPU,0", 1),  # fleet
        LABELLED.replace(",0", "Unnamed: 0,0", 1),
        LABELLED.replace(",", ";").replace("\n", "\r\n"),
        LABELLED.replace(",", "\t"),
        # R
        '"","X0","X1","X2"\n"0",NA,41.5,60.2\n"1",41.5,NA,59.8\n"2",60.2,59.8,NA\n',
        LABELLED.replace("0,,41.5", "0,0,41.5"),  # 0 with itself
        LABELLED.replace("0,,41.5", "0,-,41.5").replace("59.8,\n", "59.8,x\n"),
    ],
)
def test_a_csv_with_cpu_numbers_as_first_row_and_column_is_read_by_them(
    text: str,
) -> None:
    tool, (grid,) = read_matrices(text, "m.csv")
    assert tool == "csv"
    assert grid.cpus == (0, 1, 2)
    assert dict(grid.cells) == FOUR | {
        (row, column): value for (column, row), value in FOUR.items()
    }


def test_labels_of_a_csv_may_have_gaps_and_be_two() -> None:
    for text, cpus in (
        (",8,9\n8,,41.5\n9,41.5,\n", (8, 9)),
        (",0,1\n0,,41.5\n1,41.5,\n", (0, 1)),
    ):
        (grid,) = read_matrices(text, "m.csv")[1]
        assert grid.cpus == cpus
        assert set(grid.cells.values()) == {41.5}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (",41,60\n41,,59\n60,59,\n", "line 1: if these are CPU numbers"),
        ("CPU,0,1\n0,,41.5\n", "unknown format"),
        ("CPU,0,1\n0,,41.5\n1,40,\n2,3,4\n", "line 1: 2 CPUs as columns, 3 as rows"),
        ("CPU,0,1\n0,,41.5\n3,41.5,\n", "line 3: expected the row of CPU 1"),
        (
            "0,1,41.5\n0,2,60.2\n1,2,59.8\n",
            "line 2: CPU 1 has 2 with itself",
        ),  # a table of pairs
        (
            "Numa node,0,1\n0,81.5,141\n1,141.5,82\n",
            "line 2: CPU 0 has 81.5 with itself",
        ),
        (" CPU 0 1\n 0 0 71\n 1 71 9\n", "line 3: CPU 1 has 9 with itself"),
        ("$data << EOD\n 0 71\n 71 9\nEOD\n", "line 3: CPU 1 has 9 with itself"),
        (
            "Writer Numa Node,0,1\n0,-,336.8\n1,363.9,-\n",
            "line 1: a matrix of memory nodes",
        ),
        ("CPU (cycles),0,1\n0,,200\n1,210,\n", "line 1: a matrix in cycles; convert"),
        ("latency [µs],0,1\n0,,2\n1,2,\n", "line 1: a matrix in µs; convert"),
        ("CPU,0,1\n0,,0\n1,41.5,\n", "the cell of CPUs 0 and 1 is 0"),
        (
            "CPU,0,1\n0,,0.0415\n1,41.5,\n",
            "CPUs 0 and 1 is 0.0415, which is not a latency in ns. Convert",
        ),
        (
            "Num cores: 4\ntoCore 0 1\nfromCore\n0 NaN 26\n1 26 NaN\n",
            "no matrix .* found.*Convert others",
        ),
        (
            ",CPUA,CPUB,LATENCY\n0,95,94,25.81\n",
            "unknown format.*Convert others to CSV",
        ),
        (" CPU 0 1\n 0 0 0\n 1 71 0\n", "the cell of CPUs 0 and 1 is 0"),
        (" CPU 0 1\n 0 0 71\n 1 71 0\n" * 2, "line 4: a second table"),
        (TITLED.replace("RW", "CAS"), "line 7: a second table"),
        (TITLED.replace("[RW (ns)]", ""), "line 7: a second table"),
        (
            TITLED.replace("RW", "LL/SC"),
            "line 7: a table of 'LL/SC'; fleet reads CAS and RW",
        ),
        ("hello\n", "unknown format"),
        ("", "unknown format"),
        (
            ",,\n1,,\n2,3,4,5,6\n",
            "line 3: 5 values, expected 3. Did lines run together",
        ),
        (",\n1,\n2,\n", "3 rows of 2 values are not a square"),
        (",\n-1,\n", "cannot be a latency"),
        (",\n1e999,\n", "cannot be a latency"),
        (
            CORE_LATENCY.replace("39    13    38", "39    13"),
            "line 6: 2 values for CPU 0, expected 3",
        ),
        (CORE_LATENCY.replace("\n2  ", "\n7  "), "line 8: expected the row of CPU 2"),
        (C2CLAT.replace("   1   53    0\n", ""), "line 3: expected the row of CPU 1"),
        (
            RUST_SCREEN.replace("11±0", "11±0 9±1 8±1"),
            "line 10: 3 values for CPU 2, expected 1",
        ),
    ],
)
def test_what_is_damaged_or_no_matrix_is_refused_with_its_line(
    text: str, message: str
) -> None:
    with pytest.raises(UsageError, match=f"file.txt: .*{message}"):
        read_matrices(text, "file.txt")


def test_columns_of_c2clat_may_be_siblings_beside_each_other() -> None:
    heading = " CPU    0    2    1\n"
    rows = "   0    0   50   60\n   2   50    0   70\n   1   60   70    0\n"
    (grid,) = read_matrices(heading + rows, "x")[1]
    assert grid.cpus == (0, 1, 2)
    assert grid.cells[1, 2] == 70
    assert grid.cells[0, 2] == 50


LATENCIES = st.floats(min_value=1, max_value=1e9, allow_nan=False)


@st.composite
def grids(draw: st.DrawFn, *, gaps: bool) -> Grid:
    count = draw(st.integers(2, 6))
    cpus = tuple(range(count))
    cells = {
        (row, column): draw(LATENCIES)
        for row in cpus
        for column in cpus
        if row != column
    }
    if gaps:
        cells = {where: value for where, value in cells.items() if where[0] > where[1]}
    return Grid(cpus, cells, "readwrite")


@given(st.sampled_from(sorted(TOOLS)), st.booleans(), st.data())
def test_what_is_written_reads_back_as_the_tool_prints_it(
    tool: str, gaps: bool, data: st.DataObject
) -> None:
    grid = data.draw(grids(gaps=gaps and tool == "core-to-core-latency"))
    (back,) = read_matrices(WRITERS[tool](grid), "x", tool)[1]
    assert back.cpus == grid.cpus
    rounding = {
        "core-to-core-latency": float,
        "csv": lambda value: round(value, 2),
    }.get(tool, math.floor)
    assert dict(back.cells) == {
        where: rounding(value) for where, value in grid.cells.items()
    }


@given(st.text(alphabet=" \n,;0123456789.±CPUNum:eE-naN)", max_size=200))
def test_no_text_ends_in_anything_but_matrices_or_a_clear_error(text: str) -> None:
    for tool in (None, *TOOLS):
        try:
            assert read_matrices(text, "x", tool)[1]
        except UsageError as err:
            assert str(err).startswith("x: ")


@pytest.mark.parametrize(
    "line",
    ["1,{}x", "{}x,1", "[{}x", "Running {}x", "CPU{}x", "± {}x", "Num cores:{}x"],
)
@pytest.mark.parametrize("before", ["", "CPU 0 1\n", "Num cores: 2\n", "1,2\n"])
def test_the_time_of_a_line_grows_with_its_length(line: str, before: str) -> None:
    def measure_s(blanks: int) -> float:
        text = f"{before}{line.format(' ' * blanks)}\nCPU 0 1\n"
        times = []
        for _ in range(3):
            begin = time.process_time()
            with contextlib.suppress(UsageError):
                read_matrices(text, "a file")
            times.append(time.process_time() - begin)
        return min(times)

    # 16 times as long: 256 times the time if each blank takes a pass of its own
    assert measure_s(16_000) < 64 * max(measure_s(1000), 1e-4)
