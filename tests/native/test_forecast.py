"""`--forecast`: what a plan costs, known before it is carried out, here or on a machine
from a file.
"""

import json
from dataclasses import replace

import pytest

from fleet.agent.forecast import render_facts
from fleet.facts.gather import gather
from fleet.model import Host, Via
from fleet.remote.connect import connect
from tests import needs
from tests.native.agent import decode, measure, run
from tests.native.preload import preload
from tests.native.test_many_cpus import pretend_cpus

SIZES = ("--sizes", "64K,1M,5M")
MEMORY = ("-b", "message,fetch,interleave,chase,bandwidth,gemm", *SIZES)
OTHERS = ("-b", "cas,readwrite,clock,fetch,interleave,chase,bandwidth,gemm")
SHORT = ("--samples", "1", "--warmup", "0")


def forecast(*args, env=None):
    done = run("--forecast", *args, env=env)
    assert done.returncode == 0
    assert done.stderr == ""
    return json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.parametrize(
    "args",
    [
        MEMORY,
        (*MEMORY, "--pages", "base"),
        ("-b", "bandwidth,chase", *SIZES, "--share", "one,own", "--op", "read"),
    ],
)
def test_bytes_are_those_that_are_mapped(args, tmp_path):
    needs.cpus(2)
    mapped_file = tmp_path / "mapped"
    env = preload("mapped.c") | {"MAPPED_FILE": str(mapped_file)}
    # those of a round stay mapped, so that the next has others
    args = (
        *args,
        *SHORT,
        "--rounds",
        "2",
    )
    measure(*args, env=env)
    assert forecast(*args)["bytes"] == int(mapped_file.read_text())


@pytest.mark.parametrize("cpus", [2, 8, 64])
def test_points_visits_and_bursts_are_those_of_the_run(cpus):
    args = (*OTHERS, "--sizes", "64K", "--threads", "1,2", "--few-pairs", "0-1", *SHORT)
    machine = pretend_cpus(range(cpus))
    planned = forecast(*args, "--rounds", "3", env=machine)
    announced = decode(
        run(
            *args, "--rounds", "3", "--deadline", "0.1", "-f", "jsonl", env=machine
        ).stdout
    )[0]
    choices = announced["plan"]["benchmarks"]
    assert [
        (c["benchmark"], c["variant"], c["points"]) for c in planned["benchmarks"]
    ] == [(c["benchmark"], c["variant"], len(c.get("points", ()))) for c in choices]
    assert planned["points"] == sum(len(c.get("points", ())) for c in choices)
    assert planned["cpus"] == cpus
    assert planned["pairs"] == cpus * (cpus - 1) // 2
    assert planned["bursts"] == 3 * planned["visits"] == announced["bursts"]
    assert sum(c["visits"] for c in planned["benchmarks"]) == planned["visits"]


MACHINE = """arch x86_64
features flush
page_bytes 4096
huge_page_bytes 2097152
memory_bytes {memory}
node 0 {memory} 1
"""
CPU = """cpu {n} {n} - - 0 0 -
cache 1 Data 32768 64 {n}
cache 1 Instruction 131072 64 {n}
cache 2 Unified 1048576 64 {n}
cache 3 Unified 16777216 64 0
"""


@pytest.fixture
def machine(tmp_path):
    """Writes the facts of a machine of so many CPUs and returns the options that plan
    for it.
    """

    def write(cpus, memory=8 << 30, end="end\n"):
        path = tmp_path / "facts"
        path.write_text(
            MACHINE.format(memory=memory)
            + "".join(CPU.format(n=n) for n in range(cpus))
            + end
        )
        return ("--facts", str(path))

    return write


@pytest.mark.parametrize(
    ("args", "seconds"),
    [
        ((), (1, 10)),  # spread; until the precision, which takes 10 s at most
        (("--precision", "off"), (1, 1)),
        (("--spread", "15"), (15, 16.7)),  # or what ten rounds take so
        (("--time-budget", "1.2"), (0.6, 1.2)),  # the minimum is spread over half of it
        (("--time-budget", "100"), (1, 100)),
        (("--rounds", "10"), (0.1, 0.1)),
        (("--rounds", "10", "--precision", "0.01"), (0.1, 10)),
        (("--rounds", "1", "-s", "999", "-p", "0-1"), (0.1, 0.1)),
        (("--rounds", "1", "-i", "500000", "-p", "0-1", "-s", "9", "-w", "1"), (1, 1)),
    ],
)
def test_seconds_follow_rounds_and_budget(machine, args, seconds):
    expected = forecast("-b", "cas", *args, *machine(4))
    assert (expected["ms"] / 1000, expected["ms_max"] / 1000) == pytest.approx(
        seconds, rel=0.2, abs=0.06
    )
    assert expected["deadline_s"] == int(600 + 5 * expected["ms_max"] / 1000)


@pytest.mark.parametrize(
    ("cpus", "args", "rounds", "times"),
    [
        (4, (), 10, None),
        (48, (), 5, None),  # a round takes 2 s
        (64, (), 3, 1),  # a round takes 3.5 s
        (64, ("--precision", "2%"), 3, 1),
        (64, ("--precision", "off"), 10, 1),
        (64, ("--rounds", "10", "--precision", "0.01"), 10, 2),
        (64, ("--time-budget", "60"), 10, None),
    ],
)
def test_a_run_that_is_not_precise_takes_ten_seconds_or_its_least_rounds(
    machine, cpus, args, rounds, times
):
    expected = forecast("-b", "cas,readwrite", *args, *machine(cpus))
    assert expected["rounds"] == rounds
    assert times is None or expected["ms_max"] == pytest.approx(
        times * expected["ms"], rel=0.02
    )


@pytest.mark.parametrize(
    ("cpus", "most_s"),
    [(64, 15), (256, 180), pytest.param(1024, 3000, marks=pytest.mark.long)],
)
def test_a_large_machine_is_measured_in_three_rounds(machine, cpus, most_s):
    expected = forecast("-b", "cas,readwrite", *machine(cpus))
    assert expected["rounds"] == 3
    assert expected["left_out"] is None
    assert expected["ms_max"] == max(expected["ms"], 10_000) < 1000 * most_s
    assert expected["ms"] < 3 * expected["ms_first"]


@pytest.mark.parametrize("mib", [160, 96, 24])
def test_the_usual_sizes_are_those_that_half_of_the_memory_holds(machine, mib):
    plan = ("-b", "chase,bandwidth,cas")
    here = machine(2, mib << 20)
    expected = forecast(*plan, *here)
    assert expected["bytes"] <= mib << 19
    assert expected["points"] < forecast(*plan, *machine(2))["points"]
    assert f"half of the {mib} MiB available" in " ".join(expected["notes"])
    done = run("--forecast", *plan, "--sizes", "64M", *machine(2, mib << 20))
    assert done.returncode == 2
    assert "may be taken: --sizes" in done.stderr


def test_a_benchmark_with_no_point_that_fits_is_left_out_unless_it_is_the_only_one(
    machine,
):
    expected = forecast("-b", "cas,loaded", *machine(2, 48 << 20))
    assert {row["benchmark"] for row in expected["benchmarks"]} == {"cas"}
    assert any(
        note.endswith("the largest sizes, all of some benchmarks.")
        for note in expected["notes"]
    )
    done = run("--forecast", "-b", "loaded", *machine(2, 48 << 20))
    assert done.returncode == 2
    assert "may be taken" in done.stderr


@pytest.mark.parametrize(
    ("benchmark", "budget", "points", "left_out"),
    [
        ("cas", "4", 0, "2 of 10 rounds"),
        ("cas", "100", 0, None),
        # Of 14 sizes in three orders 6 are the ends of levels, and one is outside all
        # caches.
        ("chase", "100", 42, None),
        ("chase", "2", 21, "plateaus only"),
        ("chase", "0.5", 18, "plateaus of the caches only"),
    ],
)
def test_what_the_time_budget_leaves_out_is_said(
    machine, benchmark, budget, points, left_out
):
    expected = forecast(
        "-b",
        benchmark,
        "--time-budget",
        budget,
        *machine(64 if benchmark == "cas" else 2),
    )
    assert expected["points"] == points
    note = expected["left_out"]
    assert note == left_out or (note and left_out and note.endswith(left_out))
    assert expected["bursts"] == expected["rounds"] * expected["visits"]


@pytest.mark.parametrize(
    ("cpus", "args", "code", "words"),
    [
        (
            64,
            ("-b", "cas", "--time-budget", "1"),
            2,
            "one round of 2016 bursts takes about ",
        ),
        (
            2,
            ("-b", "bandwidth", "--sizes", "5G"),
            2,
            "the points take 10240 MiB in all",
        ),
        (2, ("-b", "cas", "-c", "0,5"), 4, "CPU 5 cannot be used"),
        (2, ("-b", "cas", "--node", "3"), 4, "NUMA node 3"),
        (1, ("-b", "cas"), 3, "cas needs two CPUs"),
        (
            1,
            ("-b", "cas,loaded"),
            3,
            "cas, loaded need two CPUs, and the affinity mask or --cpus has only CPU 0",
        ),
    ],
)
def test_a_plan_that_cannot_be_is_refused(machine, cpus, args, code, words):
    done = run("--forecast", *args, *machine(cpus))
    assert done.returncode == code
    assert done.stdout == ""
    assert done.stderr.startswith("fleet-agent: ")
    assert words in done.stderr


def test_a_quota_of_cpu_time_is_counted_by_the_threads_that_are_busy(tmp_path):
    def write_limited_facts(share):
        facts = tmp_path / f"facts{share}"
        limit = f"cpu_limit {share} control group /job, {share} CPUs\n" if share else ""
        cpus = "".join(
            f"cpu {cpu} {cpu} - - 0 0 -\ncache 1 Data 32768 64 {cpu}\n"
            for cpu in range(4)
        )
        facts.write_text(f"arch x86_64\n{limit}{cpus}end\n")
        return "--facts", str(facts)

    for args, busy in (
        (("cas",), 2),
        (("clock",), 1),
        (("contend", "--threads", "4"), 4),
    ):
        plan = ("-b", *args, "--rounds", "50")
        free, tight, wide = (
            forecast(*plan, *write_limited_facts(share)) for share in (None, 0.1, 4)
        )
        assert wide == free
        assert tight["ms"] / free["ms"] == pytest.approx(10 * busy, rel=0.25)
        words = (
            "CPU time is limited (control group /job, 0.1 CPUs): bursts take up to"
            f" {10 * busy} times"
        )
        assert words in tight["notes"][-1]
    done = run(
        "--forecast", "-b", "gemm", "--time-budget", "1", *write_limited_facts(0.01)
    )
    assert done.returncode == 2
    assert (
        "with the CPU time of control group /job, 0.01 CPUs, and the time budget"
        " allows 1 s" in done.stderr
    )


def test_what_needs_two_cpus_is_left_out_where_there_is_one(machine):
    expected = forecast("-b", "all", *machine(1))
    assert [row["benchmark"] for row in expected["benchmarks"]] == [
        "clock",
        "chase",
        "walk",
        "bandwidth",
        "memcpy",
        "gemm",
    ]
    left_out = (
        "cas, readwrite, message, fetch, contend, sharing, loaded, interleave need two"
        " CPUs"
    )
    assert (
        f"Left out: {left_out}, and the affinity mask or --cpus has only CPU 0."
        in expected["notes"]
    )


def test_the_first_round_takes_its_trials_and_a_burst_a_visit(machine):
    """So 256 CPUs have their first whole matrices within two minutes."""
    short, long = (
        forecast("-b", "cas,readwrite", "--rounds", count, *machine(256))
        for count in ("1", "10")
    )
    assert long["ms_first"] == short["ms_first"] == short["ms"] < 120_000
    untried = forecast(
        "-b", "cas,readwrite", "--rounds", "10", "-i", "100", *machine(256)
    )
    assert untried["ms"] == pytest.approx(10 * untried["ms_first"], rel=1e-4), (
        "without trials"
    )


def test_a_plan_is_as_large_as_its_machine(machine):
    names = "cas,readwrite,clock,message,fetch,contend,chase,bandwidth,interleave,gemm"
    two, many = (
        forecast("-b", names, "--few-pairs", "0-1", *machine(cpus, 1 << 40))
        for cpus in (2, 256)
    )
    assert (two["pairs"], many["pairs"]) == (1, 32640)
    assert many["bytes"] / two["bytes"] == pytest.approx(128, rel=0.01)
    assert many["ms"] > 30 * two["ms"]
    two, many = (forecast("-b", "loaded", *machine(cpus, 1 << 40)) for cpus in (2, 256))
    assert many["bytes"] - two["bytes"] == pytest.approx(
        2 * 254 * (64 << 20), rel=0.01
    ), "two rounds"


def test_another_architecture_is_planned_with_what_there_is(tmp_path):
    facts = tmp_path / "facts"
    facts.write_text("arch z80\ncpu 0 - - - - - -\ncpu 1 - - - - - -\nend\n")
    expected = forecast(
        "-b", "cas", "-v", "swapped", "--rounds", "1", "--facts", str(facts)
    )
    assert expected["arch"] == "z80"
    assert expected["bursts"] == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("cpu 0 - - - - - -\n", "has no end"),
        ("end\n", "has no CPU"),
        ("cpu 1 - - - - - -\ncpu 0 - - - - - -\nend\n", "line 2"),
        ("cpu 0 - -\nend\n", "line 1"),
        ("cache 1 Data 4 4 0\nend\n", "line 1"),
        ("cpu 0 - - - - - -\ncache 1 Odd 4 4 0\nend\n", "line 2"),
        ("page_bytes 0\nend\n", "line 1"),
        ("cpu_limit much of it\nend\n", "line 1"),
        ("nonsense 1\nend\n", "line 1"),
    ],
)
def test_facts_that_make_no_sense_are_refused(tmp_path, text, words):
    facts = tmp_path / "facts"
    facts.write_text(text)
    done = run("--forecast", "--facts", str(facts))
    assert done.returncode == 2
    assert words in done.stderr
    assert run("--facts", str(facts)).returncode == 2


def test_the_controllers_facts_of_this_machine_plan_as_the_machine_itself(tmp_path):
    needs.cpus(2)
    here = Host("here", "localhost", via=Via.LOCAL)
    facts = tmp_path / "facts"
    with connect(here) as connection:
        facts.write_text(
            render_facts(
                gather(connection, replace(here, workdir=str(tmp_path / "work")))
            )
        )
    for args in (
        ("-b", "all"),
        ("-b", "all", "-v", "all", "--pages", "base", "--time-budget", "60"),
    ):
        own = forecast(*args)
        from_facts = forecast(*args, "--facts", str(facts))
        assert {key: from_facts[key] for key in from_facts if key != "notes"} == {
            key: own[key] for key in own if key != "notes"
        }
