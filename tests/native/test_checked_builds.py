"""The agent under the compiler's and other checkers: no report, and it still
measures.
"""

import subprocess

import pytest

from tests import needs
from tests.native.agent import QUICK, SMALL_ONES, bursts, decode, run, wrong
from tests.native.build import AGENT, BUILD_ID, build, list_shared_files, sources
from tests.native.targets import AARCH64, X86_64

QUIET = {
    "ASAN_OPTIONS": "detect_leaks=1",
    "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
}


def check(binary, *args, code=0, env=None):
    done = run(*args, "-f", "jsonl", binary=binary, env=env or QUIET)
    assert done.returncode == code, done.stderr
    assert (done.stderr if code == 0 else "") == "", done.stderr
    assert "Sanitizer" not in done.stderr
    assert "runtime error" not in done.stderr
    return decode(done.stdout)


@pytest.mark.slow
def test_address_and_undefined_behaviour_sanitizers_find_nothing():
    needs.cpus(2)
    binary = build(
        X86_64, "-O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all"
    )
    records = check(binary, "-b", SMALL_ONES, "--variant", "all", *QUICK)
    assert bursts(records)
    assert not wrong(records)
    for args in (
        ["--owner", "pong", "--sep", "64", "--line", "fixed"],
        ["--precision", "0.0001%", "--time-budget", "0.3", "--variant", "cas=all"],
        ["--preset", "c2clat", "--estimator", "mean", "-s", "20"],
    ):
        assert bursts(check(binary, "-b", "cas,readwrite", *QUICK, *args))
    for args in (
        ["-f", "csv"],
        ["-f", "matrix"],
        ["--list"],
        ["--help"],
        ["--version"],
    ):
        done = run("-b", SMALL_ONES, *QUICK, *args, binary=binary, env=QUIET)
        assert done.returncode == 0
        # what the sanitizers say does not begin so; beside other work there are notes
        said = done.stderr.splitlines()
        assert all(line.startswith("fleet-agent: ") for line in said)
    for args in (
        ["--samples", "x"],
        ["-c", "999"],
        ["--variant", "none"],
        ["-c", "0-1,"],
        ["-p", "0-1,1-0"],
        ["--node", "77"],
    ):
        done = run(*args, binary=binary, env=QUIET)
        assert done.returncode in (2, 4, 5)
        assert "Sanitizer" not in done.stderr


@pytest.mark.slow
def test_threads_of_a_burst_that_was_stopped_use_nothing_freed():
    needs.cpus(2)
    binary = build(
        X86_64, "-O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all"
    )
    for deadline in range(12):
        long_bursts = ("-b", "gemm", "-v", "c11", "--sizes", "4M", "-r", "1")
        check(binary, *long_bursts, "--deadline", f"1.{deadline:02}", code=6)


@pytest.mark.slow
def test_thread_sanitizer_finds_no_race_where_it_can_see():
    needs.cpus(2)
    # It cannot see the fences of message and fetch, which are not run here, and warns
    # of each.
    binary = build(X86_64, "-O1 -g -fsanitize=thread -Wno-tsan")
    env = {"TSAN_OPTIONS": "halt_on_error=1"}
    records = check(binary, "-b", "cas,readwrite", "--variant", "c11", *QUICK, env=env)
    assert bursts(records)
    assert not wrong(records)


@pytest.mark.slow
def test_a_static_build_measures():
    needs.cpus(2)
    assert bursts(check(build(X86_64, "-O2 -static"), *QUICK))


@pytest.mark.slow
@pytest.mark.parametrize("target", [X86_64, AARCH64], ids=lambda target: target.name)
def test_make_builds_the_same_agent(target, tmp_path):
    binary = tmp_path / "fleet-agent"
    command = [
        needs.program("make", "make"),
        "-C",
        str(AGENT),
        f"TARGET={target.name}",
        "STRICT=1",
        f"CC={needs.program(*target.gcc)}",
        f"OUT={binary}",
        f"BUILD_ID={BUILD_ID}",
        "LDFLAGS=-static",
    ]
    subprocess.run(command, check=True, capture_output=True)
    emulator = next(iter(target.emulators.values()))
    if emulator:
        needs.program(emulator[0], target.emulator_package)
    assert run("--build-id", binary=binary, prefix=emulator).stdout == f"{BUILD_ID}\n"


def test_make_refuses_a_target_it_has_no_file_for():
    done = subprocess.run(
        [needs.program("make", "make"), "-C", str(AGENT), "TARGET=linux-vax"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "linux-vax" in done.stderr


@pytest.mark.slow
def test_cppcheck_finds_nothing():
    cppcheck = [
        needs.program("cppcheck", "cppcheck"),
        "-I.",
        "--enable=warning,performance,portability",
        "--inline-suppr",
        "--error-exitcode=1",
        "--quiet",
        "--std=c11",
        *sources(X86_64),
    ]
    done = subprocess.run(
        cppcheck, cwd=AGENT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def analyse_with_clang(*settings):
    """The command for paths that end where their function has 60,000 nodes."""
    configured = f"-analyzer-config {','.join(('max-nodes=60000', *settings))}"
    words = [word for part in configured.split() for word in ("-Xclang", part)]
    return ("clang", "--analyze", "-Werror", *words)


# clang follows calls, and then sees what is called only from there; beside it the paths
# of every function alone. Together they reach each block that the default of 225,000
# nodes does, which takes twice as long.
@pytest.mark.slow
@pytest.mark.parametrize(
    "analyser",
    [
        ("gcc", "-fanalyzer", "-Werror", "-c"),
        analyse_with_clang(),
        analyse_with_clang("ipa=none"),
    ],
    ids=["gcc", "clang", "clang-alone"],
)
def test_the_compilers_own_analysers_find_nothing(analyser, tmp_path):
    program, *flags = analyser
    for source in sources(X86_64):
        command = [
            needs.program(program, program),
            *flags,
            "-std=gnu11",
            "-O1",
            "-pthread",
            "-I",
            AGENT,
        ]
        done = subprocess.run(
            [*command, AGENT / source],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, source
        assert done.stderr == "", source


@pytest.mark.slow
def test_valgrind_finds_nothing():
    needs.cpus(2)
    memcheck = (
        needs.program("valgrind", "valgrind"),
        "--quiet",
        "--fair-sched=yes",
        "--error-exitcode=9",
        "--leak-check=full",
        "--errors-for-leak-kinds=definite",
    )
    plan = (
        "-b",
        "cas,clock",
        "-r",
        "1",
        "-s",
        "2",
        "-w",
        "0",
        "-i",
        "5",
        "--stuck-timeout",
        "30",
    )
    for form in ("jsonl", "matrix"):
        done = run(*plan, "-f", form, binary=build(X86_64, "-O1 -g"), prefix=memcheck)
        assert done.returncode == 0, done.stderr
        assert "ERROR SUMMARY" not in done.stderr


@pytest.mark.long
def test_the_sources_are_formatted():
    clang_format = needs.program("clang-format", "clang-format")
    files = [str(path) for path in sorted(AGENT.rglob("*.[ch]"))]
    done = subprocess.run(
        [clang_format, "--dry-run", "--Werror", *files],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_only_the_files_of_native_know_the_machine():
    for name in list_shared_files():
        text = (AGENT / name).read_text()
        for word in (
            "__linux__",
            "__QNX__",
            "__x86_64__",
            "__aarch64__",
            "sys/syscall.h",
            "asm volatile",
        ):
            assert word not in text, f"{name}: {word}"
