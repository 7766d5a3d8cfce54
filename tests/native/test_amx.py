"""Products on tiles, on any x86_64: the agent's own bytes, read back, and carried out
by a simulator.
"""

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests import needs
from tests.native import disassembly
from tests.native.agent import measure, run
from tests.native.build import AGENT, build
from tests.native.targets import X86_64

SIMULATOR = Path(__file__).with_name("amx")
SOURCE = AGENT / "native" / "x86_64_amx.c"
# the making of plans is not linked, nor called
ALONE = (
    "-static",
    "-Wl,--unresolved-symbols=ignore-all",
)
TILES = re.compile(r"^(ld|st)?tile|^tdp|^prefetcht0")


@pytest.fixture(autouse=True)
def machine() -> None:
    if os.uname().machine != "x86_64":
        needs.missing("the simulator runs on x86_64 only")


def compile_program(folder: Path, *arguments: str) -> None:
    """Run the compiler in the folder."""
    flags = ("-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror")
    places = (f"-I{AGENT}", f"-I{AGENT / 'native'}", f"-I{SIMULATOR}")
    command = [needs.program("gcc", "gcc"), *flags, *places, *arguments]
    subprocess.run(command, cwd=folder, check=True)


@pytest.fixture(scope="module")
def simulator(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The objects of a program with loops on tiles, but for those."""
    folder = tmp_path_factory.mktemp("simulator")
    ours = ("bench/matrices.c", "bench/gemm.c", "bench/bandwidth.c", "base/random.c")
    sources = (SIMULATOR / "simulator.c", *(AGENT / name for name in ours))
    compile_program(folder, "-c", *map(str, sources))
    return [str(folder / f"{source.stem}.o") for source in sources]


def program(folder: Path, simulator: list[str], source: Path = SOURCE) -> Path:
    """The program with the loops of a source."""
    compile_program(
        folder,
        f'-DKERNELS="{source}"',
        "-o",
        "products",
        str(SIMULATOR / "products.c"),
        *simulator,
        *ALONE,
    )
    return folder / "products"


@pytest.fixture(scope="module")
def products(tmp_path_factory: pytest.TempPathFactory, simulator: list[str]) -> Path:
    return program(tmp_path_factory.mktemp("amx"), simulator)


def build_changed(folder: Path, simulator: list[str], good: str, bad: str) -> Path:
    """The program with the loops after this change."""
    text = SOURCE.read_text()
    assert text.count(good) == 1
    source = folder / "changed.c"
    source.write_text(text.replace(good, bad))
    return program(folder, simulator, source)


def run_simulator(binary: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([binary, *words], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("kind", ["bf16", "int8"])
@pytest.mark.parametrize(
    "shape",
    [
        "64 128 128",
        "256 256 256",
        "16 64 64",
        "96 192 192",
        "32 64 576",
        "64 96 128",
        "48 16 64",
    ],
)
def test_every_loop_on_tiles_is_exact(products: Path, kind: str, shape: str) -> None:
    done = run_simulator(products, kind, *shape.split())
    assert done.returncode == 0, done.stdout + done.stderr
    m, n, k = map(int, shape.split())
    strips = m // 16 * -(-n // 64)
    steps = k // (32 if kind == "bf16" else 64)
    # Five products, of which one adds to the one before; and the configuration of each
    # of the four points.
    parts = -(-steps // 8)
    assert int(done.stdout) == 5 * strips * (9 * steps + 8 * parts) + 2 * 4


@pytest.mark.parametrize("kind", ["bf16", "int8"])
def test_the_loop_of_the_peak_does_what_it_claims_and_waits_for_none(
    products: Path, kind: str
) -> None:
    done = run_simulator(products, "peak", kind)
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(done.stdout) == 4  # a product takes 52 cycles, and one begins every 16


@pytest.mark.long
@pytest.mark.parametrize(
    ("good", "bad"),
    [
        ("PRODUCTS = 16", "PRODUCTS = 8"),
        ("TILE_SUMS = 16 * 16", "TILE_SUMS = 16 * 8"),
        ("2 * PRODUCTS * TILE_SUMS", "4 * PRODUCTS * TILE_SUMS"),
        ("TILE_SUMS * (deep)", "TILE_SUMS * 32"),
        (
            "FOUR(kind) FOUR(kind) FOUR(kind) FOUR(kind)",
            "FOUR(kind) FOUR(kind) FOUR(kind)",
        ),
        (
            "kind##_0 kind##_1 kind##_2 kind##_3\n",
            "kind##_0 kind##_1 kind##_2 kind##_2\n",
        ),
        ("kind##_0 kind##_1 kind##_2 kind##_3\n", "kind##_0 kind##_1 kind##_3\n"),
        ("sub $0x400, %%rdi", "sub $0x200, %%rdi"),
        ("PEAK(amx_int8, INT8)", "PEAK(amx_int8, BF16)"),
        ("dec %[turns]\\n\\tjne 1b", "dec %[turns]\\n\\tje 1b"),
        (
            ".rows = {16, 16, 16, 16, 16, 16, 16, 16}",
            ".rows = {16, 16, 16, 8, 16, 16, 16, 16}",
        ),
    ],
)
def test_a_peak_that_is_not_what_it_claims_is_found(
    tmp_path: Path, simulator: list[str], good: str, bad: str
) -> None:
    binary = build_changed(tmp_path, simulator, good, bad)
    done = [run_simulator(binary, "peak", kind) for kind in ("bf16", "int8")]
    assert any(process.returncode or process.stdout != "4\n" for process in done)


@pytest.mark.parametrize(
    ("variant", "stride"),
    [("tile", 64), ("tile", 256), ("tile", 576), ("tile", 2048), ("tileblock", 64)],
)
def test_reads_by_tiles_load_each_byte_once(
    products: Path, variant: str, stride: int
) -> None:
    done = run_simulator(products, variant, str(stride))
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(done.stdout) == 48 * stride // 1024 + 2


@pytest.mark.parametrize(
    ("misuse", "words"),
    [
        ("unconfigured", "tiles are not configured"),
        ("released", "tiles are not configured"),
        ("small", "tiles that do not fit together"),
        ("twice", "a tile that is used twice"),
        ("unknown", "an unknown form"),
    ],
)
def test_the_simulator_refuses_what_a_cpu_would(
    products: Path, misuse: str, words: str
) -> None:
    done = run_simulator(products, misuse)
    assert done.returncode == 99
    assert words in done.stderr


@pytest.mark.parametrize(
    ("good", "bad"),
    [
        (
            "0x42, 0x5c, 0xd4",
            "0x42, 0x5c, 0xd5",
        ),  # columns of B for rows of A in a product
        ("0x4a, 0x5c, 0xcc", "0x42, 0x5c, 0xcc"),  # other columns of B
        ("0x4b, 0x24, 0x16", "0x4b, 0x24, 0x0e"),  # rows of A by the stride of B
        (
            "0x0f, 0x00, 0x04, 0x00",
            "0x0f, 0x00, 0x05, 0x00",
        ),  # columns of B from elsewhere
        ("0x7b, 0x49, 0xd0", "0x7b, 0x49, 0xd8"),  # a sum that is not cleared
        ("0x7b, 0x49, 0xd0", "0x73, 0x49, 0xd0"),  # an operand of what has none
        (
            "0x7a, 0x4b, 0x4c, 0x11, 0x40",
            "0x7a, 0x4b, 0x4c, 0x11, 0x20",
        ),  # C to elsewhere
        (
            "0x7b, 0x4b, 0x4c, 0x13, 0x40",
            "0x7b, 0x4b, 0x4c, 0x13, 0x00",
        ),  # C from elsewhere
        ("0x4b, 0x5e, 0xcc", "0x4a, 0x5e, 0xcc"),  # unsigned bytes
        (".strips = true", ".strips = false"),  # a call for each strip
        (
            "tile->add ? 16 *",
            "tile->add ? 8 *",
        ),  # lines of C ahead, from the middle of a strip
        ("prefetcht2", "prefetcht1"),  # B ahead, into another cache
        ("(ahead_amx_bf16, BF16, B_AHEAD)", '(ahead_amx_bf16, BF16, "")'),  # no B ahead
    ],
)
def test_a_wrong_byte_or_line_ahead_is_found(
    tmp_path: Path, simulator: list[str], good: str, bad: str
) -> None:
    binary = build_changed(tmp_path, simulator, good, bad)
    codes = {
        run_simulator(binary, kind, "64", "128", "128").returncode
        for kind in ("bf16", "int8")
    }
    assert codes & {1, 99}, codes


def test_why_tiles_cannot_be_used_has_a_sentence_for_each_reason(
    tmp_path: Path,
) -> None:
    binary = tmp_path / "detection"
    needs.program("gcc", "gcc")
    command = [
        "gcc",
        "-std=gnu11",
        "-Wall",
        "-Werror",
        "-I.",
        "-o",
        str(binary),
        SIMULATOR / "detection.c",
    ]
    subprocess.run(command, cwd=AGENT, check=True)
    assert run_simulator(binary).stdout == (SIMULATOR / "detection.txt").read_text()


def forms(symbol: str) -> list[str]:
    code = disassembly.instructions(X86_64, build(), symbol)
    tiles = (text for _, text in code if TILES.match(text))
    return [
        re.sub(r"^prefetcht0 (?:0x0\b)?(.*)\(%\w+\)", r"prefetcht0 \1(C)", text)
        for text in tiles
    ]


PLACES = ("", "0x40", "0x80", "0xc0")
A = "(%rsi,%rdx,1),%tmm4"
B = (
    "(%rdi,%rcx,1),%tmm5",
    "0x400(%rdi,%rcx,1),%tmm6",
    "0x800(%rdi,%rcx,1),%tmm7",
    "0xc00(%rdi,%rcx,1),%tmm5",
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "instruction"), [("bf16", "tdpbf16ps"), ("int8", "tdpbssd")]
)
@pytest.mark.parametrize("way", ["gemm", "gemm_ahead"])
def test_the_bytes_are_the_instructions_in_their_comments(
    kind: str, instruction: str, way: str
) -> None:
    clear = [[f"tilezero %tmm{i}"] for i in range(4)]
    load = [
        [f"tileloadd {place}(%r11,%r10,1),%tmm{i}"] for i, place in enumerate(PLACES)
    ]
    store = [
        f"tilestored %tmm{i},{place}(%r9,%r10,1)" for i, place in enumerate(PLACES)
    ]
    loads = [f"tileloaddt1 {A}", *(f"tileloadd {place}" for place in B)]
    rows_ahead = [f"prefetcht0 {place}(C)" for place in PLACES] * (
        1 if kind == "bf16" else 2
    )
    products = [
        f"{instruction} %tmm{b},%tmm4,%tmm{c}"
        for b, c in ((5, 0), (6, 1), (7, 2), (5, 3))
    ]

    def step(*before: list[str]) -> list[str]:
        first, *others = (
            [*texts, product] for texts, product in zip(before, products, strict=True)
        )
        operands = [*loads[:3], *rows_ahead, loads[3], *rows_ahead]
        return [
            *operands,
            *first,
            loads[4],
            *(text for texts in others for text in texts),
        ]

    assert forms(f"x86_64_{way}_amx_{kind}") == [
        *(text for texts in (*clear, *load) for text in texts),
        *step(*([put, *cleared] for put, cleared in zip(store, clear, strict=True))),
        *step(*([put, *loaded] for put, loaded in zip(store, load, strict=True))),
        *step([], [], [], []),
        *store,
    ]
    assert forms("x86_64_amx_begin") == ["ldtilecfg (%rax)"]
    assert forms("x86_64_amx_end") == ["tilerelease"]


@pytest.mark.slow
def test_reads_by_tiles_take_the_rows_asked_for_or_refuse_them() -> None:
    plan = (
        "-b",
        "bandwidth",
        "--op",
        "read",
        "--threads",
        "1",
        *("-r", "1", "--samples", "1"),
    )
    refusals = {
        "100": "multiple of 64, not 100|multiple of 8",
        "1088": "room in none of the sizes",
    }
    if "tile (not on this CPU)" in run("-b", "bandwidth", "-v", "none").stderr:
        assert run(*plan, "-v", "tile").returncode == 5
        return
    for stride, words in refusals.items():
        done = run(*plan, "-v", "tile", "--sizes", "16K", "--stride", stride)
        assert done.returncode == 2
        assert bool(re.search(words, done.stderr)) is True
    assert run(*plan, "--sizes", "16K", "--stride", "1088").returncode == 0
    records = measure(*plan, "-v", "all", "--sizes", "16K,20K,28K", "--stride", "576")
    loops = {
        (
            burst["variant"],
            burst["point"].split(".")[2],
            burst["parameters"]["stride_bytes"],
        )
        for burst in records
        if burst["record"] == "burst" and burst["variant"].startswith("tile")
    }
    blocks = {("tileblock", size, 64) for size in ("16K", "20K", "28K")}
    assert (
        loops
        == {
            ("tile", "9K", 576),
            ("tile", "18K", 576),
            ("tile", "27K", 576),
        }
        | blocks
    )


@pytest.mark.slow
def test_tiles_are_used_where_the_cpu_has_them_and_otherwise_refused_with_the_reason() -> (
    None
):
    small = (
        "--shape",
        "720x768x64",
        "--threads",
        "1",
        "-s",
        "1",
        "-i",
        "1",
        "--sizes",
        "64K",
    )
    plan = measure("-b", "gemm", "-v", "all", "-r", "1", *small)[0]["plan"]
    has_tiles = "amx-bf16" in {choice["variant"] for choice in plan["benchmarks"]}
    done = run("-b", "gemm", "-v", "amx-bf16", "-r", "1", *small)
    if has_tiles:
        assert done.returncode == 0, done.stderr
        return
    assert done.returncode == 5
    assert "(not on this CPU)" in done.stderr
    assert re.search(r"CPUID|XCR0|arch_prctl", done.stderr)
