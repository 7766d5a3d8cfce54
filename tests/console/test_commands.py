"""What a person types: help in groups, suggestions once, the version, an option that
need not be given.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fleet.cli.app import app
from fleet.cli.plan_options import PANELS
from fleet.store import Store
from tests import builders
from tests.command import Fleet


def print_help(command: str, option: str = "--help") -> str:
    return CliRunner().invoke(app, [command, option]).output


def titles(text: str) -> list[str]:
    """The headings of a command's help."""
    return re.findall(r"^([A-Z][a-z ]+):$", text, re.MULTILINE)


def test_the_help_of_run_lists_options_by_what_they_are_for() -> None:
    text = print_help("run")
    assert titles(text) == ["Arguments", *PANELS, "Options"]
    assert titles(print_help("run", "--help-all")) == [
        "Arguments",
        *PANELS,
        "Where",
        "Options",
        "Benchmarks",
    ]
    much = text.partition("How much:")[2].partition("\nHow to measure:")[0]
    assert "--rounds" in much
    assert "--governor" not in much
    assert (
        "--counters"
        in text.partition("What to measure:")[2].partition("\nHow much:")[0]
    )


def test_the_help_of_run_lists_what_people_use_and_says_where_the_rest_is() -> None:
    usual = print_help("run")
    complete = print_help("run", "--help-all")
    assert len(re.findall(r"^  (?:-\w, )?--", usual, re.MULTILINE)) <= 25
    assert "--plan" not in usual
    assert "--help-all" in usual
    assert set(usual.split()) < set(complete.split())
    rest = {f"--{word}" for word in ("plan", "threads", "preset", "shard", "dask")}
    assert rest <= set(complete.split()) - set(usual.split())


@pytest.mark.parametrize("command", ["run", "show", "resume"])
def test_help_is_the_last_option(command: str) -> None:
    assert re.search(
        r"\n  -h, --help +Show this message and exit.\n\Z", print_help(command)
    )
    assert print_help(command, "-h") == print_help(command)


@pytest.mark.parametrize("command", ["show", "hosts", "verify"])
def test_the_help_of_a_short_command_is_one_list(command: str) -> None:
    assert titles(print_help(command))[-1:] == ["Options"]
    assert not {*PANELS} & {*titles(print_help(command))}


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["shwo"], "Did you mean 'show'?"),
        (["run", "--ordered"], "a value of --pairs."),
        (["run", "--fixed"], "a value of --line."),
        (["run", "--precison"], "--precision"),
    ],
)
def test_what_was_meant_is_said_once(
    words: list[str], meant: str, tmp_path: Path
) -> None:
    with Fleet(tmp_path) as fleet:
        done = fleet(*words)
    assert done.exit_code == 2, done.stderr
    assert done.stderr.count(meant) == 1, done.stderr


def test_the_version_has_a_short_option(tmp_path: Path) -> None:
    with Fleet(tmp_path) as fleet:
        assert fleet("-V").stdout == fleet("--version").stdout


def list_hosts(fleet: Fleet, *words: str) -> list[str]:
    return [host["name"] for host in fleet("hosts", "--json", *words).json]


def test_a_limit_keeps_those_of_the_selected_hosts_that_it_selects(
    tmp_path: Path,
) -> None:
    with Fleet(tmp_path) as fleet:
        fleet.inventory(
            "hosts: {rome: {labels: {rack: b2}}, milan: {}, 'web[1-3]': {}}\n"
            "groups: {italy: {hosts: [rome, milan]}}\n"
        )
        assert list_hosts(fleet, "-l", "italy") == ["rome", "milan"]
        assert list_hosts(fleet, "italy", "--limit", "rack=b2") == ["rome"]
        assert list_hosts(fleet, "-l", "web[1,3],italy,!milan") == [
            "rome",
            "web1",
            "web3",
        ]
        assert list_hosts(fleet, "italy,web2", "-l", "rome", "-l", "web*") == [
            "rome",
            "web2",
        ]
        nothing = fleet("hosts", "italy", "-l", "web1")
        assert nothing.exit_code == 2
        assert "--limit web1: leaves none" in nothing.stderr
        assert (
            "no host or group is called 'itly'"
            in fleet("run", "-n", "-l", "itly").stderr
        )


def test_every_option_has_an_environment_variable(tmp_path: Path) -> None:
    variables = {
        "FLEET_RUN_ROUNDS": "7",
        "FLEET_RUN_PLAN": "separation_bytes=64 seed=3",
        "FLEET_RUN_DRY_RUN": "1",
    }
    with Fleet(tmp_path, variables) as fleet:
        fleet.inventory("hosts: {rome: {}}\n")
        (planned,) = fleet("run", "--json").json
        assert planned["plan"]["rounds"] == 7
        assert planned["plan"]["separation_bytes"] == 64
        assert planned["plan"]["seed"] == 3
        (planned,) = fleet("run", "--json", "--rounds", "8").json
        assert planned["plan"]["rounds"] == 8
        fleet.environment["FLEET_RUN_ROUNDS"] = "few"
        assert "--rounds few: must be" in (done := fleet("run")).stderr
        assert done.exit_code == 2
        (tmp_path / "other.yaml").write_text("hosts: {pisa: {}, siena: {}}\n")
        fleet.environment |= {
            "FLEET_HOSTS_INVENTORY": "other.yaml",
            "FLEET_HOSTS_LIMIT": "siena",
        }
        assert list_hosts(fleet) == ["siena"]
        fleet.environment["FLEET_HOSTS_LIMITS"] = "pisa"
        mistaken = fleet("hosts")
        assert mistaken.exit_code == 2
        assert "FLEET_HOSTS_LIMITS is set, and `fleet hosts` has" in mistaken.stderr
        assert "did you mean 'FLEET_HOSTS_LIMIT'" in mistaken.stderr
        assert fleet("hosts", "--help").exit_code == 0


def test_an_inventory_sets_defaults_of_options(tmp_path: Path) -> None:
    run = builders.a_run()
    Store(tmp_path / "data").publish(run, builders.make_bursts(run))
    with Fleet(tmp_path) as fleet:
        fleet.inventory("fleet: {results: data, quiet: on}\nhosts: {rome: {}}\n")
        assert [stored["run_id"] for stored in fleet("runs", "--json").json] == [
            run.run_id
        ]
        (tmp_path / "elsewhere").mkdir()
        assert "No runs are stored here" in fleet("runs", "-r", "elsewhere").stdout
        fleet.inventory(
            f"fleet: {{results: data}}\nhosts: {{{run.host.name}: {{via: local}}}}\n"
        )
        assert "leaves no host" in fleet("check", "age>9999d").stderr
        fleet.inventory("hosts: {rome: {}}\nfleet: {paralel: 8, lock: never}\n")
        refused = fleet("run", "--dry-run")
        assert refused.exit_code == 2
        assert (
            "inventory.yaml:2: fleet.paralel: unknown key; did you mean 'parallel'?"
            in refused.stderr
        )
        assert "inventory.yaml:2: fleet.lock: must be" in refused.stderr


@pytest.mark.parametrize(
    "command",
    [
        *("runs", "show", "show --pair 0-1", "report", "compare a", "compare a b"),
        *("accept", "export", "verify", "label a x=1", "withdraw", "resume"),
        *("prune --older 9d", "hosts", "clean --dry-run"),
    ],
)
def test_a_root_that_does_not_exist_is_named(command: str, tmp_path: Path) -> None:
    with Fleet(tmp_path) as fleet:
        refused = fleet(*command.split(), "-r", "typo")
    assert refused.exit_code == 2
    assert refused.stdout == ""
    assert refused.stderr.startswith("fleet: typo: there is no such folder.")
    assert not (tmp_path / "typo").exists()


def test_a_root_that_the_first_run_makes_need_not_exist(tmp_path: Path) -> None:
    with Fleet(tmp_path) as fleet:
        assert fleet("run", "--dry-run", "-r", "new").exit_code == 0
        fleet.inventory("hosts: {a: {}}\nfleet: {results: new}\n")
        assert fleet("hosts").exit_code == 0
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("command", ["run", "check", "report", "export"])
def test_help_breaks_no_hyphenated_word(command: str) -> None:
    assert not re.findall(r"\w-$", print_help(command), re.MULTILINE)


def test_a_dry_run_of_hosts_not_measured_loads_neither_tables_nor_drawing(
    tmp_path: Path,
) -> None:
    (tmp_path / "inventory.yaml").write_text("hosts: {one: {address: one.invalid}}\n")
    code = (
        "import sys, fleet.cli\nsys.argv = ['fleet', 'run', '--dry-run']\ntry:"
        " fleet.cli.main()\nfinally: print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=True,
    )
    assert "Measuring takes about" in done.stdout
    loaded = set(done.stderr.split())
    assert "fleet.console.dry_run" in loaded
    assert not {"pandas", "numpy", "pyarrow", "rich"} & loaded


@pytest.mark.parametrize(
    ("words", "is_long"),
    [
        (("--cpus", "0-255"), False),
        (("--cpus", "0-599"), True),
        (("--cpus", "0-599", "--rounds", "1"), False),
    ],
)
def test_a_dry_run_says_what_is_quicker_than_ten_minutes(
    tmp_path: Path, words: tuple[str, ...], is_long: bool
) -> None:
    (tmp_path / "inventory.yaml").write_text(
        "hosts: {one: {address: one.invalid}, two: {address: two.invalid}}\n"
    )
    with Fleet(tmp_path, {}) as fleet:
        planned = fleet("run", "--dry-run", *words).stdout
    assert planned.count("Quicker: one CPU of each core (--cpus cores)") == is_long


def test_a_dry_run_of_a_kind_of_core_has_no_seconds_as_json(tmp_path: Path) -> None:
    (tmp_path / "inventory.yaml").write_text("hosts: {one: {address: one.invalid}}\n")
    with Fleet(tmp_path, {}) as fleet:
        (planned,) = fleet("run", "--dry-run", "--json", "-c", "P").json
    assert planned["seconds"] is None
    assert planned["plan"]["cpus"] == "P"


def test_a_group_of_the_inventory_selects_stored_runs(made_lab: Path) -> None:
    with Fleet(made_lab, {"COLUMNS": "80"}) as fleet:
        selected = [
            fleet("runs", *words, "--json").json
            for words in (["nodes"], ["kind=node"], ["!nodes"])
        ]
    assert selected[0] == selected[1]
    assert len(selected[0]) == 36
    assert not any(run["host_name"].startswith("node") for run in selected[2])
