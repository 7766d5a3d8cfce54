"""The nouns that do something: names that become keys, and how near two CPUs are."""

from collections import Counter
from pathlib import Path

import pytest

from fleet.facts import linux, probe
from fleet.model import Cpu, Host, Relation, Target, Topology
from tests.facts import trees
from tests.facts.shells import ask


def topology_of(tree: trees.Tree, tmp_path: Path) -> Topology:
    answer = ask(["/bin/sh"], tmp_path / "home", root=str(tree.write(tmp_path / "root")))
    return Topology(linux.parse(probe.split_sections(answer)).cpus)


def test_relations_in_a_hybrid_laptop(tmp_path):
    laptop = topology_of(trees.hybrid_laptop(), tmp_path)
    assert laptop.relation(0, 1) is Relation.SMT
    assert laptop.relation(16, 19) is Relation.CLUSTER
    assert laptop.relation(19, 20) is Relation.PACKAGE
    assert laptop.relation(0, 2) is Relation.PACKAGE
    assert laptop.relation(1, 31) is Relation.PACKAGE
    assert laptop.relation(7, 7) is Relation.SELF


def test_relations_in_a_two_socket_server(tmp_path):
    server = topology_of(trees.numa_server(), tmp_path)
    assert server.relation(0, 16) is Relation.SMT
    assert server.relation(0, 3) is Relation.NODE
    assert server.relation(0, 7) is Relation.PACKAGE
    assert server.relation(0, 8) is Relation.SYSTEM
    assert server.relation(0, 5) is Relation.UNKNOWN  # 5 is switched off
    assert server.relation(0, 99) is Relation.UNKNOWN


def test_relations_on_a_big_little_board(tmp_path):
    board = topology_of(trees.big_little_board(), tmp_path)
    assert board.relation(0, 3) is Relation.CLUSTER
    assert board.relation(4, 5) is Relation.CLUSTER
    assert board.relation(5, 6) is Relation.PACKAGE


def test_a_hidden_topology_is_unknown_and_never_the_whole_machine(tmp_path):
    hidden = topology_of(trees.hidden_topology(), tmp_path)
    assert hidden.relation(0, 1) is Relation.UNKNOWN


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
    cpus = Topology((Cpu(0, **dict.fromkeys(groups, 0)), Cpu(1, **dict.fromkeys(groups, 0))))
    assert cpus.relation(0, 1) is relation


@pytest.mark.slow
def test_all_pairs_of_576_cpus_are_named(tmp_path):
    huge = topology_of(trees.huge_server(), tmp_path)
    for one in range(0, 576, 19):
        assert Counter(huge.relation(one, other) for other in range(576)) == {
            Relation.SELF: 1,
            Relation.SMT: 1,
            Relation.LLC: 22,
            Relation.NODE: 96 - 24,
            Relation.PACKAGE: 288 - 96,
            Relation.SYSTEM: 288,
        }


def test_relation_is_the_same_both_ways(tmp_path):
    server = topology_of(trees.numa_server(), tmp_path)
    for one in range(32):
        for other in range(32):
            assert server.relation(one, other) is server.relation(other, one)


@pytest.mark.parametrize(("name", "host_id"), [("web1", "web1"), ("3rpi", "h-3rpi"), ("42", "h-42")])
def test_the_key_in_the_tables_begins_with_a_letter(name, host_id):
    assert Host(name, name).host_id == host_id


def test_a_target_is_written_as_os_and_architecture():
    assert str(Target("linux", "aarch64")) == "linux-aarch64"
