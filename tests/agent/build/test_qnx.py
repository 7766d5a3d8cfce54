"""Getting an agent onto a QNX host: our stand-in SDP, its qcc and real files. The host
is this machine.
"""

import hashlib
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from fleet.agent import deploy as deploying
from fleet.agent.build import elf, on_host, qnx, systems
from fleet.agent.build import toolchain as tc
from fleet.agent.build.on_controller import Builder
from fleet.agent.deploy import deploy
from fleet.errors import BuildError, DeployError, UnreachableError
from fleet.model import Agent, BuildPlace, Facts, Host, RequestedToolchain, Target, Via
from fleet.remote.connection import Connection
from tests import needs
from tests.agent.build.test_elf import headers
from tests.agent.test_deploy import Deployer, read_build_id, script
from tests.hosts.qnx import sdp as standin
from tests.shared import local_connection

BOARD = Host(name="board", address="localhost", via=Via.LOCAL)
BUILDER = Host(name="builder", address="localhost", via=Via.LOCAL)
LOADER = {"x86_64": ["/lib64/ld-linux-x86-64.so.2"]}
slow = pytest.mark.slow


def preview(host: Host, facts: Facts) -> on_host.Preview:
    return deploying.preview(host, facts, Builder())


class QnxDeployer(Deployer):
    """Deploys to what passes for a QNX host, with one builder."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.builder = Builder(self.cache)

    def facts(
        self,
        *compilers: str,
        kernel: str | None = "8.0.0",
        arch: str = "x86_64",
        **_: object,
    ) -> Facts:
        return replace(super().facts(*compilers, kernel=kernel), os="qnx", arch=arch)

    def __call__(self, host: Host, facts: Facts | None = None) -> Agent:
        with local_connection(host) as connection:
            return deploy(
                connection, host, facts or self.facts(), self.builder, self.notes.append
            )


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home without any SDP, in an environment without one."""
    for name in ("QNX_HOST", "QNX_TARGET"):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    return folder


@pytest.fixture
def deployer(tmp_path: Path, home: Path) -> QnxDeployer:
    needs.program("gcc", "gcc")
    assert home.is_dir()
    return QnxDeployer(tmp_path)


def make_toolchain(**fields: str) -> RequestedToolchain:
    return RequestedToolchain(cflags=("-O0",), **fields)  # type: ignore[arg-type]


def build_id(agent: Agent) -> str:
    return read_build_id(agent.path, *LOADER["x86_64"])


# ---- an SDP on the controller
# -----------------------------------------------------------------------------


@slow
def test_an_sdp_of_the_inventory_builds_a_binary_for_qnx(
    deployer: QnxDeployer, tmp_path: Path
) -> None:
    platform = standin.install(tmp_path / "sdk")
    agent = deployer(replace(BOARD, toolchain=make_toolchain(sdp=str(platform))))
    assert agent.place == f"built with {platform / standin.QCC} (QNX 8)"
    assert build_id(agent) == agent.build
    assert (
        elf.read_elf(Path(agent.path).read_bytes()).interpreter
        == "/usr/lib/ldqnx-64.so.2"
    )
    assert deployer.notes == []


@slow
def test_it_is_built_once_for_each_version_and_target_however_many_hosts(
    deployer: QnxDeployer, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs.program("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu")
    counted = home / "compilations"
    for folder, release in (("qnx800", 8), ("qnx710", 7)):
        platform = standin.install(home / folder, release)
        qcc = platform / standin.QCC
        qcc.rename(qcc.with_name("real"))
        counts = f'case "$*" in -V | *" -c "*) ;; *) echo {release} >>{counted} ;; esac'
        script(qcc, f'{counts}\nexec "${{0%/*}}/real" "$@"')
    monkeypatch.setenv("PATH", os.environ["PATH"])
    board = replace(BOARD, toolchain=make_toolchain())
    agents = {}
    for kernel, arch in (
        ("8.0.0", "x86_64"),
        ("7.1.0", "x86_64"),
        ("8.0.3", "x86_64"),
        ("8.0.0", "aarch64"),
    ):
        agents[kernel, arch] = deployer(board, deployer.facts(kernel=kernel, arch=arch))
    assert sorted(counted.read_text().split()) == ["7", "8", "8"]
    assert len({agent.build for agent in agents.values()}) == 3
    assert agents["8.0.0", "x86_64"] == agents["8.0.3", "x86_64"]


@slow
def test_a_host_that_hides_its_version_gets_what_there_is_and_a_note(
    deployer: QnxDeployer, home: Path
) -> None:
    standin.install(home / "qnx710", 7)
    agent = deployer(
        replace(BOARD, toolchain=make_toolchain()), deployer.facts(kernel=None)
    )
    assert agent.place.endswith("(QNX 7)")
    (note,) = deployer.notes
    assert note.startswith(
        "board: the host does not report its QNX version; the agent was built with /"
    )


@pytest.mark.parametrize(
    ("release", "found"), [("8.0", "QNX 8"), ("8", "QNX 8"), ("7.1", "QNX 7")]
)
def test_a_release_of_the_inventory_is_taken_where_the_host_tells_none(
    deployer: QnxDeployer, home: Path, release: str, found: str
) -> None:
    for folder, major in (("qnx710", 7), ("qnx800", 8)):
        standin.install(home / folder, major)
    host = replace(BOARD, os="qnx", os_release=release)
    assert found in preview(host, deployer.facts(kernel=None)).description


def test_a_host_that_tells_another_release_than_the_inventory_is_refused(
    deployer: QnxDeployer,
) -> None:
    for release in ("7.1", "8.1", "8.0.0.1"):
        host = replace(BOARD, os="qnx", os_release=release)
        with pytest.raises(
            BuildError,
            match=f"`os_release: {release}` in the inventory, but .* QNX 8.0.0",
        ):
            deployer(host)
        with pytest.raises(BuildError, match="Correct the entry"):
            preview(host, deployer.facts())


def test_a_release_that_only_the_inventory_tells_is_named_where_nothing_builds(
    deployer: QnxDeployer,
) -> None:
    with pytest.raises(BuildError, match=r"\(QNX 7\.1\)(?s:.*)an SDP for QNX 7 "):
        deployer(
            replace(BOARD, os="qnx", os_release="7.1"), deployer.facts(kernel=None)
        )


def test_the_sdp_is_looked_for_by_the_environment_then_at_home_and_must_be_of_the_hosts_version(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_home = standin.install(home / "qnx710", 7)
    assert (
        qnx.find_sdp(None, 7)
        == qnx.find_sdp(None, None)
        == (at_home / standin.HOST, at_home / "target/qnx7")
    )
    with pytest.raises(BuildError, match=r"~/qnx710: is for QNX 7, the host has QNX 8"):
        qnx.find_sdp(None, 8)
    elsewhere = standin.install(tmp_path / "sdk", 8)
    for name, value in standin.environment(elsewhere).items():
        monkeypatch.setenv(name, value)
    assert qnx.find_sdp(None, 8)[0] == elsewhere / standin.HOST
    assert qnx.find_sdp(None, 7)[0] == at_home / standin.HOST
    with pytest.raises(BuildError, match=r"sdp: /no/such}`: not there"):
        qnx.find_sdp("/no/such", 8)


def test_qcc_gets_the_environment_of_its_sdp_and_the_licence_variables(
    home: Path, monkeypatch: pytest.MonkeyPatch, deployer: QnxDeployer
) -> None:
    platform = standin.install(home / "qnx800")
    qcc = platform / standin.QCC
    script(qcc, "echo gcc_ntox86_64; env >&2; exit 1")
    monkeypatch.setenv("QNXLM_LICENSE_FILE", "27000@licences")
    seen = home / "seen"
    script(
        qcc, f'[ "$1" != -V ] || {{ echo gcc_ntox86_64; exit; }}; env >{seen}; exit 1'
    )
    with pytest.raises(BuildError):
        deployer(BOARD)
    variables = dict(
        line.split("=", 1) for line in seen.read_text().splitlines() if "=" in line
    )
    assert variables["QNX_HOST"] == str(platform / standin.HOST)
    assert variables["QNX_TARGET"] == str(platform / "target/qnx")
    assert variables["PATH"].startswith(f"{platform / standin.HOST}/usr/bin:")
    assert variables["QNXLM_LICENSE_FILE"] == "27000@licences"
    assert variables["QNX_CONFIGURATION_EXCLUSIVE"] == f"{home}/.qnx"
    assert variables["HOME"] == str(home)


def test_a_missing_licence_is_told_in_its_own_words_and_only_tried_once(
    deployer: QnxDeployer, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    standin.install(home / "qnx800")
    monkeypatch.setenv("QNX_STANDIN_NO_LICENSE", "1")
    words = (
        "Unable to obtain a license for the requested feature.\n"
        f"      License file(s): {home}/.qnx/license/licenses"
    )
    for _ in range(2):
        with pytest.raises(BuildError) as failure:
            deployer(BOARD)
        assert words in str(failure.value)
        monkeypatch.delenv("QNX_STANDIN_NO_LICENSE", raising=False)


def test_a_variant_the_sdp_has_not_is_found_out_before_compiling(
    deployer: QnxDeployer, home: Path
) -> None:
    platform = standin.install(home / "qnx800")
    script(
        platform / standin.QCC,
        "[ $1 = -V ] && echo 12.2.0,gcc_ntoaarch64le && exit; exit 7",
    )
    with pytest.raises(
        BuildError,
        match=r"`qcc -V` does not list gcc_ntox86_64: 12.2.0,gcc_ntoaarch64le",
    ):
        deployer(BOARD)


# ---- a compiler on the host
# -------------------------------------------------------------------------------


def test_a_compiler_counts_only_if_its_program_runs(
    deployer: QnxDeployer, tmp_path: Path
) -> None:
    headless = script(
        tmp_path / "headless", "echo 'pthread.h: No such file' >&2; exit 1"
    )
    foreign = script(
        tmp_path / "foreign",
        'shift; echo "not for this machine" >"$1"; chmod +x "$1"; exit 0',
    )
    host = replace(BOARD, build=BuildPlace.HOST)
    with pytest.raises(
        BuildError,
        match=r"(?s)none of .*headless, .*foreign made a program that runs there",
    ):
        deployer(host, deployer.facts(headless, foreign))
    assert os.listdir(deployer.workdir) == []  # noqa: PTH208 - nothing is left behind


@slow
def test_the_first_compiler_that_proves_itself_builds_there_and_the_second_time_nothing(
    deployer: QnxDeployer, tmp_path: Path
) -> None:
    platform = standin.install(tmp_path / "sdk")
    settings = {
        **standin.environment(platform),
        "QNX_STANDIN_INTERPRETER": LOADER["x86_64"][0],
    }
    broken = script(tmp_path / "broken", "exit 1")
    words = " ".join(f"{name}={value}" for name, value in settings.items())
    clang = script(tmp_path / "clang", f'{words} {platform / standin.QCC} "$@"')
    host = replace(BOARD, toolchain=make_toolchain())
    agent = deployer(host, deployer.facts(broken, clang))
    assert agent.place == f"built on the host with {clang} 1.0"
    content = hashlib.sha256(Path(agent.path).read_bytes()).hexdigest()
    assert os.listdir(deployer.workdir) == [f"fleet-agent-{agent.build}-{content[:16]}"]  # noqa: PTH208
    assert deployer(host, deployer.facts(broken, clang)).place == "already on the host"
    assert preview(host, deployer.facts(clang)).description == "is already on the host"


# ---- a build host
# -----------------------------------------------------------------------------------------


@slow
def test_a_build_host_builds_where_the_controller_has_no_sdp(
    deployer: QnxDeployer, home: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "there"
    standin.install(folder / "qnx800")
    builder = replace(BUILDER, env={"HOME": str(folder), "TMPDIR": str(folder)})
    host = replace(
        BOARD, toolchain=make_toolchain(build_host="builder"), build_host=builder
    )
    agent = deployer(host)
    assert agent.place == "built with qcc on the build host builder (QNX 8)"
    assert build_id(agent) == agent.build
    assert [path.name for path in folder.iterdir()] == ["qnx800"]
    build = preview(host, deployer.facts())
    assert (
        build.description
        == "would be built with qcc on the build host builder and sent"
    )


@pytest.mark.parametrize(
    ("named", "words"),
    [
        (None, r"Looked at QNX_HOST and QNX_TARGET; .*/there/qnx800 .*/there/qnx710"),
        ("/opt/sdk", "Looked at /opt/sdk"),
    ],
)
def test_a_build_host_without_an_sdp_says_where_it_looked(
    deployer: QnxDeployer, tmp_path: Path, named: str | None, words: str
) -> None:
    folder = tmp_path / "there"
    standin.install(folder / "qnx710", 7)
    builder = replace(
        BUILDER, env={"HOME": str(folder)}, toolchain=RequestedToolchain(sdp=named)
    )
    host = replace(BOARD, build=BuildPlace.BUILD_HOST, build_host=builder)
    with pytest.raises(BuildError, match=f"no SDP for QNX 8 there. {words}"):
        deployer(host)


def test_a_build_host_that_cannot_be_reached_costs_only_its_way(
    deployer: QnxDeployer,
) -> None:
    def unreachable(host: Host) -> Connection:
        raise UnreachableError(f"{host.name}: nobody answers.")

    deployer.builder = Builder(deployer.cache, unreachable)
    with pytest.raises(
        BuildError,
        match=r"(?s)builder: nobody answers.*a prebuilt binary: no `toolchain",
    ):
        deployer(replace(BOARD, build_host=BUILDER))


# ---- which way, and none
# ----------------------------------------------------------------------------------


@slow
def test_what_was_set_up_and_failed_is_told_when_another_way_is_taken(
    deployer: QnxDeployer, home: Path, tmp_path: Path
) -> None:
    good = standin.install(tmp_path / "sdk")
    binary = Path(
        deployer(replace(BOARD, toolchain=make_toolchain(sdp=str(good)))).path
    )
    prebuilt = binary.rename(tmp_path / "prebuilt")
    platform = standin.install(home / "qnx800")
    script(
        platform / standin.QCC,
        "echo 'no licence today' >&2; echo gcc_ntox86_64; [ $1 = -V ]",
    )
    host = replace(BOARD, toolchain=make_toolchain(binary=str(prebuilt)))
    with pytest.raises(
        DeployError, match="does not run there"
    ):  # for want of QNX's interpreter: it was tried
        deployer(host)
    (note,) = deployer.notes
    assert "no licence today" in note
    assert preview(host, deployer.facts()).description.startswith(
        f"would be built with {platform / standin.QCC}"
    )


@pytest.mark.parametrize(
    ("number", "kernel", "words"),
    [
        (5, "8.0.0", "it needs libc.so.5, so it is for QNX 7; the host has QNX 8"),
        (6, "7.1.0", "it needs libc.so.6, so it is for QNX 8; the host has QNX 7"),
        (6, "8.0.0", None),
        (5, "7.1.0", None),
        (6, None, None),
    ],
)
def test_a_prebuilt_agent_for_another_release_never_travels(
    deployer: QnxDeployer,
    tmp_path: Path,
    number: int,
    kernel: str | None,
    words: str | None,
) -> None:
    binary = tmp_path / "prebuilt"
    binary.write_bytes(
        headers(62, 64, "<", b"/usr/lib/ldqnx-64.so.2\0") + b"\0libc.so.%d\0" % number
    )
    host = replace(
        BOARD, build=BuildPlace.PREBUILT, toolchain=make_toolchain(binary=str(binary))
    )
    facts = deployer.facts(kernel=kernel)
    if words is None:
        assert preview(host, facts).description == f"would be the prebuilt {binary}"
        return
    with pytest.raises(BuildError, match=words):
        deployer(host, facts)
    assert list(deployer.workdir.iterdir()) == []


def test_none_of_the_four_ways_is_one_message_that_says_where_we_looked(
    deployer: QnxDeployer,
) -> None:
    with pytest.raises(BuildError) as failure:
        deployer(BOARD)
    assert (
        str(failure.value)
        == "board: no agent for qnx-x86_64 (QNX 8.0.0). Looked for:\n  - a compiler on"
        " the host: none of clang, gcc, cc, qcc answered there\n  - an SDP on the"
        " controller: QNX_HOST and QNX_TARGET in the environment: not there;"
        " ~/qnx800: not there; ~/qnx710: not there; /opt/qnx800: not there;"
        " /opt/qnx710: not there\n  - a build host: no `toolchain: {build_host:"
        " NAME}`\n  - a prebuilt binary: no `toolchain: {binary: PATH}`\nInstall an"
        " SDP for QNX 8 in one of these places, or name an SDP, a build host or a"
        " prebuilt agent for this host in the inventory."
    )
    with pytest.raises(BuildError, match="Looked for"):
        preview(BOARD, deployer.facts())


def test_check_previews_each_place(deployer: QnxDeployer, home: Path) -> None:
    facts = deployer.facts("clang")
    assert (
        preview(BOARD, facts).description
        == "would be built on the host with clang, if that proves to work"
    )
    platform = standin.install(home / "qnx800")
    expected = f"would be built with {platform / standin.QCC} (QNX 8) and sent"
    assert preview(BOARD, deployer.facts()).description == expected
    assert (
        preview(replace(BOARD, build=BuildPlace.CONTROLLER), facts).description
        == expected
    )


def test_only_what_is_for_qnx_travels_to_qnx_and_vice_versa(
    deployer: QnxDeployer, tmp_path: Path
) -> None:
    (tmp_path / "m.c").write_text("int main(void) { return 0; }\n")
    gcc = needs.program("gcc", "gcc")
    subprocess.run([gcc, "-o", "m", "m.c"], cwd=tmp_path, check=True)
    host = replace(
        BOARD,
        build=BuildPlace.PREBUILT,
        toolchain=RequestedToolchain(binary=str(tmp_path / "m")),
    )
    with pytest.raises(BuildError, match="it is not for QNX: its interpreter is /lib"):
        deployer(host)
    linux = Target("linux", "x86_64")
    board = Target("qnx", "x86_64")
    target = elf.Elf("x86_64", "/usr/lib/ldqnx-64.so.2", None)
    assert elf.explain_mismatch(target, board, None) is None
    assert "it is for QNX" in str(elf.explain_mismatch(target, linux, None))
    assert "statically" in str(
        elf.explain_mismatch(elf.Elf("x86_64", None, None), board, None)
    )
    assert "it is for x86_64" in str(
        elf.explain_mismatch(target, Target("qnx", "aarch64"), None)
    )


def test_a_build_host_is_no_way_for_linux(deployer: QnxDeployer) -> None:
    facts = replace(deployer.facts("cc"), os="linux")
    for ask in (lambda host: deployer(host, facts), lambda host: preview(host, facts)):
        with pytest.raises(BuildError, match="is for QNX hosts"):
            ask(replace(BOARD, build=BuildPlace.BUILD_HOST))


# ---- the pure parts
# ---------------------------------------------------------------------------------------


def test_flags_for_qnx_ask_for_its_names_and_link_nothing_it_has_not() -> None:
    target = Target("qnx", "aarch64")
    for toolchain in (
        tc.host_toolchain("clang", target),
        qnx.build_host_toolchain(BUILDER, target, 8, ()),
        qnx.sdp_toolchain(Path("/sdk/host"), Path("/sdk/target/qnx"), target),
    ):
        assert "-D_QNX_SOURCE" in toolchain.cflags
        assert not {"-pthread", "-lpthread", "-lrt", "-static"} & set(toolchain.cflags)


@pytest.mark.parametrize(
    ("release", "found"), [("8.0.0", 8), ("7.1.0", 7), (None, None), ("unknown", None)]
)
def test_the_major_version_is_read_from_the_release(
    release: str | None, found: int | None
) -> None:
    assert systems.major_version(release) == found
