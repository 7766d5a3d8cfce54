"""Kinds of cores: found from what a host tells, part of a relation's name, chosen by
name.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from fleet.analysis.reduce import load_pairs
from fleet.errors import UsageError
from fleet.model import (
    Cpu,
    Facts,
    Host,
    RequestedOptions,
    Topology,
    add_core_kinds,
    is_relation,
    name_core_kinds,
    relation_sort_key,
)
from fleet.plan.merge import merge_plan_with_facts
from fleet.plan.options import parse_requested
from fleet.store import Store
from tests import builders

PHONE = (160, 160, 160, 160, 498, 498, 1024)


@pytest.mark.parametrize(
    ("kinds", "capacities", "named"),
    [
        (("performance", "efficiency"), (1024, 1000), ("P", "E")),
        (("performance", "performance"), (1024, 1009), ()),
        (("performance", "efficiency", "x"), (None,) * 3, ("P", "E", "other")),
        (("efficiency", "low-power efficiency"), (None,) * 2, ("E", "LP")),
        (("P", "E"), (None,) * 2, ("P", "E")),
        ((None,) * 7, PHONE, (*["LITTLE"] * 4, *["middle"] * 2, "big")),
        ((None, None), (446, 1024), ("LITTLE", "big")),
        ((None, None), (1024, 1024), ()),
        ((None, None), (None, None), ()),
    ],
)
def test_kinds_are_those_of_intel_or_by_capacity(
    kinds: Sequence[str | None], capacities: Sequence[int | None], named: Sequence[str]
) -> None:
    result = name_core_kinds(zip(range(len(kinds)), kinds, capacities, strict=True))
    assert tuple(result.values()) == named


def test_a_relation_is_named_by_kinds_but_for_siblings() -> None:
    assert add_core_kinds("package", "E", "P") == "package P-E"
    assert add_core_kinds("cluster", "LITTLE", "LITTLE") == "cluster LITTLE-LITTLE"
    assert add_core_kinds("self", "big", "big") == "self big"
    assert add_core_kinds("smt", "P", "P") == "smt"
    assert add_core_kinds("package", None, None) == "package"


def test_names_with_kinds_are_in_order_and_known() -> None:
    names = [
        "smt",
        "cluster E-E",
        "package",
        "package P-P",
        "package P-E",
        "package E-E",
        "package E-LP",
        "package LP-other",
        "system",
    ]
    assert sorted([*names[3:], *names[:3]], key=relation_sort_key) == names
    assert all(map(is_relation, names))
    assert not any(
        map(is_relation, ("package X", "package written.chase.4K", "L2 read", ""))
    )


def test_pairs_have_the_kinds_of_their_cores(tmp_path: Path) -> None:
    run = builders.a_run(builders.hybrid_laptop())
    Store(tmp_path).publish(run, builders.make_bursts(run))
    pairs = load_pairs(tmp_path, benchmark="cas")
    topology = Topology(run.facts.cpus, run.facts.core_kinds)
    assert {"package P-P", "package P-E", "package E-E", "smt"} <= {*pairs["relation"]}
    for row in pairs.itertuples():
        assert row.relation == topology.name_relation(row.ping_cpu, row.pong_cpu)


def test_a_run_can_be_of_one_kind_of_core() -> None:
    facts = Facts("linux", "x86_64", cpus=builders.hybrid_laptop())
    host = Host("h", "h")
    assert merge_plan_with_facts(
        host, parse_requested({"cpus": "E"}), facts
    ).cpus == tuple(range(16, 32))
    one_of_each = (*range(0, 16, 2), *range(16, 32))
    assert (
        merge_plan_with_facts(host, parse_requested({"cpus": "cores"}), facts).cpus
        == one_of_each
    )
    unknown = replace(facts, cpus=(Cpu(0), Cpu(1)))
    with pytest.raises(UsageError, match="does not say which CPUs share a core"):
        merge_plan_with_facts(host, parse_requested({"cpus": "cores"}), unknown)
    entry = replace(host, cpus="P")
    assert merge_plan_with_facts(entry, RequestedOptions(), facts).cpus == tuple(
        range(16)
    )
    with pytest.raises(
        UsageError, match=r"h: --cpus big: no such cores; kinds there: E, P\."
    ):
        merge_plan_with_facts(host, parse_requested({"cpus": "big"}), facts)
    with pytest.raises(
        UsageError,
        match=r"--cpus p: must be CPU numbers such as 0-3,8, or a kind of core: P",
    ):
        parse_requested({"cpus": "p"})
