import json
import re
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fleet.analysis import views
from fleet.analysis.base import find_last_runs, format_pair, wrap_to_width
from fleet.analysis.reduce import (
    CROSS_CHECK_MEANINGS,
    FINDING_MEANINGS,
    MEANINGS,
    Layout,
    load_cpus,
    load_samples,
    make_layout,
    matrix,
    pair_medians,
)
from fleet.analysis.report import render
from fleet.analysis.views import (
    Canvas,
    RunWarning,
    draw_matrix,
    fold_warnings,
    render_runs,
    runs_as_json,
    show_as_json,
    show_run,
)
from fleet.model import Burst, Cpu, Failed, Host, Memory, Node, Run, Topology
from fleet.plan.cpulist import format_cpus
from fleet.store import Listing, Store, new_run_id
from tests import builders


def publish(root: Path, cpus: tuple[Cpu, ...], **changes: object) -> Run:
    run = builders.a_run(
        cpus, run_id=new_run_id(), benchmarks=("cas", "clock"), rounds=2
    )
    run = replace(run, **changes)  # type: ignore[arg-type]
    Store(root).publish(run, builders.make_bursts(run, samples=3, noise=0.0))
    return run


def publish_with_facts(root: Path, **facts: object) -> str:
    """Publish a run of two CPUs whose host has these facts; return its ID."""
    run = builders.a_run((Cpu(0), Cpu(1)))
    run = replace(run, facts=replace(run.facts, **facts))  # type: ignore[arg-type]
    Store(root).publish(run, builders.make_bursts(run))
    return run.run_id


def slow_burst(factor: float, visit: int) -> Burst:
    ticks = builders.a_burst().ticks
    return builders.a_burst(round=visit, ticks=tuple(int(factor * t) for t in ticks))


def show_warnings(root: Path, run: Run) -> str:
    """Return what `show` says after the headline of warnings."""
    _, warnings = show_run(root, run.run_id).split("\nWarnings\n")
    return warnings


def matches_line(pattern: str, text: str) -> bool:
    return re.search(pattern, text, re.MULTILINE) is not None


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Run]:
    """Publish one run of 128 CPUs; return its root."""
    root = tmp_path_factory.mktemp("server")
    return root, publish(root, builders.two_sockets())


def make_run_layout(root: Path, run: Run) -> Layout:
    numbers = [cpu.cpu for cpu in run.facts.cpus]
    return make_layout(load_cpus(root, run_id=run.run_id), numbers)


def test_siblings_stand_side_by_side_and_sockets_apart(
    server: tuple[Path, Run],
) -> None:
    order = make_run_layout(*server)
    assert order.cpus[:4] == (0, 64, 1, 65)
    assert order.cpus[64:66] == (32, 96)
    assert order.choose_border_level() == "llc"
    assert order.blocks("package") == (order.cpus[:64], order.cpus[64:])


def test_lines_run_between_cores_where_nothing_larger_parts_the_cpus() -> None:
    two_cores = tuple((0, 0, 0, 0, 0, cpu // 2) for cpu in range(4))
    assert Layout((0, 1, 2, 3), two_cores).choose_border_level() == "core"
    cores_of_one = ((0, 0, 0, 0, 0, 0), (0, 0, 0, 0, 0, 1))
    assert Layout((0, 1), cores_of_one).choose_border_level() is None


def test_a_hybrid_laptop_is_ruled_by_sibling_pairs_and_clusters(tmp_path: Path) -> None:
    order = make_run_layout(tmp_path, publish(tmp_path, builders.hybrid_laptop()))
    level = order.choose_border_level()
    assert level is not None
    sizes = [len(block) for block in order.blocks(level)]
    assert sizes == [2] * 8 + [4] * 4
    slow_cpus = [cpu for cpu, kind in order.kinds.items() if kind == "E"]
    assert slow_cpus == list(range(16, 32))


def test_cpu_lists_read_as_the_kernel_writes_them() -> None:
    assert format_cpus((5, 0, 1, 2)) == "0-2,5"
    assert format_cpus(()) == ""


def test_a_small_matrix_shows_each_number_in_topology_order(tmp_path: Path) -> None:
    run = publish(tmp_path, builders.small_desktop())
    text = show_run(tmp_path, run.run_id)
    assert "smt: siblings of one core; package: one socket\n" in text
    assert matches_line(r"^\s+\|\s+0\s+4 \|\s+1\s+5 \|\s+2\s+6 \|\s+3\s+7$", text)
    assert matches_line(r"^4 \|  6\.0    - \| 45\.0 45\.0 \|", text)
    assert matches_line(r"^smt +4 +6\.0 +6\.0 +6\.0 ", text)
    assert matches_line(r"^package +24 +45\.0 ", text)
    assert "cost of one clock reading in ns" in text


def test_what_is_piped_has_no_colour_codes(tmp_path: Path) -> None:
    for cpus in (builders.small_desktop(), builders.hybrid_laptop()):
        run = publish(tmp_path, cpus)
        assert "\x1b" not in show_run(tmp_path, run.run_id)


def test_no_matrix_is_wider_than_the_terminal(
    tmp_path: Path, server: tuple[Path, Run]
) -> None:
    desktop = publish(tmp_path / "desktop", builders.small_desktop())
    laptop = publish(tmp_path / "laptop", builders.hybrid_laptop())
    runs = ((tmp_path / "desktop", desktop), (tmp_path / "laptop", laptop), server)
    for root, run in runs:
        order = make_run_layout(root, run)
        table = matrix(pair_medians(load_samples(root, benchmark="cas")), order.cpus)
        for width, colour in product((80, 200), (False, True)):
            drawn = draw_matrix(table, order, Canvas(width, colour))
            assert max(len(line) for line in drawn.plain.splitlines()) <= width


def test_where_numbers_do_not_fit_cells_are_coloured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    run = publish(tmp_path, builders.hybrid_laptop())
    narrow = show_run(tmp_path, run.run_id, canvas=Canvas(80, colour=True))
    assert "▀" in narrow
    wide = show_run(tmp_path, run.run_id, canvas=Canvas(200, colour=True))
    assert "by colour" not in wide


def test_64_cpus_fit_80_columns_as_half_blocks_with_flagged_pairs_marked() -> None:
    cpus = tuple(range(64))
    order = Layout(cpus, tuple((0, 0, 0, cpu // 16 * 16, 0, cpu) for cpu in cpus))
    distances = np.abs(np.subtract.outer(cpus, cpus))
    table = pd.DataFrame(10.0 + distances, cpus, cpus)
    marked = frozenset({(3, 40)})
    drawn = draw_matrix(table, order, Canvas(80, colour=True), marked=marked)
    lines = drawn.plain.splitlines()
    body = lines[-32:]
    assert max(map(len, lines)) <= 80
    assert all(line.count("▀") + line.count("x") == 64 for line in body)
    assert sum(line.count("x") for line in body) == 2, "the pair from both of its ends"
    assert [line.split()[0] for line in body[:3]] == ["0", "2", "4"]


def test_the_map_of_groups_has_intervals(made_lab: Path) -> None:
    root = made_lab / "results"
    run = next(run for run in Store(root).list_runs() if run.host_name == "rome")
    text = show_run(root, run.run_id, canvas=Canvas(80))
    assert re.search(r"\n  0-7,32-39 A \| +2\d\.\d ±\d\.\d% +4\d\.\d ±0\.\d% ", text)
    assert "\n±95%: within the run; half of these numbers within ±0." in text


def test_a_map_without_colour_is_drawn_in_signs(tmp_path: Path) -> None:
    run = publish(tmp_path, builders.small_desktop())
    order = make_run_layout(tmp_path, run)
    table = matrix(pair_medians(load_samples(tmp_path, benchmark="cas")), order.cpus)
    drawn = draw_matrix(table, order, Canvas(80), as_map=True).plain
    assert matches_line(r"^0  · ██ ██ ██$", drawn)
    assert "· 6 to █ 45" in drawn


def test_extremes_are_named_within_their_relation(tmp_path: Path) -> None:
    run = builders.a_run(builders.small_desktop(), benchmarks=("cas",))
    topology = Topology(run.facts.cpus)
    odd = {(0, 1): 60.0, (2, 3): 30.0}

    def ns(a: int, b: int) -> float:
        return odd.get((a, b), builders.NS[topology.relation(a, b)])

    Store(tmp_path).publish(run, builders.make_bursts(run, ns=ns))
    text = show_run(tmp_path, run.run_id)
    assert matches_line(r"^package   2-3 (29|30)\.\d .* 0-1 (58|59|60)\.\d ", text)
    assert not matches_line(r"^smt  +0-4", text), (
        "four pairs of siblings have no extremes"
    )


def test_a_big_machine_is_shown_by_groups_and_says_so(server: tuple[Path, Run]) -> None:
    root, run = server
    text = show_run(root, run.run_id, canvas=Canvas(80))
    assert "128 CPUs as 8 groups (CPUs that share a last-level cache)" in text
    row = r"^ +0-7,64-71 A \| +24\.0 +45\.0 +45\.0 +45\.0 +130\.0"
    assert matches_line(row, text)


def test_a_big_machine_without_groups_is_shown_by_neighbours(tmp_path: Path) -> None:
    run = publish(tmp_path, tuple(Cpu(number) for number in range(70)))
    text = show_run(tmp_path, run.run_id, canvas=Canvas(80))
    assert "the host reports no groups" in text


def test_warnings_end_the_text(tmp_path: Path) -> None:
    run = builders.a_run(rounds=2)
    failed = (Failed("cas", "cmpxchg", 1, 0, 1, "no progress for 5 s"),)
    run = replace(run, failed=failed, notes=("coarse clock",))
    interrupted = builders.a_burst(flags=("preempted",))
    Store(tmp_path).publish(run, [interrupted, slow_burst(1.1, visit=1)])
    text = show_warnings(tmp_path, run)
    assert (
        "preempted: bursts were interrupted by other threads on their CPUs (50%)"
        in text
    )
    assert (
        "partial: bursts failed and have no samples (1): no progress for 5 s (1)"
        in text
    )
    assert "coarse clock" in text
    assert "wider than ±5.0% (1 of 1): cas 0-1" in text
    assert "\nNotes\n  coarse clock" in text, "a note asks for nothing"


def test_every_kind_of_warning_has_a_deed_and_a_place_in_the_order() -> None:
    flags_and_findings = {*MEANINGS, *FINDING_MEANINGS, *CROSS_CHECK_MEANINGS}
    others = {
        "empty",
        "partial",
        "wide",
        "steal",
        "hypervisor",
        "busy",
        "minor",
        "channel",
    }
    assert flags_and_findings | others == {*views.ADVICE}
    for advice in views.ADVICE.values():
        assert advice.endswith((".", "(--cpus)"))
        assert len(advice) < 100


def test_one_fact_is_warned_of_once(tmp_path: Path) -> None:
    busy = "The host is busy: 9 runnable threads."
    precise = "0 of 1 numbers are known to 1 %."
    notes = (busy, precise, "A hypervisor (KVM) is.")
    run = builders.a_run(rounds=2)
    run = replace(run, hello=replace(run.hello, precision=0.01), notes=notes)
    stolen = builders.a_burst(
        flags=("busy_cpu",), ran_ppm=(700_000, 1_000_000), steal_ppm=(300_000, 0)
    )
    Store(tmp_path).publish(run, [stolen, slow_burst(1.2, visit=1)])
    warnings = show_warnings(tmp_path, run)
    lines = [line.strip() for line in warnings.splitlines()]
    kinds = [line.partition(":")[0] for line in lines[::2]]
    assert kinds == ["not_converged", "busy", "steal"]
    assert "A hypervisor (KVM)" in lines[4], "the host it took the time from"
    assert all(line in views.ADVICE.values() for line in lines[1::2])


def test_reasons_that_differ_in_numbers_alone_are_one(tmp_path: Path) -> None:
    failed = []
    for name, share in (("cas", "98.9"), ("cas", "9.5"), ("readwrite", "30")):
        reason = f"ping had CPU 0 for {share} % of its samples"
        failed.append(Failed(name, "cmpxchg", 1, 0, 1, reason))
    failed.append(Failed("cas", "cmpxchg", 1, 0, 1, "no progress for 5 s"))
    run = replace(builders.a_run(rounds=2), failed=tuple(failed))
    Store(tmp_path).publish(run, [builders.a_burst()])
    text = show_run(tmp_path, run.run_id)
    assert (
        "(4: cas 3, readwrite 1): ping had CPU 0 for 9.5 to 98.9 % of its samples (3);"
        " no progr" in text
    )


def test_what_the_hypervisor_took_is_told_apart_from_other_work(tmp_path: Path) -> None:
    run = builders.a_run(rounds=4)
    busy = {"flags": ("busy_cpu",), "ran_ppm": (700_000, 1_000_000)}
    bursts = [
        builders.a_burst(steal_ppm=(0, 9_000)),  # too little to be felt
        builders.a_burst(round=1, steal_ppm=(300_000, 0), **busy),
        builders.a_burst(round=2, steal_ppm=(50_000, 20_000), **busy),
        builders.a_burst(round=3, steal_ppm=None, **busy),
    ]
    Store(tmp_path).publish(run, bursts)
    text = show_run(tmp_path, run.run_id)
    assert (
        "less than 90% of their CPUs (75%): the hypervisor took it from 1 of 3 bursts"
        in text
    )
    lost = (
        "steal: bursts lost CPU time to the hypervisor (50%, on average 18% of their"
        " time): "
    )
    assert f"{lost}cas 0-1 in round 1 (30%), cas 0-1 in round 2 (5.0%)" in text


def test_a_run_in_which_everything_failed_is_still_shown(tmp_path: Path) -> None:
    failed = (Failed("cas", "cmpxchg", 0, 0, 1, "stuck"),)
    run = replace(builders.a_run(), failed=failed)
    Store(tmp_path).publish(run, [])
    assert "stuck" in show_run(tmp_path, run.run_id)


def test_what_a_host_says_cannot_move_the_cursor(tmp_path: Path) -> None:
    run = builders.a_run()
    facts = replace(run.facts, cpu_model="\x1b[2JEvil")
    run = replace(run, facts=facts, notes=("\rnote",))
    Store(tmp_path).publish(run, builders.make_bursts(run))
    text = show_run(tmp_path, run.run_id)
    assert "\\x1b[2JEvil" in text
    assert "\x1b" not in text
    assert "\r" not in text


def test_json_gives_programs_the_same_numbers(tmp_path: Path) -> None:
    run = publish(tmp_path, builders.small_desktop())
    (document,) = json.loads("".join(show_as_json(tmp_path, [run.run_id])))["rows"]
    pairs = {(row["ping_cpu"], row["pong_cpu"]): row for row in document["pairs"]}
    relations = {row["relation"] for row in document["relations"]}
    assert pairs[0, 4]["median_ns"] == pytest.approx(6.0, rel=0.01)
    assert document["cpus"] == [0, 4, 1, 5, 2, 6, 3, 7]
    assert document["run"]["labels"] == {"rack": "b2", "kernel": "6.12"}
    assert relations == {"self", "smt", "package"}


def test_runs_are_listed_with_their_state(tmp_path: Path) -> None:
    store = Store(tmp_path)
    run = publish(tmp_path, builders.small_desktop(), host=Host("rpi5", "192.0.2.7"))
    store.new_journal(builders.a_run(host=Host("late", "192.0.2.8"))).close()
    runs = Listing(store.place).list_with_unfinished()
    text = render_runs(runs)
    assert matches_line(rf"^{run.run_id} +rpi5 .* 28 +72 +complete$", text)
    assert matches_line(r" late .* - +- +unfinished$", text)
    assert text.splitlines()[-1] == "labels of all: kernel=6.12"
    rows = json.loads(runs_as_json(runs))["rows"]
    listed = {row["host_name"]: row for row in rows}
    assert listed["rpi5"]["bursts"] == 72
    assert listed["late"]["bursts"] is None
    assert "fleet run" in render_runs([])


def test_groups_of_one_cpu_get_no_lines() -> None:
    groups_of_one = ((0, 0, 0, 0, 0, 0), (0, 0, 0, 0, 1, 1))
    assert Layout((0, 1), groups_of_one).choose_border_level() is None


def test_a_pair_is_named_by_its_cpus_and_a_clock_by_its_one() -> None:
    assert format_pair({"ping_cpu": 3, "pong_cpu": 40}) == "3-40"
    assert format_pair({"ping_cpu": 3, "pong_cpu": 3}) == "3"


def test_sentences_and_the_last_columns_of_tables_fit_the_terminal() -> None:
    text = "  one two three four\nname  a  b  c  d\nshort"
    wrapped = "  one two\n    three\n    four\nname  a  b  c\n      d\nshort"
    assert wrap_to_width(text, 12) == wrapped
    assert wrap_to_width(text, None) == text


@pytest.mark.parametrize(
    ("smt", "control", "hypervisor", "answer"),
    [
        (True, "on", None, "on"),
        (False, "off", "KVM", "off"),
        (
            False,
            "notsupported",
            None,
            "not supported, by the CPU or as its firmware has it",
        ),
        (False, None, None, "off, or not supported by the CPU"),
        (
            False,
            "notsupported",
            "KVM",
            r"hidden, if the machine has it, by the hypervisor \(KVM\)",
        ),
        (None, None, None, "not reported by the host"),
    ],
)
def test_whether_hyperthreading_is_on_is_said(
    smt: bool | None,
    control: str | None,
    hypervisor: str | None,
    answer: str,
    tmp_path: Path,
) -> None:
    run_id = publish_with_facts(
        tmp_path, smt=smt, smt_control=control, hypervisor=hypervisor
    )
    text = show_run(tmp_path, run_id)
    assert matches_line(rf"^hyperthreading \(SMT\): {answer}$", text)
    (answer_for_host,) = find_last_runs(lambda: tmp_path).describe_smt().values()
    assert re.fullmatch(answer, answer_for_host), "for `fleet hosts`"


def test_the_node_of_each_network_device_is_printed(tmp_path: Path) -> None:
    nodes = (Node(0, network=("eth0", "eth1")), Node(1, network=("ib0",)))
    run_id = publish_with_facts(tmp_path, nodes=nodes)
    text = show_run(tmp_path, run_id)
    assert "\nnetwork: eth0: node 0, eth1: node 0, ib0: node 1\n" in text


def test_of_a_virtual_machine_two_warnings_are_told_and_the_others_counted() -> None:
    keys = ("multimodal", "outliers", "wide", "steal", "hypervisor")
    warnings = [RunWarning(key, f"about {key}") for key in keys]
    note = RunWarning("", "a note")
    on_bare_metal = {"hypervisor": None}
    on_kvm = {"hypervisor": "kvm"}
    assert fold_warnings([*warnings, note], on_bare_metal) == [*warnings, note]
    few = [*warnings[2:], note]
    assert fold_warnings(few, on_kvm) == few
    *told, summary, last = fold_warnings([*warnings, note], on_kvm)
    assert [warning.key for warning in told] == ["steal", "multimodal"]
    assert str(summary).startswith(
        "3 more warnings of a virtual machine: outliers, wide, hypervisor;"
    )
    assert last == note
    unreached = RunWarning("not_converged", "what was asked is not reached")
    assert unreached in fold_warnings([*warnings, unreached], on_kvm)


def test_a_missing_module_is_a_warning_in_show_and_on_the_page(tmp_path: Path) -> None:
    run = builders.a_run(rounds=1)
    full = Memory(channels=4, channels_populated=4)
    lacking = Memory(channels=4, channels_populated=3)
    words = "memory channels have no module, and bandwidth is lower by as much"
    for memory, is_warned in ((full, False), (lacking, True)):
        root = tmp_path / str(is_warned)
        run = replace(run, facts=replace(run.facts, memory=memory))
        Store(root).publish(run, [builders.a_burst()])
        text = show_run(root, run.run_id)
        page = render(root, [run.run_id])
        assert (words in text) is is_warned
        assert (words in page) is is_warned
        assert ("(3 of 4 channels populated)" in text) is is_warned


def test_the_frequency_of_the_cores_stands_beside_the_clock(made_lab: Path) -> None:
    root = made_lab / "results"
    runs = {run.host_name: run.run_id for run in Store(root).list_runs()}
    lines = show_run(root, runs["pisa"]).splitlines()
    (place,) = [number for number, line in enumerate(lines) if ", clock " in line]
    assert lines[place + 1] == "cores under load: P 4.80 GHz"
    assert "cores under load" not in show_run(root, runs["rome"])
