"""The nouns that do something: names that become keys, and how near two CPUs are."""

from collections import Counter
from pathlib import Path

import pytest

from fleet.facts import linux, probe
from fleet.model import Cpu, Host, Relation, Target, Topology
from tests.facts import trees
from tests.facts.shells import ask


def load_topology(tree: trees.Tree, tmp_path: Path) -> Topology:
    answer = ask(
        ["/bin/sh"], tmp_path / "home", root=str(tree.write(tmp_path / "root"))
    )
    return Topology(linux.parse(probe.split_sections(answer)).cpus)


@pytest.mark.parametrize(
    ("tree", "relations"),
    [
        (
            trees.hybrid_laptop,
            (
                "0-1 smt, 16-19 cluster, 19-20 package, 0-2 package, 1-31 package, 7-7"
                " self"
            ),
        ),
        (
            trees.numa_server,
            "0-16 smt, 0-3 node, 0-7 package, 0-8 system, 0-99 unknown",
        ),
        (trees.numa_server, "0-5 unknown"),  # 5 is switched off
        (trees.big_little_board, "0-3 cluster, 4-5 cluster, 5-6 package"),
        (trees.hidden_topology, "0-1 unknown"),
    ],
)
def test_a_relation_is_the_smallest_group_of_both_cpus(tree, relations, tmp_path):
    topology = load_topology(tree(), tmp_path)
    for pair, relation in (words.split() for words in relations.split(", ")):
        ping, pong = map(int, pair.split("-"))
        assert topology.relation(ping, pong) == relation, pair
        assert topology.relation(pong, ping) == relation, pair


def test_cores_alone_say_which_cpus_are_siblings_and_nothing_else():
    cores = Topology((Cpu(0, core=0), Cpu(1, core=0), Cpu(2, core=2)))
    assert cores.relation(0, 1) is Relation.SMT
    assert cores.relation(0, 2) is Relation.UNKNOWN


@pytest.mark.parametrize(
    ("groups", "relation"),
    [
        (("llc", "die", "node", "package"), Relation.PACKAGE),
        (("llc", "die", "node"), Relation.NODE),
        (("llc", "die"), Relation.DIE),
        (("llc", "cluster"), Relation.CLUSTER),
        (("llc",), Relation.LLC),
    ],
)
def test_where_groups_coincide_the_most_familiar_name_is_used(groups, relation):
    cpus = Topology(
        (Cpu(0, **dict.fromkeys(groups, 0)), Cpu(1, **dict.fromkeys(groups, 0)))
    )
    assert cpus.relation(0, 1) is relation


@pytest.mark.slow
def test_all_pairs_of_576_cpus_are_named(tmp_path):
    huge = load_topology(trees.huge_server(), tmp_path)
    for ping in range(0, 576, 19):
        assert Counter(huge.relation(ping, pong) for pong in range(576)) == {
            Relation.SELF: 1,
            Relation.SMT: 1,
            Relation.LLC: 22,
            Relation.NODE: 96 - 24,
            Relation.PACKAGE: 288 - 96,
            Relation.SYSTEM: 288,
        }


@pytest.mark.parametrize(
    ("name", "host_id"), [("web1", "web1"), ("3rpi", "h-3rpi"), ("42", "h-42")]
)
def test_the_key_in_the_tables_begins_with_a_letter(name, host_id):
    assert Host(name, name).host_id == host_id


def test_a_target_is_written_as_os_and_architecture():
    assert str(Target("linux", "aarch64")) == "linux-aarch64"
