"""Options that exclude one another are found before a connection, with where each of
them comes from.
"""

import re

import pytest

from fleet.errors import UsageError
from fleet.inventory.select import load
from fleet.model import Host, Preset, RequestedOptions
from fleet.plan.conflicts import find_conflicts, require_no_conflicts
from fleet.plan.merge import merge_plan
from fleet.plan.options import parse_requested

BUDGET = (
    "a time budget limits the rounds that a precision adds, and without a precision"
    " there are none"
)


def host(**options: object) -> Host:
    return Host(
        "board", "board", plan=RequestedOptions(**options), origin="inventory.yaml:7"
    )  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("entry", "typed", "words"),
    [
        (
            {},
            {"rounds": "2", "time_budget_s": "5"},
            f"^--time-budget 5s and --rounds 2 exclude.*: {BUDGET}",
        ),
        (
            {},
            {"precision": "off", "time_budget_s": "5"},
            "^--time-budget 5s and --precision off exclude",
        ),
        (
            {},
            {"benchmarks": "loaded", "operations": "copy"},
            "--benchmark loaded .*; it has idle, read, mix",
        ),
        (
            {},
            {"preset": "c2clat", "time_budget_s": "1m"},
            "^--time-budget 1m and --preset c2clat exclude",
        ),
        (
            {},
            {"samples": "40000"},
            "^--samples 40000 and the default --plan warmup=1 exclude.* a burst has at",
        ),
        (
            {},
            {"preset": "c2clat", "warmup": "39001"},
            "^--preset c2clat and --plan warmup=39001 exclude",
        ),
        (
            {},
            {"benchmarks": "chase", "node": "0", "nodes": "all"},
            "^--plan node=0 and --nodes all exclude",
        ),
        (
            {},
            {"benchmarks": "clock", "nodes": "0,2"},
            "^--nodes 0,2 and --benchmark clock exclude",
        ),
        (
            {},
            {"cpus": "3"},
            (
                "^--cpus 3 and the default --benchmark cas,readwrite exclude.*: a pair"
                " needs"
            ),
        ),
        (
            {},
            {"cpus": "0-2", "pairs": "0-1,0-7"},
            "^--pairs 0-1,0-7 and --cpus 0-2 exclude.*: CPU 7 is in",
        ),
        (
            {"rounds": 2},
            {"time_budget_s": "5m"},
            (
                "^inventory.yaml:7: board: --time-budget 5m and `rounds: 2` of the"
                " inventory exclude one another"
            ),
        ),
        (
            {"time_budget_s": 5.0},
            {"precision": "off"},
            (
                "^inventory.yaml:7: board: `time_budget_s: 5s` of the inventory and"
                " --precision off exclude"
            ),
        ),
    ],
)
def test_a_conflict_names_both_options_and_where_they_come_from(
    entry: dict[str, object], typed: dict[str, str], words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        require_no_conflicts([host(), host(**entry)], parse_requested(typed))
    with pytest.raises(UsageError, match=words):
        merge_plan(host(**entry), parse_requested(typed))


@pytest.mark.parametrize(
    "options",
    [
        RequestedOptions(),
        RequestedOptions(time_budget_s=5.0),
        RequestedOptions(rounds=2, precision=0.01, time_budget_s=5.0),
        RequestedOptions(preset=Preset.C2CLAT, precision=0.01, time_budget_s=5.0),
        RequestedOptions(samples=40_000, warmup=0),
        RequestedOptions(benchmarks=("clock",), cpus=(0,)),
    ],
)
def test_options_that_go_together_are_left_alone(options: RequestedOptions) -> None:
    assert list(find_conflicts(options)) == []


def test_what_many_hosts_have_in_common_is_said_once_and_many_conflicts_are_cut_short() -> (
    None
):
    with pytest.raises(UsageError) as caught:
        require_no_conflicts([host()] * 9, parse_requested({"cpus": "0"}))
    assert str(caught.value).count("exclude") == 1
    fleet = [
        Host(f"h{n}", "x", cpus=(n,), origin=f"inventory.yaml:{n}") for n in range(30)
    ]
    with pytest.raises(UsageError, match=r"h19: .*\nand 10 more conflicts$"):
        require_no_conflicts(fleet, RequestedOptions())


CONTRADICTORY = """
defaults:
  plan: {time_budget_s: 5m}
groups:
  boards:
    hosts: [a, b]
    plan:
      rounds: 2
hosts:
  a: {via: local}
  b:
    cpus: 0-1
    plan: {pairs: 0-4, precision: 1%}
"""


def test_an_inventory_that_contradicts_itself_is_refused_with_both_lines(
    tmp_path,
) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "inventory.yaml"
    path.write_text(CONTRADICTORY.lstrip())
    with pytest.raises(UsageError) as caught:
        load(path)
    first, second = str(caught.value).splitlines()
    where = f"{path}:2: defaults.plan.time_budget_s: "
    assert first.startswith(
        f"{where}`time_budget_s: 5m` (line 2) and `rounds: 2` (line 7) exclude one"
        " another: "
    )
    assert re.match(
        rf"{path}:12: hosts.b.plan.pairs: `pairs: 0-4` \(line 12\) and `cpus: 0-1`"
        r" \(line 11\) exclude",
        second,
    )


@pytest.mark.parametrize("entry", ["{cpus: 0}", "{plan: {samples: 40000}}"])
def test_what_an_entry_leaves_to_the_command_line_may_yet_fit(
    tmp_path, entry: str
) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "inventory.yaml"
    path.write_text(f"hosts: {{a: {entry}}}\n")
    hosts = load(path).hosts
    with pytest.raises(UsageError, match="the default --"):
        require_no_conflicts(hosts, RequestedOptions())
    require_no_conflicts(hosts, RequestedOptions(benchmarks=("clock",), warmup=0))


def test_an_option_that_no_benchmark_of_the_run_takes_is_said() -> None:
    typed = parse_requested({"reads": "50"})
    with pytest.raises(
        UsageError, match=r"^--reads 50: it is for loaded, and this run"
    ):
        require_no_conflicts([host()], typed)
    require_no_conflicts([host(benchmarks=("loaded",))], typed)
    # an entry may set it for the runs that have such a benchmark
    require_no_conflicts([host(reads=(50,))], parse_requested({}))
