"""An agent that goes on where another was cut: only the missing visits, in the same
order, decided alike.
"""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from fleet.agent.wire import records
from fleet.agent.wire.done import Done
from fleet.model import BENCHMARKS, Burst, Failed
from tests import needs
from tests.native.agent import Record, bursts, decode, notes, run, run_simulated

SHORT = ("--rounds", "2", "--samples", "9", "--seed", "7")
PLAN = (
    "-b",
    "clock",
    "--rounds",
    "4",
    "--samples",
    "9",
    "--iterations",
    "100",
    "--seed",
    "7",
)


def key(record: Record) -> tuple[Any, ...]:
    return tuple(
        record.get(name)
        for name in ("benchmark", "variant", "point", "round", "ping", "pong")
    )


def done_file(path: Path, visits: list[Record], *, ordered: bool = False) -> Path:
    """Write what the controller would hand over after these records."""
    done = Done(ordered)
    for record in visits:
        visit = records.decode_record(json.dumps(record).encode())
        assert isinstance(visit, Burst | Failed)
        done.add(visit, BENCHMARKS[visit.benchmark].shape)
    path.write_text("".join(done.lines()))
    return path


@pytest.mark.parametrize(
    "plan",
    [
        (*PLAN, "-b", "cas,clock", "--pairs", "half"),
        (*PLAN, "-b", "cas,clock", "--pairs", "ordered"),
        (
            "-b",
            "cas,bandwidth",
            "--op",
            "read",
            "--sizes",
            "16K,64K",
            "-i",
            "3",
            *SHORT,
        ),
        ("-b", "fetch", *SHORT),
        ("-b", "message", "--lines-per-message", "1,2", *SHORT),
    ],
    ids=" ".join,
)
def test_resumed_at_any_visit_the_rest_comes_in_the_same_order(
    tmp_path: Path, plan: tuple[str, ...]
) -> None:
    needs.cpus(2)
    all_bursts = bursts(run_simulated(*plan))
    for cut in random.Random(3).sample(range(1, len(all_bursts)), 3):
        file = done_file(tmp_path / "done", all_bursts[:cut], ordered="ordered" in plan)
        hello, *rest = run_simulated(*plan, "--done", str(file))
        assert [key(record) for record in bursts(rest)] == [
            key(record) for record in all_bursts[cut:]
        ]
        assert (hello["done"], hello["bursts"], hello["bursts_max"]) == (
            cut,
            *[len(all_bursts) - cut] * 2,
        )
        assert rest[-1]["bursts"] == len(all_bursts) - cut


def test_nothing_is_left_to_do_when_all_is_done(tmp_path: Path) -> None:
    file = done_file(tmp_path / "done", bursts(run_simulated(*PLAN)))
    _, *rest = run_simulated(*PLAN, "--done", str(file))
    assert not bursts(rest)
    assert rest[-1]["bursts"] == 0
    assert rest[-1]["reason"] == "done"


def test_a_pair_keeps_its_number_of_round_trips(tmp_path: Path) -> None:
    plan = ("-b", "clock", "--rounds", "2", "--samples", "9", "--seed", "7")
    first = [
        dict(record, iterations=12_345)
        for record in bursts(run_simulated(*plan))
        if record["round"] == 0
    ]
    rest = bursts(
        run_simulated(*plan, "--done", str(done_file(tmp_path / "done", first)))
    )
    assert {record["iterations"] for record in rest} == {12_345}


def test_a_run_goes_on_by_the_medians_that_were_handed_over(tmp_path: Path) -> None:
    """CPU a is known well by what is done, CPU b is not: one of two is too few."""
    needs.cpus(2)
    hello, *_ = run_simulated(*PLAN)
    (variant,) = {entry["variant"] for entry in hello["plan"]["benchmarks"]}
    a, b = hello["cpus"][:2]
    file = tmp_path / "done"
    file.write_text(
        f"clock {variant} {a} {a} 100 5000 5000 5000 5000\n"
        f"clock {variant} {b} {b} 100 5000 5400 - 5200\nend\n"
    )
    plan = ("-c", f"{a},{b}", "--precision", "1%", "--time-budget", "1")
    hello, *rest = run_simulated(*PLAN, *plan, "--done", str(file))
    assert hello["bursts"] == 0
    assert {record["ping"] for record in bursts(rest)} == {a, b}
    assert bursts(rest)[0]["round"] == 4
    file.write_text(file.read_text().replace("5400", "5001").replace("5200", "5002"))
    _, *rest = run_simulated(*PLAN, *plan, "--done", str(file))
    assert not bursts(rest)
    assert rest[-1]["converged"] == 2


def clock_rows(tmp_path: Path, medians: list[int]) -> tuple[str, ...]:
    """Options of a run of `clock` on one CPU that has these medians, in ticks, of its
    ten minimum rounds.
    """
    hello, *_ = run_simulated(*PLAN, "--rounds", "1")
    (variant,), cpu = (
        {entry["variant"] for entry in hello["plan"]["benchmarks"]},
        hello["cpus"][0],
    )
    file = tmp_path / "done"
    listed = " ".join(str(2 * median) for median in medians)
    file.write_text(f"clock {variant} {cpu} {cpu} 100 {listed}\nend\n")
    return (
        *PLAN,
        "-c",
        str(cpu),
        "--rounds",
        str(len(medians)),
        "--done",
        str(file),
        "--precision",
        "1%",
    )


def test_a_pair_of_several_levels_ends_when_its_main_level_is_known(
    tmp_path: Path,
) -> None:
    medians = [5000, 5005, 9000, 5010, 9010, 5003, 9005, 5007, 5001, 9003]
    _, *rest = run_simulated(*clock_rows(tmp_path, medians), "--time-budget", "60")
    assert not bursts(rest)
    assert rest[-1]["converged"] == 1
    assert rest[-1]["unconverged"] == 0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "has no end"),
        ("clock VARIANT CPU CPU 100 1\n", "has no end"),
        ("clock nonsense 0 0 100 1\nend\n", "line 1 of"),
        ("clock VARIANT CPU CPU 100\nend\n", "line 1 of"),
        ("clock VARIANT CPU CPU 0 17\nend\n", "line 1 of"),
        ("clock VARIANT CPU CPU 100 1 1 1 1 1\nend\n", "line 1 of"),
        (
            "clock VARIANT CPU CPU 100 1\nclock VARIANT CPU CPU 100 1\nend\n",
            "line 2 of",
        ),
        ("clock VARIANT 99999 99999 100 1\nend\n", "line 1 of"),
        ("clock VARIANT CPU CPU 100 -1\nend\n", "line 1 of"),
        ("clock VARIANT CPU CPU 100 -all\nend\n", "line 1 of"),
        ("clock VARIANT CPU CPU 100 ~\nend\n", "line 1 of"),
        ("clock VARIANT CPU CPU 100 ~0\nend\n", "line 1 of"),
        ("clock VARIANT CPU CPU 100 ~65536\nend\n", "line 1 of"),
    ],
)
def test_what_is_not_of_this_plan_is_refused(
    tmp_path: Path, text: str, words: str
) -> None:
    hello, *_ = decode(run(*PLAN, "--rounds", "1", "--format", "jsonl").stdout)
    variant = hello["plan"]["benchmarks"][0]["variant"]
    cpu = str(hello["cpus"][0])
    file = tmp_path / "done"
    file.write_text(text.replace("VARIANT", variant).replace("CPU", cpu))
    refused = run(*PLAN, "--done", str(file))
    assert refused.returncode == 2
    assert words in refused.stderr


@pytest.mark.parametrize(
    ("given_up", "lost", "left"),
    [
        (
            "memory",
            "random.64K.base",
            {"random.16K.base", "rising.16K.base", "window.16K.base", None},
        ),
        ("variant", "random.64K.base", {None}),
        (
            "point",
            "random.16K.base",
            {"rising.16K.base", "window.16K.base", "64K", None},
        ),
        (
            "",
            "random.16K.base",
            {"random.16K.base", "rising.16K.base", "window.16K.base", "64K", None},
        ),
    ],
)
def test_what_killed_an_agent_is_given_up_with_what_is_like_it(
    tmp_path: Path, given_up: str, lost: str, left: set[str | None]
) -> None:
    if "64K" in left:
        left = left - {"64K"} | {
            f"{order}.64K.base" for order in ("random", "rising", "window")
        }
    chase = (
        "-b",
        "chase,clock",
        "--sizes",
        "16K,64K",
        "--pages",
        "base",
        "-c",
        "0",
        "-v",
        "chase=c11",
    )
    plan = (*chase, *PLAN[2:])
    file = tmp_path / "done"
    file.write_text(f"chase c11 {lost} 0 0 0 -{given_up}\nend\n")
    hello, *rest = run_simulated(*plan, "--done", str(file))
    assert {record.get("point") for record in bursts(rest)} == left
    here = given_up == "" and 1  # it goes on from the second round
    assert hello["bursts"] == len(bursts(rest)) == 4 * len(left) - here
    assert rest[-1]["reason"] == "done"
    assert any(
        "Given up after an agent was killed" in note for note in notes(rest)
    ) == (given_up != "")


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    refused = run(*PLAN, "--done", str(tmp_path / "none"))
    assert refused.returncode == 2
    assert "No such file" in refused.stderr
