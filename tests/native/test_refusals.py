"""What a benchmark cannot do is refused before anything is printed, with what
there is.
"""

import pytest

from tests import needs
from tests.native.agent import run

NO_POINT = "no point of the operations and threads asked for"
NEAREST = "nearest shape for all its variants is 256x256x256"
RATES = "--load wants a list such as 0,0.5,16,full: GB/s from 0.1 to 64, or 0, "
REFUSED = [
    ("clock,fetch", ["--format", "c2clat"], 2, "chosen has that: clock, fetch"),
    ("contend", ["--threads", "1"], 2, "no point of contend"),
    ("contend", ["--op", "nt"], 5, NO_POINT),
    ("contend", ["--op", "modify", "--share", "one"], 2, "no point of contend"),
    ("contend", ["--share", "here"], 2, "there is: own, one, shared, words"),
    ("sharing", ["--op", "faa"], 5, NO_POINT),
    ("interleave", ["--op", "read"], 5, NO_POINT),
    ("bandwidth,interleave", ["--op", "read"], 5, NO_POINT),
    *(
        ("interleave", [f"--blocks={blocks}"], 2, "powers of two from 64 to 64K")
        for blocks in ("32", "96", "128K", "4K..1K", "64,", "", "x")
    ),
    *(
        (
            "message",
            [f"--lines-per-message={lines}"],
            2,
            "a list of numbers from 1 to 64",
        )
        for lines in ("0", "65", "1,", "a", "1 2", "")
    ),
    (
        "fetch",
        ["--state", "ours"],
        2,
        "own, written, clean, both, third, taken, evicted, memory",
    ),
    ("fetch", ["--stride", "96"], 2, "a power of two from 64 to 2048"),
    ("fetch", ["--stride", "4096"], 2, "a power of two from 64 to 2048"),
    ("fetch", ["--op", "nt"], 5, NO_POINT),
    ("fetch", ["--few-pairs", "0-0"], 2, "with itself"),
    ("gemm", ["-v", "c11", "--shape", "255x256x256"], 2, NEAREST),
    ("gemm", ["-v", "c11", "--shape", "256x250x256"], 2, NEAREST),
    ("gemm", ["-v", "c11", "--shape", "8x8x5000"], 2, "at most 4096 each"),
    *(
        (
            "gemm",
            ["-v", "c11", "--shape", shape],
            2,
            "wants auto, or such as 256x256x256",
        )
        for shape in ("256x256", "0x8x8", "8x8x8x8", "8x8x8x", "big")
    ),
    *(
        ("loaded", ["--load", load], 2, f"{RATES}not '{bad}'")
        for load, bad in (
            ("", ""),
            ("1,", ""),
            ("0.05", "0.05"),
            ("65", "65"),
            ("-1", "-1"),
        )
    ),
    ("loaded", ["--load", "fast"], 2, RATES),
    *(
        (
            "loaded",
            ["--reads", reads],
            2,
            f"a list of numbers from 1 to 100, not '{reads}'",
        )
        for reads in ("", "0", "101", "50,", "half")
    ),
    ("loaded", ["--reads", ",".join(["1"] * 17)], 2, "at most 16 per cents, not '1,"),
    ("chase,bandwidth", ["--sizes", "5K"], 2, "multiples of 4K"),
    ("chase,bandwidth", ["--sizes", "64K..16K"], 2, "multiples of 4K"),
    ("chase,bandwidth", ["--sizes", "16K,"], 2, "multiples of 4K"),
    ("chase,bandwidth", ["--sizes", "900G"], 2, "no more than half of the"),
    ("chase,bandwidth", ["--op", "red"], 2, "there is: read, write, nt"),
    ("chase,bandwidth", ["--op", "nt", "-v", "bandwidth=c11"], 5, NO_POINT),
    ("chase,bandwidth", ["--threads", "9999"], 2, "there are only"),
    (
        "chase,bandwidth",
        ["--threads", "some"],
        2,
        "llc, cores, node, package, all and numbers",
    ),
    ("chase,bandwidth", ["--share", "both"], 2, "there is: own, one"),
    (
        "chase,bandwidth",
        ["--share", "one", "--threads", "1"],
        2,
        "several threads that read",
    ),
    ("chase,bandwidth", ["--stride", "12"], 2, "multiple of 8"),
    ("chase,bandwidth", ["--stride", "4096", "--sizes", "4K"], 2, "no two lines"),
    ("chase,bandwidth", ["--pages", "large"], 2, "huge|base"),
    (
        "chase,bandwidth",
        ["--op", "nt,read", "-v", "bandwidth=c11"],
        5,
        "--op nt: no variant",
    ),
    ("chase,bandwidth", ["-v", "bandwidth=none"], 5, "bandwidth has no variant 'none'"),
]


@pytest.mark.parametrize(("benchmark", "args", "code", "words"), REFUSED)
def test_what_a_benchmark_cannot_do_is_refused_with_what_there_is(
    benchmark: str, args: list[str], code: int, words: str
) -> None:
    needs.cpus(2)
    done = run("-b", benchmark, *args)
    assert done.returncode == code
    assert done.stdout == ""
    assert words in done.stderr


def test_what_a_matrix_of_pairs_leaves_out_is_named() -> None:
    needs.cpus(2)
    done = run("-b", "clock,cas", "--format", "c2clat", "--rounds", "1")
    assert done.returncode == 0
    assert "--format c2clat prints one number a pair; left out: clock." in done.stderr
    assert done.stdout.startswith(" CPU ")
