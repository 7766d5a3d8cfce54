"""As other programs measure: their samples, and their estimators, exactly."""

import re
import statistics

import pytest

from fleet.analysis.exchange import TOOLS, Grid
from tests import needs
from tests.native.agent import bursts, decode, run
from tests.native.build import build
from tests.native.targets import make_troubled
from tests.peer_formats import WRITERS

SCHEMES = {
    "core_latency": ("ordered", 500, 4000, 0, "median"),
    "core-to-core-latency": ("half", 300, 1000, 1, "mean"),
    "c2clat": ("half", 1000, 100, 0, "min"),
}


@pytest.fixture(scope="module")
def scripted_agent():
    """Build an agent whose clock says, in every burst, 1,000 x (1 + i * i % 11) ns for
    the i-th sample.
    """
    needs.cpus(2)
    target = make_troubled("counter")
    return build(target, native_flags="-DSCRIPTED -DSTATED=1000000000")


def samples(count, warmup):
    return [1000 * (1 + i * i % 11) for i in range(1 + warmup, 1 + warmup + count)]


def cells(text):
    """The numbers of a matrix of CPUs 0 and 1."""
    return [
        float(word) for word in re.findall(r"^ +[01] .*?(\d+\.\d)", text, re.MULTILINE)
    ]


@pytest.mark.parametrize("preset", SCHEMES)
def test_a_preset_is_the_scheme_of_the_program_it_is_named_for(preset):
    needs.cpus(2)
    plan = decode(
        run("--preset", preset, "-b", "cas", "-f", "jsonl", "--deadline", "0.1").stdout
    )[0]["plan"]
    assert plan["preset"] == preset
    scheme = (
        plan["pairs"],
        plan["samples"],
        plan["iterations"],
        plan["warmup"],
        plan["estimator"],
    )
    assert scheme == SCHEMES[preset]
    assert plan["rounds"] == 1
    assert plan["order"] == "sequential"
    assert plan["line"] == "fixed"
    assert plan["precision_ppm"] is None


def test_options_after_a_preset_win_over_it():
    needs.cpus(2)
    changed = (
        "--samples",
        "20",
        "--preset",
        "c2clat",
        "--samples",
        "30",
        "--rounds",
        "2",
        "--line",
        "fresh",
    )
    plan = decode(run(*changed, "-b", "cas", "-f", "jsonl").stdout)[0]["plan"]
    assert plan["samples"] == 30
    assert plan["rounds"] == 2
    assert plan["line"] == "fresh"
    assert plan["iterations"] == 100
    assert plan["estimator"] == "min"


@pytest.mark.long
@pytest.mark.parametrize("preset", SCHEMES)
def test_the_matrix_shows_what_the_presets_estimator_makes_of_the_samples(
    scripted_agent, preset
):
    _, count, _, warmup, estimator = SCHEMES[preset]
    reduce = {"median": statistics.median, "mean": statistics.fmean, "min": min}[
        estimator
    ]
    done = run("--preset", preset, "-b", "cas", "-i", "100", binary=scripted_agent)
    expected = round(reduce(samples(count, warmup)) / 100 / 2, 1)
    assert done.returncode == 0, done.stderr
    assert cells(done.stdout)
    assert all(abs(cell - expected) <= 0.051 for cell in cells(done.stdout))
    assert f"sampled as {preset} does" in done.stdout
    assert ("whole ns, rounded down" in done.stdout) == (preset == "core_latency")


@pytest.mark.parametrize("estimator", ["median", "mean", "min"])
def test_an_estimator_is_used_within_bursts_and_over_them(scripted_agent, estimator):
    reduce = {"median": statistics.median, "mean": statistics.fmean, "min": min}[
        estimator
    ]
    plan = ("-b", "cas", "-r", "3", "-s", "7", "-w", "2", "-i", "10")
    done = run(*plan, "--estimator", estimator, binary=scripted_agent)
    expected = round(reduce(samples(7, 2)) / 10 / 2, 1)
    assert all(abs(cell - expected) <= 0.051 for cell in cells(done.stdout))


def test_the_matrix_is_followed_by_least_median_mean_and_most(scripted_agent):
    done = run(
        "--preset",
        "core_latency",
        "-b",
        "cas",
        "-s",
        "9",
        "-i",
        "10",
        binary=scripted_agent,
    )
    lines = re.findall(
        r"^ *(min|median|mean|max) +(\d+\.\d)", done.stdout, re.MULTILINE
    )
    assert [name for name, _ in lines] == ["min", "median", "mean", "max"]
    assert len({ns for _, ns in lines}) == 1  # every pair reads the same here


@pytest.mark.long
@pytest.mark.parametrize("pairs", ["half", "ordered"])
@pytest.mark.parametrize(
    "tool", sorted({*TOOLS} - {"csv"})
)  # the agent's own csv has a row per sample
def test_a_matrix_is_printed_as_the_controller_exports_it(scripted_agent, tool, pairs):
    plan = (
        "-b",
        "cas,readwrite",
        "-c",
        "0,1",
        "-p",
        pairs,
        "-r",
        "2",
        "-s",
        "7",
        "-i",
        "10",
    )
    printed = run(*plan, "--format", tool, binary=scripted_agent)
    assert printed.returncode == 0, printed.stderr
    hello, *records = decode(
        run(*plan, "--format", "jsonl", binary=scripted_agent).stdout
    )
    reduce = {"median": statistics.median, "mean": statistics.fmean, "min": min}[
        TOOLS[tool].estimator
    ]
    expected = ""
    for benchmark in ("cas", "readwrite"):
        taken = [burst for burst in bursts(records) if burst["benchmark"] == benchmark]
        # every burst of the scripted clock reads the same
        cells = {
            (ping, pong): reduce(
                [
                    reduce(b["ticks"][1:]) * (1e9 / hello["ticks_per_second"]) / 10 / 2
                    for b in taken
                ]
            )
            for ping, pong in ([(0, 1), (1, 0)] if pairs == "ordered" else [(1, 0)])
        }
        grid = Grid(
            (0, 1),
            cells,
            benchmark,
            14,
            10,
            variant=taken[0]["variant"],
            arch=hello["arch"],
        )
        expected += WRITERS[tool](grid)
    assert printed.stdout == expected


def test_a_tools_own_estimator_is_the_default_of_its_format(scripted_agent):
    plan = ("-b", "cas", "-r", "1", "-s", "7", "-i", "10", "-f", "c2clat")
    smallest = run(*plan, binary=scripted_agent).stdout
    assert smallest == run(*plan, "--estimator", "min", binary=scripted_agent).stdout
    assert smallest != run(*plan, "--estimator", "mean", binary=scripted_agent).stdout
