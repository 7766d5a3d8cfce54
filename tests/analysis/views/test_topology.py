"""Groups of CPUs, in lines a person can read at a glance on machines of any size."""

import re
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from fleet.analysis.reduce import GROUPS, lay_out_cpus, load_samples, make_layout
from fleet.analysis.views import describe_topology, list_cpu_groups, show_run
from fleet.errors import UsageError
from fleet.model import Cpu, PairChoice, Pairs
from fleet.plan.merge import merge_plan_with_facts
from fleet.plan.options import parse_requested
from fleet.store import Store
from fleet.store.rows import require_hello
from tests import builders


def lines(cpus: tuple[Cpu, ...]) -> list[str]:
    frame = pd.DataFrame(
        [
            {"cpu": cpu.cpu, **{name: getattr(cpu, name) for name in GROUPS}}
            for cpu in cpus
        ]
    )
    return describe_topology(make_layout(frame, [cpu.cpu for cpu in cpus]))


def test_a_desktop_names_its_siblings() -> None:
    assert lines(builders.small_desktop()) == ["SMT siblings: 0-4 1-5 2-6 3-7"]


def test_a_server_says_by_what_rule_siblings_are_numbered() -> None:
    assert lines(builders.two_sockets()) == [
        "package: 0-31,64-95 | 32-63,96-127",
        "llc: 8 groups of 16 CPUs; the first 0-7,64-71",
        "SMT siblings: n and n+64, for n of 0-63",
    ]


def test_a_hybrid_machine_says_how_many_cpus_have_no_sibling() -> None:
    description = lines(builders.hybrid_laptop())
    assert (
        description[-1]
        == "SMT siblings: 0-1 2-3 4-5 6-7 8-9 10-11 12-13 14-15; 16 CPUs have none"
    )


@pytest.mark.parametrize(
    ("cores", "expected"),
    [
        ([n & ~1 for n in range(40)], "n and n+1, for every second n from 0 to 38"),
        (
            [n // 4 * 4 for n in range(64)],
            "n and n+1 and n+2 and n+3, for every fourth n from 0 to 60",
        ),
        (
            [n % 12 if n < 24 else n for n in range(30)],
            "n and n+12, for n of 0-11; 6 CPUs have none",
        ),
        (list(range(6)), "none among these CPUs"),
        ([None, None], "not reported by the host"),
        ([*(n & ~1 for n in range(20)), *(20 + n % 2 for n in range(4))], None),
    ],
)
def test_siblings_of_any_numbering(
    cores: list[int | None], expected: str | None
) -> None:
    *_, last_line = lines(
        tuple(Cpu(n, core=core, package=0) for n, core in enumerate(cores))
    )
    assert last_line == "SMT siblings: " + (
        expected or "0-1 2-3 4-5 6-7 8-9 10-11 12-13 14-15 and 4 more cores"
    )


def test_sockets_and_caches_are_numbered_from_0_also_of_a_part_of_the_machine() -> None:
    machine = lay_out_cpus(builders.two_sockets(), range(128))
    names = [[name for name, _ in level] for level in machine.label_groups()]
    assert names == [
        ["socket 0", "socket 1"],
        [f"cache {number}" for number in range(8)],
    ]
    second = lay_out_cpus(builders.two_sockets(), range(48, 64))
    assert [[name for name, _ in level] for level in second.label_groups()] == [
        ["cache 6", "cache 7"]
    ]


def test_one_cpu_has_no_topology() -> None:
    assert lines((Cpu(0),)) == []


def test_groups_are_lists_as_taskset_takes_them(tmp_path: Path) -> None:
    cpus = builders.small_desktop()
    run = builders.a_run((*cpus[:-1], replace(cpus[-1], online=False)))
    Store(tmp_path).publish(run, builders.make_bursts(run))
    lists = {
        key: list_cpu_groups(tmp_path, run.run_id, key)
        for key in ("package", "core", "smt", "cores")
    }
    assert lists == {
        "package": ["0-6"],
        "core": ["0,4", "1,5", "2,6", "3"],
        "smt": ["0,4", "1,5", "2,6"],
        "cores": ["0-3"],
    }
    unknown = builders.a_run(run_id="r20260102T030406Z-0badcafe")
    Store(tmp_path).publish(unknown, builders.make_bursts(unknown))
    with pytest.raises(UsageError, match="does not report these groups"):
        list_cpu_groups(tmp_path, unknown.run_id, "llc")


def test_a_run_names_its_options_and_that_it_is_of_one_cpu_a_core(
    tmp_path: Path,
) -> None:
    run = builders.a_run(builders.small_desktop())
    cpus = merge_plan_with_facts(
        run.host, parse_requested({"cpus": "cores"}), run.facts
    ).cpus
    assert cpus == (0, 1, 2, 3), "one thread of each core"
    bursts = [
        burst
        for burst in builders.make_bursts(run)
        if {burst.ping_cpu, burst.pong_cpu} <= {*cpus}
    ]
    pairs = PairChoice(Pairs.PER_RELATION, ((0, 1), (2, 3)), 2)
    run = replace(run, plan=replace(run.plan, rounds=3, cpus=cpus, pairs=pairs))
    run = replace(run, hello=replace(require_hello(run), cpus=cpus))
    Store(tmp_path).publish(run, bursts)
    samples = load_samples(tmp_path)
    assert {*samples["ping_cpu"], *samples["pong_cpu"]} == {*cpus}
    assert {*samples["relation"]} == {"package"}, "no siblings"
    text = show_run(tmp_path, run.run_id)
    assert re.search(r"^  \| +0 +1 +2 +3$", text, re.MULTILINE), "only they are drawn"
    assert "\noptions: --rounds 3, --pairs per-relation:2, --cpus 0-3\n" in text
    assert "\nmeasured: one CPU of each core (-c cores)\n" in text
