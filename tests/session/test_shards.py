from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

import pytest

from fleet.errors import StoreError, UsageError
from fleet.model import Host, Via
from fleet.session.dask_cluster import measure_shard
from fleet.session.shards import (
    machine_key,
    parse_shard,
    select_shard,
    split_into_groups,
)
from tests.command import Fleet

HOSTS = tuple(
    Host(f"host{number}", f"10.0.{number // 250}.{number % 250}")
    for number in range(1000)
)


def parts(hosts: Sequence[Host], count: int) -> list[list[str]]:
    """Return the names of the hosts of each shard."""
    shards = range(1, count + 1)
    return [names(select_shard(hosts, number, count)) for number in shards]


def names(hosts: Sequence[Host]) -> list[str]:
    return [host.name for host in hosts]


def groups(hosts: Sequence[Host], count: int) -> list[list[str]]:
    """Return the names of the hosts of each group."""
    return [names(group) for group in split_into_groups(hosts, count)]


@pytest.mark.parametrize("count", [1, 2, 3, 16])
def test_every_host_is_in_exactly_one_shard_and_the_order_stays(count: int) -> None:
    shards = parts(HOSTS, count)
    assert sorted(chain(*shards)) == sorted(names(HOSTS))
    for shard in shards:
        in_order = [name for name in names(HOSTS) if name in shard]
        assert shard == in_order
        assert len(shard) == pytest.approx(1000 / count, rel=0.5)


def test_the_shards_are_those_of_every_release_and_machine() -> None:
    hosts = [Host(name, name) for name in ("rpi4", "rpi5", "epyc1", "epyc2", "xeon")]
    assert parts(hosts, 2) == [["epyc1", "epyc2"], ["rpi4", "rpi5", "xeon"]]


def test_a_new_host_moves_no_other() -> None:
    before = parts(HOSTS[:-1], 7)
    after = parts(HOSTS, 7)
    added = 0
    for old, new in zip(before, after, strict=True):
        assert set(old) <= set(new)
        added += len(new) - len(old)
    assert added == 1


def test_another_shard_takes_its_part_from_each_and_moves_nothing_else() -> None:
    before = parts(HOSTS, 7)
    *after, added = parts(HOSTS, 8)
    for old, new in zip(before, after, strict=True):
        assert set(new) <= set(old)
    assert 60 < len(added) < 200


def test_what_is_chosen_beside_a_host_does_not_decide_its_shard() -> None:
    every_third = HOSTS[::3]
    of_all = set(parts(HOSTS, 5)[1])
    of_chosen = set(parts(every_third, 5)[1])
    assert of_chosen == of_all & set(names(every_third))


def test_dealing_is_even_and_leaves_no_group_empty() -> None:
    sizes = [len(group) for group in split_into_groups(HOSTS[:50], 8)]
    assert sorted(sizes) == [6] * 6 + [7] * 2
    sizes = [len(group) for group in split_into_groups(HOSTS[:3], 8)]
    assert sizes == [1, 1, 1]
    one_machine = [replace(HOSTS[0], name=f"again{number}") for number in range(9)]
    sizes = [len(group) for group in split_into_groups(one_machine, 4)]
    assert sizes == [9]


@pytest.mark.parametrize(
    "text",
    ["", "1", "0/2", "3/2", "1/0", "a/b", "-1/2", "1/2/3", "1 / 2", "1/1001", "²/2"],
)
def test_what_is_no_shard_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="not a shard"):
        parse_shard(text)


def test_a_dry_run_shows_the_shard_and_an_empty_one_is_no_failure(
    tmp_path: Path,
) -> None:
    in_first, _ = parts([Host("only", "127.9.9.9")], 2)
    full, empty = ("1/2", "2/2") if in_first else ("2/2", "1/2")
    with Fleet(tmp_path) as fleet:
        fleet.inventory("hosts: {only: {address: 127.9.9.9, port: 1}}\n")
        dry_run = fleet("run", "--shard", full, "--dry-run", "--json")
        assert [plan["host"]["name"] for plan in dry_run.json] == ["only"]
        assert dry_run.stderr == f"shard {full}: 1 of 1 hosts\n"
        done = fleet("run", "--shard", empty)
        assert done.exit_code == 0
        assert done.stdout == "Nothing to measure in this shard.\n"
        assert not fleet.results.exists()


def test_a_worker_that_does_not_see_the_shared_folder_measures_nothing(
    tmp_path: Path,
) -> None:
    with pytest.raises(StoreError, match="does not see the folder"):
        measure_shard("s20260101T000000Z-00000000", str(tmp_path), 1.0, {}, HOSTS[:1])


@pytest.mark.parametrize(
    ("host", "name"),
    [
        (Host("a", "anything", Via.LOCAL), "this machine"),
        (Host("a", "localhost"), "this machine"),
        (Host("a", "127.0.0.1"), "this machine"),
        (Host("a", "::1"), "this machine"),
        (Host("a", "LOCALHOST", jump=("gate",)), "gate localhost"),
        (Host("a", "DB.lab", port=2222, user="me"), "db.lab"),
        (Host("a", "db.lab", jump=("one", "two")), "one two db.lab"),
    ],
)
def test_a_machine_is_its_address_and_the_gateways_before_it(
    host: Host, name: str
) -> None:
    assert machine_key(host) == name


def test_hosts_are_dealt_in_turn_and_entries_of_one_machine_together() -> None:
    hosts = [
        Host("a", "1"),
        Host("b", "2"),
        Host("c", "1"),
        Host("d", "3"),
        Host("e", "4"),
        Host("f", "1"),
    ]
    assert groups(hosts, 2) == [["a", "c", "f"], ["b", "d", "e"]]
    assert groups(hosts, 3) == [["a", "c", "f"], ["b", "e"], ["d"]]
    assert groups(hosts, 9) == [["a", "c", "f"], ["b"], ["d"], ["e"]]
    assert split_into_groups([], 3) == []
