"""inventory.yaml as people write it, well and badly."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fleet.errors import InventoryError, UsageError
from fleet.inventory import schema, select, starter
from fleet.inventory.expected import read_expected
from fleet.inventory.select import Inventory
from fleet.model import BuildPlace, HostKeyPolicy, LockPolicy, PairChoice, Pairs, Via
from fleet.plan.conditions import LastRuns
from tests.command import Fleet

ROOT = Path(__file__).parents[2]

LAB = """\
defaults:
  user: bench
  labels: {site: lab, rack: 1.10}
groups:
  boards:
    hosts: [rpi*, "b[01-02]"]
    port: 2222
    labels: {kind: board}
    env: {MODE: fast}
  arms: {children: [boards], hosts: [server], port: 1, labels: {isa: arm}}
hosts:
  rpi4: {labels: {kind: pi}, port: 2200}
  rpi5:
  b[01-03]: {address: "{name}.lab.example"}
  server: {plan: {rounds: 3}}
  localhost: {via: local}
"""


@pytest.fixture
def load(tmp_path):
    def load_text(text: str | bytes) -> Inventory:
        path = tmp_path / "inventory.yaml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return select.load(path)

    return load_text


@pytest.fixture
def find_problems(load, tmp_path):
    """The problems of a text that must be refused, a line each, the directory
    cut off.
    """

    def problems(text: str | bytes) -> list[str]:
        with pytest.raises(InventoryError) as caught:
            load(text)
        return str(caught.value).replace(f"{tmp_path}/", "").splitlines()

    return problems


def hosts_by_name(result: Inventory) -> dict:
    return {host.name: host for host in result.hosts}


def test_a_host_goes_over_its_groups_over_the_defaults_and_mappings_merge_key_by_key(
    load,
):
    hosts = hosts_by_name(load(LAB))
    assert dict(hosts["rpi4"].labels) == {
        "site": "lab",
        "rack": "1.10",
        "isa": "arm",
        "kind": "pi",
    }
    assert hosts["rpi4"].port == 2200
    assert hosts["rpi5"].port == 2222
    assert hosts["b03"].port is None
    assert dict(hosts["rpi4"].env) == {"MODE": "fast"}
    assert hosts["server"].plan.rounds == 3
    assert hosts["server"].port == 1
    assert hosts["rpi5"].user == "bench"


def test_a_group_inside_another_goes_over_it(load):
    hosts = hosts_by_name(load(LAB))
    assert hosts["b01"].groups == ("boards", "arms")
    assert hosts["b01"].port == 2222


def test_hosts_come_in_the_order_of_the_file_with_ranges_unfolded_in_place(load):
    assert list(hosts_by_name(load(LAB))) == [
        "rpi4",
        "rpi5",
        "b01",
        "b02",
        "b03",
        "server",
        "localhost",
    ]


def test_an_address_is_the_name_unless_the_file_says_otherwise(load):
    hosts = hosts_by_name(load(LAB))
    assert hosts["rpi5"].address == "rpi5"
    assert hosts["b02"].address == "b02.lab.example"
    assert hosts["localhost"].address == "localhost"


def test_each_host_remembers_the_line_it_stands_in(load):
    hosts = hosts_by_name(load(LAB))
    assert hosts["rpi5"].origin.endswith("inventory.yaml:13")
    assert hosts["b03"].origin.endswith("inventory.yaml:14")


@pytest.mark.parametrize(
    ("patterns", "names"),
    [
        ([], ["rpi4", "rpi5", "b01", "b02", "b03", "server", "localhost"]),
        (["all"], ["rpi4", "rpi5", "b01", "b02", "b03", "server", "localhost"]),
        (["server", "rpi4"], ["rpi4", "server"]),
        (["boards"], ["rpi4", "rpi5", "b01", "b02"]),
        (["arms", "!boards"], ["server"]),
        (["rpi*"], ["rpi4", "rpi5"]),
        (["b[02-03]"], ["b02", "b03"]),
        (["kind=*"], ["rpi4", "rpi5", "b01", "b02"]),
        (["kind=board", "!b0?"], ["rpi5"]),
        (["!kind=*"], ["b03", "server", "localhost"]),
        (["rack=1.10", "!server", "!localhost", "!b*"], ["rpi4", "rpi5"]),
    ],
)
def test_hosts_are_selected_by_name_group_glob_label_and_exclusion(
    load, patterns, names
):
    assert [host.name for host in load(LAB).select(patterns)] == names


@pytest.mark.parametrize(
    ("patterns", "names"),
    [
        *(
            (["age>7d"], ["a", "c"]),
            (["age<2w"], ["a", "b"]),
            (["age<36h", "!a"], ["b"]),
        ),
        *((["!age>1m"], []), (["!age>9d"], ["b"])),
    ],
)
def test_hosts_are_selected_by_when_they_were_last_measured(load, patterns, names):
    now = datetime.now(UTC)
    last_runs = {"a": now - timedelta(days=10), "b": now - timedelta(hours=3)}
    inventory = load("hosts: {a: , b: , c: }\n")
    if names:
        assert [
            host.name
            for host in inventory.select(patterns, LastRuns(lambda: last_runs))
        ] == names
    else:
        with pytest.raises(UsageError, match="leaves no host"):
            inventory.select(patterns, LastRuns(lambda: last_runs))


@pytest.mark.parametrize(
    ("patterns", "words"),
    [
        (["age>7"], "an age is a number of m, h, d or w, such as age>7d"),
        (["rpi6"], "did you mean 'rpi5' or 'rpi4'"),
        (["board"], "did you mean 'boards'"),
        (["!rpi6"], "no host or group is called 'rpi6'"),
        (["kind=bord"], "did you mean 'kind=board'"),
        (["rpi4", "!rpi*"], "leaves no host"),
        (["!all"], "leaves no host"),
        (["b[3-1]"], "runs backwards"),
        ([""], "no host or group is called ''"),
    ],
)
def test_a_selection_that_finds_nothing_is_an_error_that_helps(load, patterns, words):
    with pytest.raises(UsageError, match=r"inventory.yaml: ") as caught:
        load(LAB).select(patterns)
    assert words in str(caught.value)
    assert caught.value.exit_code == 2


def test_every_key_reaches_the_host(load, tmp_path):
    (host,) = load("""\
hosts:
  h:
    address: "[fe80::1%eth0]"
    port: "22"
    user: me
    identity_files: keys/id
    jump: me@one:22, two
    via: ssh
    host_key: accept-new
    os: Linux
    arch: arm64
    build: prebuilt
    toolchain: {cc: gcc-12, cflags: "-O2 -DX='a b'", binary: /agent, sdp: ~/qnx}
    workdir: ~/.fleet
    priority: 10
    lock: off
    cpus: 0-3,8
    env: {LD_DEBUG: 1}
    labels: {on: yes}
    plan: {benchmarks: [cas/lse], samples: 5, iterations: 100, rounds: 2, warmup: 0, pairs: ordered}
""").hosts
    assert host.address == "fe80::1%eth0"
    assert host.port == 22
    assert host.user == "me"
    assert host.identity_files == (str(tmp_path / "keys/id"),)
    assert host.jump == ("me@one:22", "two")
    assert host.via == Via.SSH
    assert host.host_key == HostKeyPolicy.ACCEPT_NEW
    assert host.build == BuildPlace.PREBUILT
    assert host.os == "linux"
    assert host.arch == "aarch64"
    assert host.toolchain.cc == "gcc-12"
    assert host.toolchain.cflags == ("-O2", "-DX=a b")
    assert host.toolchain.binary == "/agent"
    assert host.toolchain.sdp == "~/qnx"  # a path on the machine that has the SDP
    assert host.workdir == "~/.fleet"
    assert host.priority == 10
    assert host.cpus == (0, 1, 2, 3, 8)
    assert host.lock is LockPolicy.OFF
    assert dict(host.env) == {"LD_DEBUG": "1"}
    assert dict(host.labels) == {"on": "yes"}
    assert host.plan.benchmarks == ("cas",)
    assert host.plan.variant == "cas=lse"
    assert host.plan.warmup == 0
    assert host.plan.pairs == PairChoice(Pairs.ORDERED)


def test_words_that_yaml_takes_for_something_else_stay_as_written(load):
    result = load(
        "hosts:\n  no: {labels: {a: 1.10, b: on, c: 022, d: 2024-01-02}}\n  0x10:\n "
        " 123: {cpus: [1, 0]}\n"
    )
    assert [host.name for host in result.hosts] == ["no", "0x10", "123"]
    assert dict(result.hosts[0].labels) == {
        "a": "1.10",
        "b": "on",
        "c": "022",
        "d": "2024-01-02",
    }
    assert result.hosts[2].cpus == (0, 1)
    assert result.hosts[2].host_id == "h-123"


def test_anchors_and_merge_keys_work_and_the_own_key_wins(load):
    result = load(
        "defaults: &base {user: a, port: 1}\nhosts:\n  x: {<<: *base, port: 2}\n  y:"
        " {<<: [{user: c}, *base]}\n"
    )
    assert [(host.user, host.port) for host in result.hosts] == [("a", 2), ("c", 1)]


def test_a_key_with_nothing_behind_it_says_nothing(load):
    (host,) = load(
        "defaults: {port: 5}\ngroups:\nhosts: {a: {port: , labels: }}\n"
    ).hosts
    assert host.port == 5


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "inventory.yaml:1: the file is empty; `fleet init` shows"),
        ("# nothing\n", "inventory.yaml:1: the file is empty"),
        ("- a\n", "inventory.yaml:1: must be a mapping with `hosts:`"),
        ("hosts:\n", "inventory.yaml:1: hosts: names no host"),
        ("hosts: [a]\n", "inventory.yaml:1: hosts: must be a mapping (lines of `key: value` below it), not a list"),
        ("hosts:\n  a:\n\tport: 1\n", "inventory.yaml:3: broken YAML: this line contains a tab"),
        ("hosts:\n  a: {port: 1\n", "broken YAML: "),
        ("hosts: {a: 'b}\n", "broken YAML: "),
        ("hosts: {a: }\n---\nhosts: {}\n", "broken YAML: "),
        ("hosts: {a: \x01}\n", "inventory.yaml:1: a control character"),
        (b"hosts:\n  \xff:\n", "inventory.yaml:2: not UTF-8 text"),
        ("hosts:\n  a:\n  a:\n", "inventory.yaml:3: hosts.a: duplicate key (first in line 2)"),
        ("hosts:\n  a:\n    port: 1\n    port: 2\n", "inventory.yaml:4: hosts.a.port: duplicate key"),
        ("hosts:\n  a:\n  A:\n", "inventory.yaml:3: hosts.A: A and a would share one directory of results"),
        ("hosts:\n  3a:\n  h-3a:\n", "h-3a and 3a would share one directory of results"),
        ("hosts:\n  a2:\n  a[1-3]:\n", "inventory.yaml:3: hosts.a[1-3]: a2 is declared a second time (first in line 2)"),
        ("hosts:\n  a b:\n", "inventory.yaml:2: hosts.a b: a name is letters"),
        ("hosts:\n  ../x:\n", "a name is letters"),
        ("hosts:\n  all:\n", "'all' selects every host"),
        ("hosts:\n  a[3-1]:\n", "the range [3-1] runs backwards"),
        ("hosts:\n  a[1-999999]:\n", "is more than 20000 names"),
        ("hosts: {a: }\ngroups: {a: {hosts: [a]}}\n", "groups.a: is also the name of a host"),
        ("hosts: {rpi4: }\ngroups: {g: {hosts: [rpi]}}\n", "groups.g.hosts[0]: no host is called 'rpi'; did you mean 'rpi4'?"),
        ("hosts: {a: }\ngroups: {g: {children: [h]}}\n", "groups.g.children[0]: no group is called 'h'."),
        ("hosts: {a: }\ngroups: {g: {children: [h]}, h: {children: [g]}}\n", "these groups contain one another"),
        ("hosts: {a: }\nhost: {}\n", "inventory.yaml:2: host: unknown key; did you mean 'hosts'?"),
        ("hosts:\n  a:\n    prot: 1\n", "inventory.yaml:3: hosts.a.prot: unknown key; did you mean "),
        ("hosts: {a: {plan: {round: 1}}}\n", "hosts.a.plan.round: unknown key; did you mean 'rounds'?"),
        ("hosts: {a: {plan: {variant: lse}}}\n", "hosts.a.plan.variant: is not an option any more; name a variant with its benchmark, as in cas/c11: `benchmarks: [cas/c11]`"),
        ("hosts: {a: {plan: {benchmarks: [cas/lsee]}}}\n", "hosts.a.plan.benchmarks: unknown variant 'lsee' of cas; there are auto, all, cmpxchg"),
        ("hosts: {a: {toolchain: {gcc: 1}}}\n", "hosts.a.toolchain.gcc: unknown key"),
        ("hosts:\n  a:\n    port: 70000\n", "inventory.yaml:3: hosts.a.port: must be a whole number from 1 to 65535; not '70000'"),
        ("hosts: {a: {port: 0}}\n", "hosts.a.port: must be a whole number from 1 to 65535; not '0'"),
        ("hosts: {a: {port: yes}}\n", "hosts.a.port: must be a whole number from 1 to 65535; not 'yes'"),
        ("hosts: {a: {port: 022}}\n", "must be a whole number from 1 to 65535; not '022'"),
        ("hosts: {a: {port: 22.5}}\n", "must be a whole number"),
        ("hosts: {a: {port: [22]}}\n", "hosts.a.port: must be 1 to 65535, not a list"),
        ("hosts: {a: web}\n", "hosts.a: must be a mapping (lines of `key: value` below it), not 'web'"),
        ("hosts: {a: {user: {x: y}}}\n", "hosts.a.user: must be one piece of text, not a mapping"),
        ("hosts: {a: {user: -oX}}\n", "hosts.a.user: must be a user name"),
        ("hosts: {a: {address: -oProxyCommand=x}}\n", "hosts.a.address: must be a name or an IP address"),
        ("hosts: {a: {address: 'h:22'}}\n", "`address: h` and `port: 22`"),
        ("hosts: {a: {address: me@h}}\n", "write the user on a line of its own"),
        ("hosts: {a: {via: telnet}}\n", "hosts.a.via: must be ssh, openssh, local, command, srun, kubectl, podman or docker, not 'telnet'"),
        ("hosts: {a: {host_key: no}}\n", "hosts.a.host_key: must be strict or accept-new, not 'no'"),
        ("hosts: {a: {arch: sparc}}\n", "hosts.a.arch: must be auto or one of aarch64,"),
        ("hosts: {a: {jump: [a, 'b c']}}\n", "hosts.a.jump[1]: a hop is [user@]host[:port]"),
        ("hosts: {a: {cpus: 3-1}}\n", "the range 3-1 runs backwards; write 1-3"),
        ("hosts: {a: {cpus: 0-99999}}\n", "there is no CPU 99999"),
        ("hosts: {a: {cpus: {x: 1}}}\n", "hosts.a.cpus: must be CPU numbers such as 0-3,8"),
        ("hosts: {a: {workdir: tmp}}\n", "hosts.a.workdir: must be an absolute path"),
        ("hosts: {a: {workdir: /}}\n", "hosts.a.workdir: must be an absolute path"),
        ("hosts: {a: {workdir: /a/../b}}\n", "hosts.a.workdir: must be an absolute path"),
        ("hosts: {a: {env: {1X: y}}}\n", "hosts.a.env: '1X' is not a valid name"),
        ("hosts: {a: {env: {X: [1]}}}\n", "hosts.a.env.X: must be one piece of text, not a list"),
        ('hosts: {a: {labels: {x: "a\\nb"}}}\n', "hosts.a.labels.x: must be one line of text"),
        ("hosts: {a: {toolchain: {cflags: \"'\"}}}\n", "cannot be split into flags"),
        ("hosts: {a: {build: prebuilt}}\n", "hosts.a.build: a: prebuilt needs `toolchain: {binary: PATH}`"),
        ("hosts: {a: !!python/object:os.system {}}\n", "is not supported"),
        ("hosts: {a: !x {}}\n", "hosts.a: the YAML tag !x is not supported"),
        ("hosts: {a: &a {b: *a}}\n", "nested too deeply"),
        ("hosts: {a: &a {<<: *a}}\n", "nested too deeply"),
        ("hosts: " + "[" * 500_000, "inventory.yaml:1: nested too deeply"),
        ("- " * 500_000, "inventory.yaml:1: nested too deeply"),
    ],
)  # fmt: skip
def test_a_mistake_is_named_with_its_line_and_field(find_problems, text, problem):
    assert problem in "\n".join(find_problems(text))


def test_all_mistakes_are_listed_in_the_order_of_the_file(find_problems):
    problems = find_problems(
        "defaults:\n  usr: x\nhosts:\n  a: {port: x}\n  b:\n    via: z\n    cpus: q\n"
    )
    fields = ["defaults.usr", "hosts.a.port", "hosts.b.via", "hosts.b.cpus"]
    assert [problem.split(": ")[1] for problem in problems] == fields
    assert [problem.split(":")[1] for problem in problems] == ["2", "4", "6", "7"]


@pytest.mark.parametrize(
    "key", ["password", "passphrase", "ssh_secret", "token", "api_key"]
)
@pytest.mark.parametrize(
    "place",
    ["hosts: {{a: {{{key}: hunter2}}}}", "defaults: {{env: {{{key}: hunter2}}}}"],
)
def test_a_secret_is_refused_with_advice_and_never_repeated(find_problems, key, place):
    (problem,) = find_problems(place.format(key=key) + "\n")
    assert "this file must hold no secret; use an SSH agent" in problem
    assert "hunter2" not in problem


def test_a_password_inside_a_hop_is_not_repeated(find_problems):
    assert "hunter2" not in "".join(
        find_problems("hosts: {a: {jump: 'me:hunter2@host'}}\n")
    )


def test_a_file_that_unfolds_without_end_is_refused(find_problems):
    levels = [f"  a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    assert (
        "expands to too many values"
        in find_problems("\n".join(["x:", "  a0: &a0 [1]", *levels]))[0]
    )


def test_a_file_that_is_missing_or_is_none_is_named_and_not_waited_for(tmp_path):
    with pytest.raises(InventoryError, match="no such file"):
        select.load(tmp_path / "inventory.yaml")
    os.mkfifo(tmp_path / "fifo")
    for read, path in (
        (select.load, "fifo"),
        (select.load, ""),
        (starter.from_ssh_config, "fifo"),
        (starter.from_ssh_config, ""),
        (read_expected, "fifo"),
    ):
        with pytest.raises(InventoryError, match="cannot be read"):
            read(tmp_path / path)


_TEXTS = r"""
hosts: defaults: groups: children: a b port: 22 labels: env: cpus: 0-3 jump: plan: toolchain: workdir: a[1-3]
[ ] { } & * &x *x <<: : , - ? | > ' " # ! !!int ~ null yes \ % @ ` --- ...
"""
_WORDS = st.sampled_from(_TEXTS.split())
_SPACES = st.sampled_from(["\n", "\n  ", "\n    ", "\t", " "])
_PIECES = st.lists(st.one_of(_WORDS, _SPACES, st.text(max_size=3)), max_size=40)


@settings(
    max_examples=300,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    text=st.one_of(st.text(max_size=200), st.binary(max_size=60), _PIECES.map(" ".join))
)
def test_any_text_ends_in_an_inventory_or_an_inventory_error(load, text):
    try:
        result = load(
            text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
        )
    except InventoryError as err:
        assert str(err)
    else:
        assert result.hosts


def test_the_shipped_inventory_measures_this_machine():
    (host,) = select.load(ROOT / "inventory.yaml").hosts
    assert host.name == "localhost"
    assert host.via == Via.LOCAL


def test_the_starter_loads_also_with_every_commented_line_made_real(load):
    assert [host.name for host in load(starter.read_starter()).hosts] == ["localhost"]
    lines = starter.read_starter().splitlines()
    active = [
        line.replace("# ", "", 1) if ":" in line and "  #" in "  " + line else line
        for line in lines[5:]
    ]
    text = "\n".join(
        line
        for line in active
        if not line.lstrip().startswith("#") and not line.endswith((".", "needed:"))
    )
    complete = [
        line
        for line in text.splitlines()
        if not line.strip().endswith(("entry:", "name:"))
    ]
    assert {"rpi4", "web1", "board40"} <= set(hosts_by_name(load("\n".join(complete))))


def test_the_page_about_the_inventory_shows_one_that_loads_and_names_every_key(load):
    page = (ROOT / "docs/inventory.md").read_text()
    example = page.split("```yaml\n")[1].split("```")[0]
    result = load(example)
    assert [host.name for host in result.select(["arm", "!boards"])] == ["altra"]
    for key in (*schema.ENTRY, *schema.TOOLCHAIN):
        assert f"`{key}`" in page


def test_ssh_config_hosts_become_inventory_hosts_that_ssh_config_still_decides(
    load, account_home
):
    home = account_home
    (home / ".ssh" / "conf.d").mkdir(parents=True)
    config = home / ".ssh" / "config"
    config.write_text(
        "Include conf.d/*.conf\n# Host not-this\nHost web1 web2 *.example !bad\n "
        ' HostName 192.0.2.1\nhost="lab pi" no\n\tPort 22\nMatch user root\n  Port'
        " 1\nHost WEB1 web1\nInclude missing\n"
    )
    (home / ".ssh" / "conf.d" / "a.conf").write_text(
        "Host inner\nInclude ~/.ssh/config\n"
    )
    text = starter.from_ssh_config(config)
    hosts = load(text).hosts
    assert [host.name for host in hosts] == ["inner", "web1", "web2", "no"]
    assert {host.address for host in hosts} == {"inner", "web1", "web2", "no"}
    assert "# Not carried over:" in text
    assert "Match user root" in text
    assert "Host WEB1" in text


@settings(
    max_examples=100,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    names=st.lists(
        st.text(
            st.characters(exclude_categories=["Cs"], exclude_characters="\n\r"),
            max_size=12,
        ),
        max_size=5,
    )
)
def test_any_ssh_config_gives_an_inventory_that_loads(load, tmp_path, names):
    config = tmp_path / "config"
    config.write_text("Host " + " ".join(names) + "\n")
    assert load(starter.from_ssh_config(config)).hosts


def test_a_build_host_is_named_and_comes_with_how_to_reach_it(load):
    result = load("""\
defaults: {toolchain: {build_host: forge}}
hosts:
  board: {os: qnx, build: build-host}
  forge: {address: forge.example.net, user: me, toolchain: {sdp: ~/qnx800}}
""")
    board, forge = result.hosts
    assert board.build_host is not None
    assert board.build_host.address == "forge.example.net"
    assert board.build_host.user == "me"
    assert board.build_host.toolchain.sdp == "~/qnx800"  # a home there, not here
    assert forge.build_host is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "hosts: {a: {toolchain: {build_host: forgo}}, forge: }",
            r"no host is called 'forgo'.*forge",
        ),
        (
            "hosts: {a: {build: build-host}}",
            r"build-host needs `toolchain: {build_host: NAME}` as well",
        ),
        (
            "hosts: {a: {toolchain: {build_host: -x}}}",
            r"must be the name of a host in this file",
        ),
    ],
)
def test_a_build_host_that_is_not_there_is_named(load, text, words):
    with pytest.raises(InventoryError, match=words):
        load(text)


def test_a_release_is_of_qnx_and_stays_as_it_is_written(load):
    result = load(
        "groups: {boards: {os: qnx, os_release: 8.0, hosts: a}}\nhosts: {a: , b: }"
    )
    assert [host.os_release for host in result.hosts] == ["8.0", None]


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("os_release: 8.0", "os_release is for QNX hosts; set `os: qnx` as well"),
        ("os: linux, os_release: 6.12", "os_release is for QNX hosts"),
        ("os: qnx, os_release: QNX 8", "must be a QNX release such as 8.0"),
    ],
)
def test_a_release_that_cannot_be_is_refused(load, entry, words):
    with pytest.raises(InventoryError, match=words):
        load(f"hosts: {{a: {{{entry}}}}}")


def test_ranges_that_add_up_to_too_many_hosts_are_refused(load, monkeypatch):
    monkeypatch.setattr(select, "HOST_LIMIT", 10)
    assert len(load("hosts: {'a[1-5]': , 'b[1-5]': }").hosts) == 10
    with pytest.raises(
        InventoryError,
        match=r":1: hosts.b\[1-6\]: more than 10 hosts; split the inventory",
    ):
        load("hosts: {'a[1-5]': , 'b[1-6]': }")


def test_at_most_twenty_known_labels_are_listed(load):
    many = ", ".join(
        f"h{number}: {{labels: {{n: '{number:02}'}}}}" for number in range(21)
    )
    with pytest.raises(UsageError, match=r"Labels: n=00, .*, n=19, …\. Facts: model, "):
        load(f"hosts: {{{many}}}").select(["rack=b2"])


def test_hosts_are_selected_by_a_fact_of_their_last_run(load):
    inventory = load(
        "hosts: {a: {labels: {smt: off}}, b: , c: , web1: {labels: {rack: x}}}"
    )
    facts = {
        "a": {"smt": "on", "model": "AMD EPYC 9654"},
        "b": {"smt": "on"},
        "web1": {"smt": "off", "numa": "2"},
    }

    def select_names(*patterns: str) -> list[str]:
        chosen = inventory.select(patterns, LastRuns(read_facts=lambda: facts))
        return [host.name for host in chosen]

    assert select_names("smt=on") == ["a", "b"]
    assert select_names("smt=off") == ["a", "web1"], "a by its label"
    assert select_names("model=amd epyc 9*") == ["a"]
    assert select_names("web*@smt=off") == ["web1"]
    assert select_names("!smt=on") == ["c", "web1"], "unknown equals nothing"
    with pytest.raises(UsageError, match=r"no host has numa=4; .* There are: numa=2"):
        select_names("numa=4")


@pytest.mark.long
def test_a_folder_without_an_inventory_stands_for_this_machine(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path)
    done = fleet("hosts", "--json")
    assert [host["name"] for host in done.json] == ["localhost"]
    assert (
        done.stderr
        == "fleet: no inventory.yaml here: this machine alone. `fleet init` writes"
        " one.\n"
    )
    assert fleet("hosts", "rome").exit_code == 2
    assert fleet("hosts", "-i", "other.yaml").exit_code == 2
