"""`fleet init --from-slurm` and its kin: what a cluster's program lists becomes an
inventory that loads.
"""

import getpass
import json
from pathlib import Path

import pytest

from fleet.errors import InventoryError
from fleet.inventory import clusters
from fleet.inventory.select import Inventory, load
from fleet.model.client import client_command
from tests.command import Fleet

NODES = """\
NodeName=n1 Arch=x86_64 CPUTot=2 State=IDLE ThreadsPerCore=1 Partitions=all,fast  BootTime=2026-11-23T16:46:27
NodeName=n2 Arch=x86_64 CPUTot=2 State=ALLOCATED Partitions=all Reason=none of yours
NodeName=n3 Arch=x86_64 State=DOWN* Partitions=all
NodeName=n4 Arch=x86_64 State=IDLE+DRAIN Partitions=all
"""
DOCKER = '{"ID":"1","Names":"web,alias","Image":"nginx"}\n{"ID":"2","Names":"db","Image":"pg"}\n'
INFRA = {"Id": "3", "Names": ["pod-infra"], "IsInfra": True}
ODD_NAME = {"Id": "2", "Names": ["_odd name\n  x: 1"]}
PODMAN = json.dumps(
    [{"Id": "1", "Names": ["bench"], "IsInfra": False}, ODD_NAME, INFRA], indent=2
)


def pod(
    name: str, node: object, phase: str = "Running", containers: int = 1, **meta: str
) -> dict[str, object]:
    spec = {
        "nodeName": node,
        "containers": [{"name": f"c{number}"} for number in range(containers)],
    }
    meta = {"name": name, "namespace": "lab", **meta}
    return {"metadata": meta, "spec": spec, "status": {"phase": phase}}


PODS = json.dumps(
    {
        "items": [
            pod("bench-x7", "node-a", containers=2),
            pod("bench-y8", "node-b"),
            pod("other", "node-b"),
            pod("late", "node-c", "Pending"),
            pod("old", "node-a", deletionTimestamp="2026-11-26T01:00:00Z"),
        ]
    }
)


@pytest.fixture
def listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Write what `--from-KIND` makes where its program prints this, and load it."""

    def make(
        kind: str, printed: str, program: str, code: int = 0
    ) -> tuple[str, Inventory]:
        (tmp_path / "printed").write_text(printed)
        path = tmp_path / program
        path.write_text(
            f'#!/bin/sh\necho "$@" >{tmp_path}/asked\n/bin/cat {tmp_path}/printed\n'
            f"echo why >&2\nexit {code}\n"
        )
        path.chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path))
        monkeypatch.setenv("SLURM_JOB_ID", "7")
        monkeypatch.delenv("SLURM_JOB_NODELIST", raising=False)
        text = clusters.from_cluster(kind)
        (tmp_path / "inventory.yaml").write_text(text)
        return text, load(tmp_path / "inventory.yaml")

    return make


def test_nodes_of_slurm_that_are_up(
    listed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, inventory = listed("slurm", NODES, "scontrol")
    assert [
        (host.name, str(host.via), dict(host.labels)) for host in inventory.hosts
    ] == [
        ("n1", "srun", {"partition": "all,fast"}),
        ("n2", "srun", {"partition": "all"}),
    ]
    assert "# Left out: n3: it is DOWN*." in text
    assert "# Left out: n4: it is IDLE+DRAIN." in text
    assert (tmp_path / "asked").read_text() == "-o show nodes\n"
    monkeypatch.setenv("SLURM_JOB_NODELIST", "n[1-2]")
    clusters.from_cluster("slurm")
    assert (tmp_path / "asked").read_text() == "-o show nodes n[1-2]\n"


@pytest.mark.parametrize(
    ("line", "left_out", "labels"),
    [
        (
            "State=DOWN+DRAIN Partitions=main Reason=fan; State=IDLE until noon",
            "DOWN+DRAIN",
            {},
        ),
        (
            "State=IDLE Partitions=main Reason=cleared State=DOWN of last week",
            "",
            {"partition": "main"},
        ),
        (
            "State=IDLE Partitions=main Comment=Partitions=old NodeName=n9",
            "",
            {"partition": "main"},
        ),
        (
            "OS=Linux 6.1 #1 State=IDLE RealMemory=1 State=DRAINED Partitions=main",
            "DRAINED",
            {},
        ),
        ("OS=Linux 6.1 State=DOWN RealMemory=1 State=MIXED Extra=RealMemory=2", "", {}),
        ("State=IDLE Partitions=(null)", "", {}),
        ("State=IDLE Reason=Partitions=old", "", {}),
        ("State=IDLE+INVALID_REG Partitions=main", "IDLE+INVALID_REG", {}),
        ("State=IDLE*+CLOUD", "IDLE*+CLOUD", {}),
        ("State=IDLE+NOT_RESPONDING", "IDLE+NOT_RESPONDING", {}),
        ("State=IDLE+PLANNED", "", {}),
        ("State=FROZEN", "FROZEN", {}),  # a state of a Slurm to come
    ],
)
def test_free_text_of_a_node_changes_nothing_of_it(
    listed, line: str, left_out: str, labels: dict[str, str]
) -> None:
    printed = f"NodeName=n1 Arch=x86_64 {line}\nNodeName=n2 State=IDLE\n"
    text, inventory = listed("slurm", printed, "scontrol")
    hosts = {host.name: dict(host.labels) for host in inventory.hosts}
    assert hosts == {"n2": {}} | ({} if left_out else {"n1": labels})
    assert not left_out or f"# Left out: n1: it is {left_out}." in text


def test_an_odd_entry_is_left_out_by_its_name_and_spoils_no_other(listed) -> None:
    odd = [
        {"Id": "bb22", "Names": None},
        {"Id": "cc33", "Names": []},
        {"Id": "dd44"},
        7,
    ]
    text, inventory = listed(
        "podman", json.dumps([{"Id": "aa11", "Names": ["web"]}, *odd]), "podman"
    )
    assert [host.name for host in inventory.hosts] == ["web"]
    for name in ("bb22", "cc33", "dd44", "7"):
        assert f"# Left out: {name}: its entry has no Names." in text
    text, inventory = listed(
        "docker", f'WARNING: x\n{{"ID":"5","Names":""}}\n{DOCKER}', "docker"
    )
    assert [host.name for host in inventory.hosts] == ["web", "db"]
    assert "# Left out: WARNING: x: its entry has no Names." in text
    assert "# Left out: 5: its entry has no Names." in text
    pods = [
        pod("p0", "a"),
        pod("p1", "b") | {"status": {}},
        pod("p2", "c") | {"spec": None},
    ]
    text, inventory = listed("kubectl", json.dumps({"items": pods}), "kubectl")
    assert [host.name for host in inventory.hosts] == ["a"]
    assert "# Left out: p1: its entry has no status." in text
    assert "# Left out: p2: its entry has no spec." in text


def test_a_bug_of_ours_does_not_read_as_an_odd_entry(
    listed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(getpass, "getuser", lambda: {}.planted)  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="planted"):
        listed("labgrid", WHO, "labgrid-client")


def test_a_pods_host_is_its_node(listed) -> None:
    text, inventory = listed("kubectl", PODS, "kubectl")
    assert [
        (host.name, host.address, dict(host.labels)) for host in inventory.hosts
    ] == [
        ("node-a", "bench-x7", {"namespace": "lab", "container": "c0"}),
        ("node-b", "bench-y8", {"namespace": "lab"}),
    ]
    assert "# Left out: other: node-b is there already, by bench-y8." in text
    assert "# Left out: late: it is Pending." in text
    assert "# Left out: old: it is Terminating." in text


def test_containers_by_their_names(listed) -> None:
    _, inventory = listed("docker", DOCKER, "docker")
    assert [host.name for host in inventory.hosts] == ["web", "db"]
    text, inventory = listed("podman", PODMAN, "podman")
    assert [(host.name, str(host.via)) for host in inventory.hosts] == [
        ("bench", "podman")
    ]
    assert "# Left out: _odd name?  x: 1: no host may have that name." in text
    assert "# Left out: pod-infra: it only holds a pod's namespaces." in text


@pytest.mark.parametrize(
    ("kind", "program", "printed", "code", "problem"),
    [
        (
            "kubectl",
            "kubectl",
            "",
            1,
            "kubectl ended with 1: why. Try `kubectl get pods -o json`.",
        ),
        (
            "kubectl",
            "kubectl",
            "{}",
            0,
            "kubectl printed what is not its list: its JSON has no list",
        ),
        (
            "kubectl",
            "kubectl",
            json.dumps({"items": [pod("a", 7)]}),
            0,
            "a: its entry has no nodeName.",
        ),
        (
            "kubectl",
            "kubectl",
            "[" * 9999,
            0,
            "printed what is not its list: maximum recursion",
        ),
        (
            "kubectl",
            "kubectl",
            "9" * 9999,
            0,
            "printed what is not its list: Integer value out of range",
        ),
        (
            "podman",
            "podman",
            "no json",
            0,
            "measured. Left out: no json: its entry has no Names.",
        ),
        (
            "podman",
            "podman",
            "[1",
            0,
            "podman printed what is not its list: Input data was truncated",
        ),
        ("docker", "docker", "json\njson\n", 0, "docker 23 or newer is needed"),
        ("docker", "docker", "", 0, "docker lists no host that could be measured."),
        (
            "slurm",
            "scontrol",
            NODES.splitlines()[2],
            0,
            "could be measured. Left out: n3: it is DOWN*.",
        ),
        ("slurm", "another", "", 0, "scontrol, which lists the hosts, is not in PATH"),
    ],
)
def test_what_cannot_be_listed_is_named(
    listed, kind: str, program: str, printed: str, code: int, problem: str
) -> None:
    with pytest.raises(InventoryError) as refused:
        listed(kind, printed, program, code)
    assert problem in str(refused.value)


WHO = """User   Host  Place  Changed
{user}  lab   imx8   2026-11-24 04:00:00.000000
other  lab   rpi4   2026-11-24 04:00:00.000000
"""


def test_places_of_labgrid_that_are_ours(listed) -> None:
    text, inventory = listed(
        "labgrid", WHO.format(user=getpass.getuser()), "labgrid-client"
    )
    (host,) = inventory.hosts
    assert client_command(host, ("/bin/sh",)) == (
        "labgrid-client",
        "-p",
        "imx8",
        "ssh",
        "/bin/sh",
    )
    assert "# Left out: rpi4: other has acquired it." in text


LISTING = "n[1-2] rack=a\n\n# not this one\nweb 192.0.2.7 kind=board rack=b\n"


def test_hosts_come_from_a_program_whenever_the_inventory_is_read(
    tmp_path: Path,
) -> None:
    listing = tmp_path / "listing"
    path = tmp_path / "inventory.yaml"
    path.write_text(
        f"hosts_from: [cat, {listing}]\ndefaults: {{via: command, command: [sh, -c,"
        " 'exec \"$@\"', -]}\ngroups: {all-n: {hosts: n*, labels: {x:"
        " y}}}\nhosts: {web: {labels: {rack: c}}, own: {user: me}}\n"
    )
    listing.write_text(LISTING)
    result = {host.name: host for host in load(path).hosts}
    assert {
        name: (host.address, dict(host.labels)) for name, host in result.items()
    } == {
        "web": ("192.0.2.7", {"rack": "c"}),
        "own": ("own", {}),
        "n1": ("n1", {"rack": "a", "x": "y"}),
        "n2": ("n2", {"rack": "a", "x": "y"}),
    }
    listing.write_text("n3\n")
    assert "n3" in {host.name for host in load(path).hosts}
    again = load(path, {"n1": {"address": "there"}, "own": {"address": "o"}})
    assert {host.name: host.address for host in again.hosts} == {
        "web": "web",
        "own": "o",
        "n1": "there",
    }


def test_hosts_of_a_session_are_reached_as_their_cluster_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    path = tmp_path / "inventory.yaml"
    path.write_text("hosts_from: slurm\n")
    (host,) = load(path, {"n1": {"address": "n1", "labels": {}}}).hosts
    assert host.via == "srun"


@pytest.mark.parametrize(
    ("source", "printed", "problem"),
    [
        (
            "slurm5",
            "",
            (
                "inventory.yaml:1: hosts_from: must be slurm, kubectl, docker, podman,"
                " labgrid, or a"
            ),
        ),
        ("[]", "", "hosts_from: must be slurm"),
        ("[cat, PRINTED]", "", "cat lists no host that could be measured."),
        (
            "[cat, PRINTED]",
            "-oProxyCommand=x\n",
            "no host may be called '-oProxyCommand=x'",
        ),
        (
            "[cat, PRINTED]",
            "a -oProxyCommand\n",
            "yaml:1: hosts.a.address: must be a name or an IP",
        ),
        (
            "[cat, PRINTED]",
            "a b c\n",
            "cat printed what is not its list: 'a b c' is not NAME",
        ),
        ("[cat, PRINTED]", "a b 1/2=3\n", "inventory.yaml:1: hosts.a.labels"),
        ("[false]", "", "false ended with 1. Try `false`."),
        ("[yes]", "", "yes printed 8 MiB or more. Try `yes | head`."),
        ("[seq, 20001]", "", "more than 20000 hosts"),
        ("[cat, PRINTED]", "n1\n-o\n", "no host may be called '-o'"),
        (
            "[no-such-program]",
            "",
            "no-such-program, which lists the hosts, is not in PATH",
        ),
    ],
)
def test_what_is_no_list_of_hosts_is_named(
    tmp_path: Path, source: str, printed: str, problem: str
) -> None:
    (tmp_path / "printed").write_text(printed)
    path = tmp_path / "inventory.yaml"
    path.write_text(
        f"hosts_from: {source.replace('PRINTED', str(tmp_path / 'printed'))}\n"
    )
    with pytest.raises(InventoryError) as refused:
        load(path)
    assert problem in str(refused.value)


@pytest.mark.long
def test_resume_asks_no_program_again(tmp_path: Path) -> None:
    with Fleet(tmp_path) as fleet:
        (tmp_path / "listing").write_text("one\ntwo\n")
        words = f"[sh, -c, 'test -e {tmp_path}/open || exit 9; exec \"$@\"', -]"
        defaults = f"{{via: command, workdir: {tmp_path}/work, command: {words}}}"
        fleet.inventory(
            f"hosts_from: [cat, {tmp_path}/listing]\ndefaults: {defaults}\n"
        )
        plan = ("-b", "clock", "--rounds", "1", "--parallel", "1")
        assert {
            outcome["state"] for outcome in fleet("run", *plan, "--json", "-q").json
        } == {"failed"}
        (tmp_path / "listing").write_text("three\n")
        (tmp_path / "open").touch()
        done = fleet("resume", "--json", "-q")
        assert {outcome["host"] for outcome in done.json if outcome["bursts"]} == {
            "one",
            "two",
        }, done


def test_one_list_at_a_time(tmp_path: Path) -> None:
    with Fleet(tmp_path) as fleet:
        done = fleet("init", "--from-slurm", "--from-docker")
    assert done.exit_code == 2
    assert "exclude one another" in done.stderr


@pytest.mark.slow
def test_slurms_own_list_is_read(tmp_path: Path, slurm_job: dict[str, str]) -> None:
    with Fleet(tmp_path, slurm_job) as fleet:
        done = fleet("init", "--from-slurm")
        assert done.exit_code == 0
        assert "Next: fleet trust inventory.yaml, fleet hosts, then" in done.stdout
        assert [host["name"] for host in fleet("hosts", "--json").json] == [
            "n1",
            "n2",
            "n3",
        ]
