"""What leaves the house: a wheel and an sdist that measure without the checkout they
were built from.
"""

import platform
import re
import shutil
import subprocess
import sys
import zipfile
from contextlib import nullcontext
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import build_agents
import fleet
import release
from fleet.agent.build import elf
from tests import environments, needs
from tests.command import Fleet
from tests.hosts import odd

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[1]
AGENTS = "fleet/agent/source/build/"
SHIPPED = (f"linux-{platform.machine()}", "linux-s390x")
AGENT = {
    path.relative_to(ROOT / "agent").as_posix()
    for path in (ROOT / "agent").rglob("*.[ch]")
}


def run(
    *command: str | Path, cwd: Path, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def call(*command: str | Path, cwd: Path = ROOT) -> str:
    done = run(*command, cwd=cwd)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


def build(kind: str, source: Path, folder: Path) -> Path:
    """Build a "wheel" or an "sdist" of `source` with the locked backend, nothing
    downloaded.
    """
    call(
        sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", folder, cwd=source
    )
    (built,) = folder.iterdir()
    return built


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("wheel", ROOT, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked sdist."""
    archive = build("sdist", ROOT, tmp_path_factory.mktemp("sdist"))
    call("tar", "-xf", archive, "-C", archive.parent)
    return archive.with_name(archive.name.removesuffix(".tar.gz"))


@pytest.fixture(scope="module")
def built_agents(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The agents of two architectures, as `make agents` builds them."""
    needs.python_module("ziglang", "ziglang")
    folder = tmp_path_factory.mktemp("agents")
    build_agents.build(folder, SHIPPED)
    return folder


@pytest.fixture(scope="module")
def full_wheel(
    sdist: Path, built_agents: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A wheel as `make wheel` builds it, with the agents of two architectures."""
    source = tmp_path_factory.mktemp("source") / "corefleet"
    shutil.copytree(sdist, source)
    shutil.copytree(built_agents, source / "agent/build")
    (source / "build").mkdir()
    (source / "build/fleet.1").write_text(".TH FLEET 1\n")
    return build("wheel", source, source.with_name("dist"))


def install(wheel: Path, folder: Path) -> Path:
    """Install a wheel into a new environment in `folder`; return its bin folder.

    Third-party packages come from the environment of the tests; its editable install of
    ours does not come with them, since a .pth file found through a .pth file is not
    read.
    """
    bin_folder = environments.install_wheel(wheel, folder)
    (ours,) = (path for path in sys.path if path.endswith("site-packages"))
    pth = environments.find_site(folder) / "tests-environment.pth"
    pth.write_text(f"{ours}\n")
    return bin_folder


def members(wheel: Path) -> set[str]:
    """The names in a wheel, without what `make wheel` has left in this checkout."""
    with zipfile.ZipFile(wheel) as archive:
        return {
            name
            for name in archive.namelist()
            if not name.startswith(AGENTS) and ".data/" not in name
        }


def agents(wheel: Path) -> dict[str, bytes]:
    """The agents in a wheel, by the machine they are for."""
    with zipfile.ZipFile(wheel) as archive:
        binaries = [
            archive.read(name) for name in archive.namelist() if name.startswith(AGENTS)
        ]
    return {elf.read_elf(binary).machine: binary for binary in binaries}


def test_a_wheel_carries_the_agents_sources_also_from_the_sdist_and_nothing_but_the_package(
    wheel: Path, sdist: Path, tmp_path: Path
) -> None:
    names = members(wheel)
    assert {f"fleet/agent/source/{name}" for name in AGENT} <= names
    assert {name.partition("/")[0].partition("-")[0] for name in names} == {
        "fleet",
        "corefleet",
    }
    assert members(build("wheel", sdist, tmp_path)) == names


def test_an_index_takes_them_and_shows_a_page_whose_links_resolve(
    wheel: Path, sdist: Path
) -> None:
    needs.python_module("twine", "twine")
    (archive,) = sdist.parent.glob("*.tar.gz")
    call(sys.executable, "-m", "twine", "check", "--strict", wheel, archive)
    with zipfile.ZipFile(wheel) as files:
        (name,) = (name for name in files.namelist() if name.endswith("/METADATA"))
        page = files.read(name).decode()
    links = re.findall(r"\]\(([^)\s]+)\)", page)
    assert len(links) > 10
    assert all(link.startswith("https://") for link in links)


EXTRAS = {"compare": ["scipy"], "report": ["jinja2", "markupsafe", "matplotlib", "PIL"]}
COMMANDS = {  # of a package without extras; the extra that each needs
    **dict.fromkeys(
        ["hosts", "runs rome", "run -n rome", "show", "show rome", "show --csv"], ""
    ),
    **dict.fromkeys(
        [
            "export rome -F openmetrics",
            "show verona --ladder",
            "show summary:epyc-7742",
        ],
        "",
    ),
    "compare rome summary:rpi4-linux": "",
    **dict.fromkeys(
        ["compare rome milan", "compare lucca", "accept node6"],
        "compare",
    ),
    **dict.fromkeys(
        ["report rome", "report rome -o card.svg", "report rome -o site/"], "report"
    ),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_without_its_extra_names_it(command: str, made_lab: Path) -> None:
    missing = [library for libraries in EXTRAS.values() for library in libraries]
    code = (
        f"import sys; sys.modules |= dict.fromkeys({missing}); import fleet.cli;"
        " fleet.cli.main()"
    )
    done = run(sys.executable, "-c", code, *command.split(), cwd=made_lab)
    extra = COMMANDS[command]
    assert done.returncode == (14 if extra else 0), done.stderr
    assert f"'corefleet[{extra}]'" in done.stderr or not extra


MACOS = """
import fcntl, os, socket, sys
uname, control = os.uname, fcntl.fcntl
os.uname = lambda: os.uname_result(("Darwin", *uname()[1:]))
del os.memfd_create, os.sched_getaffinity, socket.TCP_USER_TIMEOUT, socket.TCP_QUICKACK
fcntl.F_GETPATH = 50
def read_path(handle, command, *rest):
    if command != fcntl.F_GETPATH:
        return control(handle, command, *rest)
    return os.fsencode(os.readlink(f"/proc/self/fd/{handle}")).ljust(1024, b"\\0")
fcntl.fcntl = read_path
del sys.argv[1:4]  # python -m fleet
import fleet.__main__
fleet.__main__.main()
"""


def test_a_controller_without_what_only_linux_has_measures_and_shows(
    tmp_path: Path,
) -> None:
    """Play a controller with macOS by taking away what Linux alone has; it was not
    tried on a Mac.
    """
    with Fleet(tmp_path) as fleet_command:
        fleet_command.inventory("hosts: {here: {via: local}}\n")
        for words in ("run -b clock --rounds 1", "show", "label here a=b", "verify"):
            process = fleet_command.start(
                *words.split(), prefix=(sys.executable, "-c", MACOS)
            )
            printed = process.communicate()
            assert process.returncode == 0, printed


def test_an_sdist_holds_no_results_no_environment_and_no_binary(sdist: Path) -> None:
    top = {path.name for path in sdist.iterdir()}
    assert not top & {".venv", ".git", "results", "build", "dist"}
    assert {
        path.relative_to(sdist / "agent").as_posix()
        for path in (sdist / "agent").rglob("*.[ch]")
    } == AGENT


def test_an_sdist_has_what_its_makefile_reads(sdist: Path) -> None:
    named = re.findall(
        r"[\w-]+\.(?:txt|py|toml|yaml)\b", (ROOT / "Makefile").read_text()
    )
    read = {name for name in named if (ROOT / name).exists()}
    assert "constraints-slow.txt" in read
    assert read <= {path.name for path in sdist.iterdir()}


def test_a_wheel_carries_the_notice_of_the_published_tables(wheel: Path) -> None:
    licensed = [name for name in members(wheel) if "/licenses/" in name]
    assert any(name.endswith("/NOTICE") for name in licensed)


def test_an_installed_wheel_starts_and_finds_its_own_sources_from_any_directory(
    wheel: Path, tmp_path: Path
) -> None:
    bin_folder = install(wheel, tmp_path / "installed")
    for name in ("fleet", "corefleet"):
        assert "run" in call(bin_folder / name, "--help", cwd=tmp_path)
    code = (
        "from fleet.agent.build import source; print(source.__file__,"
        " *source.read_sources(), sep='\\n')"
    )
    place, *names = call(bin_folder / "python", "-c", code, cwd=tmp_path).splitlines()
    assert Path(place).is_relative_to(bin_folder.parent)
    assert set(names) == AGENT


def test_an_editable_install_carries_no_copy_of_the_agent(tmp_path: Path) -> None:
    """A copy would be measured long after the checkout has changed."""
    code = (
        "import sys; from hatchling.build import build_editable;"
        " build_editable(sys.argv[1])"
    )
    call(sys.executable, "-c", code, tmp_path)
    (editable,) = tmp_path.iterdir()
    assert not {
        name for name in members(editable) if name.endswith((".c", ".h", ".py"))
    }


def test_a_full_wheel_carries_agents_that_are_the_same_bytes_every_time(
    full_wheel: Path, wheel: Path, tmp_path: Path
) -> None:
    shipped = agents(full_wheel)
    assert {f"linux-{machine}" for machine in shipped} == set(SHIPPED)
    assert members(full_wheel) == members(wheel)
    build_agents.build(tmp_path, SHIPPED)
    again = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert sorted(again.values()) == sorted(shipped.values())
    assert all(elf.read_elf(binary).interpreter is None for binary in again.values()), (
        "static"
    )
    assert all(
        name.removeprefix("fleet-agent-").encode() in binary
        for name, binary in again.items()
    )


def test_a_release_names_its_agents_and_sums_its_files(
    tmp_path: Path, wheel: Path, built_agents: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(release, "BUILT", built_agents)
    dist = tmp_path / "dist"
    dist.mkdir()
    shutil.copy(wheel, dist)
    with pytest.raises(SystemExit, match="2 of 8 agents"):
        release.copy_agents(dist)
    release.write_checksums(dist)
    call("sha256sum", "--check", "--strict", "SHA256SUMS", cwd=dist)
    names = {line.split()[1] for line in (dist / "SHA256SUMS").read_text().splitlines()}
    assert names == {
        wheel.name,
        *(f"fleet-agent-{fleet.__version__}-{target}" for target in SHIPPED),
    }


def test_a_release_needs_an_address_of_the_project(tmp_path: Path) -> None:
    pyproject = tmp_path / "pyproject.toml"
    for address in ("https://forge.invalid/corefleet", "https://example.org/corefleet"):
        pyproject.write_text(f'[project.urls]\nSource = "{address}"\n')
        refused = pytest.raises(SystemExit, match="stands for an address")
        with refused if "example." in address else nullcontext():
            release.require_address(pyproject)


def test_an_installed_full_wheel_measures_where_there_is_no_compiler(
    full_wheel: Path, tmp_path: Path
) -> None:
    bin_folder = install(full_wheel, tmp_path / "environment")
    environment = {
        "PATH": str(odd.all_but_compilers(tmp_path / "bin")),
        "HOME": str(tmp_path),
        "FLEET_AGENT_LOCK": str(
            tmp_path / "agent.lock"
        ),  # others measure here meanwhile
    }
    done = run(
        bin_folder / "fleet", "run", "-b", "clock", cwd=tmp_path, env=environment
    )
    assert done.returncode == 0, done.stderr
    assert (bin_folder.parent / "share/man/man1/fleet.1").is_file()
    (row,) = pq.read_table(next((tmp_path / "results/runs").iterdir())).to_pylist()
    assert (
        row["agent_place"] == f"built with zig, shipped with fleet {fleet.__version__}"
    )
