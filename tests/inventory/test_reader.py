"""Whatever lies at inventory.yaml is read once, within bounds, by the YAML parser."""

import itertools
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fleet.errors import InventoryError
from fleet.inventory import gate, reader, select
from tests.command import ROOT, Done, Fleet

COMMANDS = (
    *("show", "show g", "runs", "label a k=v", "withdraw", "verify", "accept a"),
    *("export", "report", "import x", "run", "check", "clean", "hosts", "resume"),
)
MIB = 1 << 20


@pytest.fixture
def folder(tmp_path: Path) -> Fleet:
    """The command in a folder where no inventory is named."""
    return Fleet(tmp_path, {"FLEET_INVENTORY": ""})


def plant(place: str, path: Path) -> None:
    """Put what no command may wait for, or read whole, at a path."""
    match place:
        case "a FIFO":
            os.mkfifo(path)
        case "/dev/zero":
            path.symlink_to("/dev/zero")
        case "a folder":
            path.mkdir()
        case "a huge file":
            with path.open("wb") as file:
                file.truncate(1 << 40)
        case "millions of values":
            path.write_text(f"hosts: [{'a,' * (3 * MIB)}]\n")


@pytest.mark.parametrize(
    "place", ["a FIFO", "/dev/zero", "a folder", "a huge file", "millions of values"]
)
def test_no_command_waits_for_what_is_no_inventory(folder: Fleet, place: str) -> None:
    path = folder.folder / "inventory.yaml"
    plant(place, path)
    for name in COMMANDS:
        done = folder(*name.split())
        assert done.exit_code == 2, (name, done)
        assert done.stderr.startswith("fleet: inventory.yaml:"), (name, done)
    # another root has no need of the inventory
    assert "inventory.yaml" not in folder("runs", "-r", "mine").stderr


def test_no_memory_is_taken_for_what_is_no_inventory(tmp_path: Path) -> None:
    """A limit of 600 MiB is enough to read, and to refuse, all of them."""
    read = (
        "import resource, sys; from pathlib import Path\n"
        f"resource.setrlimit(resource.RLIMIT_AS, (600 * {MIB}, 600 * {MIB}))\n"
        "from fleet.errors import InventoryError\n"
        "from fleet.inventory.reader import read_inventory\n"
        "for name in sys.argv[1:]:\n"
        "    try: read_inventory(Path(name), is_named=False)\n"
        "    except InventoryError as err: print(err)\n"
    )
    places = ["/dev/zero", "a huge file", "millions of values"]
    paths = [tmp_path / f"{number}.yaml" for number in range(len(places))]
    for place, path in zip(places, paths, strict=True):
        plant(place, path)
    done = subprocess.run(
        [sys.executable, "-c", read, *paths],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    words = ("is a device", "larger than 8 MiB", "too many values")
    for line, word in zip(done.stdout.splitlines(), words, strict=True):
        assert word in line


@pytest.mark.parametrize(
    "text",
    [
        "fleet: {results: mine}\n",
        "fleet : {results: mine}\n",
        "'fleet': {results: mine}\n",
        '"\\x66leet": {results: mine}\n',
        "? fleet\n: results: mine\n",
        "{fleet: {results: mine}}\n",
        "\ufefffleet: {results: mine}\n",
        "--- # ours\nfleet:\n  results: mine\n",
        "x: &t {results: mine}\nfleet: *t\n",
    ],
)
def test_the_table_of_settings_is_what_yaml_says(folder: Fleet, text: str) -> None:
    folder.inventory(text)
    assert "fleet: mine: there is no such folder" in folder("show").stderr


@pytest.mark.parametrize(
    "text",
    [
        "hosts: {a: {labels: {x: 'fleet:'}}}\n",
        "hosts: {a: {labels: {x: 'of a\nfleet: {results: other}'}}}\n",
        "# fleet:\n#   results: other\nhosts: {a: }\n",
        "hosts: {a: {prot: 1}}\n",
        "all: {hosts: {a: {token: !vault x}}}\n",
        "",
    ],
)
def test_what_is_no_setting_changes_nothing_of_a_command_that_reads(
    folder: Fleet, text: str
) -> None:
    folder.inventory(text)
    assert "fleet: results: there is no such folder" in folder("show").stderr


def test_a_group_may_be_called_command(folder: Fleet) -> None:
    folder.inventory(
        "groups:\n"
        "  command: {hosts: [a]}\n"
        "  before: {hosts: [a], command: [x], via: command}\n"
        "hosts: {a: }\n"
    )
    for name in ("show", "show command", "runs before", "hosts command"):
        assert "trust" not in folder(*name.split()).stderr, name
    path = folder.folder / "inventory.yaml"
    document = reader.read_inventory(path, is_named=False).document
    assert [risky.path for risky in document.risky] == [
        ("groups", "before", "command"),
        ("groups", "before", "via"),
    ]


def run_with_pipe(folder: Path, writer: str, *words: str) -> Done:
    """Run a command whose inventory is the output of another."""
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m fleet {' '.join(words)} -i <({writer})"],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(folder), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    return Done(done.returncode, done.stdout, done.stderr)


def test_a_pipe_that_the_user_names_is_read_once_for_settings_and_hosts(
    tmp_path: Path,
) -> None:
    text = "fleet: {parallel: nine}\nhosts: {pisa: }\n"
    wrong = run_with_pipe(tmp_path, f"sleep 0.2; echo '{text}'", "check")
    assert "fleet.parallel: must be" in wrong.stderr
    right = run_with_pipe(tmp_path, f"echo '{text.replace('nine', '9')}'", "hosts")
    assert right.exit_code == 0, right
    assert "pisa" in right.stdout, right
    nothing = run_with_pipe(tmp_path, "true", "hosts")
    assert "nothing came through this pipe" in nothing.stderr


def test_a_pipe_whose_writer_says_nothing_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate, "PIPE_SILENCE_S", 0.1)
    os.mkfifo(tmp_path / "pipe")
    writer = os.open(tmp_path / "pipe", os.O_RDWR)
    with pytest.raises(InventoryError, match="nothing came through this pipe for"):
        select.load(tmp_path / "pipe")
    os.close(writer)


def cpu_of_a_chain(path: Path, length: int) -> float:
    """CPU seconds to load as many groups, each in the one before it; the best of
    three.
    """
    names = [f"g{number}" for number in range(length)]
    chain = [
        f"  {name}: {{children: [{below}]}}\n"
        for name, below in itertools.pairwise(names)
    ]
    path.write_text(
        f"hosts: {{h: }}\ngroups:\n{''.join(chain)}  {names[-1]}: {{hosts: [h]}}\n"
    )
    times = []
    for _ in range(3):
        begin = time.process_time()
        (host,) = select.load(path).hosts
        times.append(time.process_time() - begin)
    assert host.groups == tuple(names)
    return min(times)


def test_ten_times_the_groups_take_about_ten_times_the_time(tmp_path: Path) -> None:
    path = tmp_path / "inventory.yaml"
    assert cpu_of_a_chain(path, 3_000) < 30 * cpu_of_a_chain(path, 300)


def test_groups_that_multiply_their_hosts_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(select, "_MEMBERSHIP_LIMIT", 30)
    path = tmp_path / "inventory.yaml"
    path.write_text(
        "hosts: {'h[1-9]': }\ngroups:\n"
        "  a: {children: [b]}\n  b: {children: [c]}\n  c: {children: [d]}\n"
        "  d: {hosts: ['h*']}\n"
    )
    with pytest.raises(InventoryError, match=r":3: groups\.a: .* split the inventory"):
        select.load(path)
