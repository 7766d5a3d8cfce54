"""Compiles the agent on a host by one sh script on its stdin, or sends a finished one
that fits.
"""

import re
import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from fleet.agent.build import elf
from fleet.agent.build import toolchain as tc
from fleet.agent.build.on_controller import Built
from fleet.agent.build.systems import SYSTEMS, major_version
from fleet.errors import BuildError, DataError, DeployError, LinkError
from fleet.model import Agent, Compiler, Facts, Host
from fleet.remote.cancellation import Cancellation
from fleet.remote.connection import Connection
from fleet.remote.output import Completed
from fleet.remote.shell import assign_variables
from fleet.store.files import require_regular
from fleet.text import last_lines

# small boards need a while
BUILD_TIMEOUT_S = 300.0
VERSIONS_TIMEOUT_S = 30.0
PUT_TIMEOUT_S = 120.0
# stands in a file's name for the build id that only the binary itself can tell
PREBUILT = "0" * 16
_BUILD_ID = re.compile(r"[!-~]{1,64}")
_END_OF_FILE = "fleet-end-of-file"
_BUILD_FAILED = 93  # the build script's exit code if the compiler failed
_END_OF_ANSWER = "fleet-next-compiler"
_PLACED = "fleet-agent-placed "  # the build script prints it and the agent's name
_UNPACKED_HERE = "# The sources are unpacked here."


def build_on_host(
    connection: Connection,
    host: Host,
    facts: Facts,
    sources: tc.Sources,
    command: str,
    cancellation: Cancellation,
) -> Agent:
    """Compile the agent on the host unless it is there; leave no sources. command: the
    compiler's. Raises BuildError, DeployError.
    """
    toolchain = tc.host_toolchain(command, facts.target, host.toolchain.cflags)
    build = tc.build_id(sources, toolchain)
    name = tc.find_agent_of_build(build, facts.workdir_entries)
    place = "already on the host"
    if name is None:
        script = build_script(toolchain, sources, build, facts.workdir)
        done = _run_build_script(connection, host, command, script, cancellation)
        name = _find_built_agent(done, host, facts, command, build)
        place = f"built on the host with {_get_version(facts, command)}"
    return Agent(f"{facts.workdir}/{name}", build, facts.target, place)


def _find_built_agent(
    done: Completed, host: Host, facts: Facts, command: str, build: str
) -> str:
    """Return the name of the file that the build script placed in the workdir. Raises
    BuildError if the compiler failed, DeployError if no file was placed.
    """
    if done.exit_code == _BUILD_FAILED:
        raise BuildError(
            f"{host.name}: {command} on the host could not build the agent:\n     "
            f" {last_lines(done.stderr)}\nRepair the compiler there, name another"
            " (`toolchain: {cc: …}`), or set `build: controller`."
        )
    check_put(done, host, facts.workdir)
    # the last line is "fleet-agent-placed NAME", and NAME must be one of this build
    _, _, printed_name = done.stdout.decode("utf-8", "replace").rpartition(_PLACED)
    name = tc.find_agent_of_build(build, [printed_name.strip()])
    if name is None:
        raise DeployError(
            f"{host.name}: the host built the agent, but did not report its path."
        )
    return name


def _get_version(facts: Facts, command: str) -> str:
    """Return the version of a compiler of the host; its command if unknown."""
    for compiler in facts.compilers:
        if compiler.command == command:
            return compiler.version or command
    return command


def _run_build_script(
    connection: Connection,
    host: Host,
    command: str,
    script: bytes,
    cancellation: Cancellation,
) -> Completed:
    """Run the build script on the host. Raises Cancelled, and BuildError after
    BUILD_TIMEOUT_S seconds.
    """
    limit_s = BUILD_TIMEOUT_S
    began_s = time.monotonic()
    try:
        with connection.stream(
            "exec /bin/sh", idle_timeout_s=limit_s, limit_s=limit_s, stdin=script
        ) as stream:
            cancellation.stop_on_request(stream)
            lines = list(stream)
    except LinkError as err:
        if time.monotonic() < began_s + limit_s:
            raise
        raise BuildError(
            f"{host.name}: {command} on the host did not build the agent within"
            f" {limit_s:g} s and was ended. Set `build: controller`, `build: prebuilt`,"
            " or use a wheel with finished agents (`make wheel`): nothing is compiled"
            " there then. Or free the host from other work and run again."
        ) from err
    cancellation.raise_if_requested()
    return Completed(stream.exit_code or 0, b"\n".join(lines), stream.stderr)


def ask_versions(
    connection: Connection, compilers: Sequence[Compiler]
) -> tuple[Compiler, ...]:
    """Ask all compilers for --version at once; return those that answer, with the first
    line as version.
    """
    lines = ["LC_ALL=C; export LC_ALL"]
    for compiler in compilers:
        command = shlex.join(compiler.command.split())
        ask = f"({command} --version </dev/null 2>/dev/null | head -n 1)"
        lines.append(f"{ask}; echo {_END_OF_ANSWER}")
    done = connection.run("\n".join(lines), timeout_s=VERSIONS_TIMEOUT_S)
    answers = done.stdout.decode("utf-8", "replace").split(_END_OF_ANSWER)
    answering = list[Compiler]()
    # not strict: there is one part more, the text behind the last _END_OF_ANSWER
    for compiler, answer in zip(compilers, answers, strict=False):
        version = answer.strip()
        if version:
            answering.append(replace(compiler, version=version))
    return tuple(answering)


def build_script(
    toolchain: tc.Toolchain, sources: tc.Sources, build: str, workdir: str
) -> bytes:
    """Return sh text that unpacks the sources, compiles them and moves the agent into
    the workdir. It exits with _BUILD_FAILED if the compiler fails.
    """
    settings = {
        "WORKDIR": workdir,
        "BUILD": build,
        "NAME": tc.agent_file_name(build),
        "COMPILER": _render_compilation(toolchain, sources),
        # Patterns of the shell: HASH matches the 64 digits of a SHA-256. An agent's
        # file name has the first HASH_DIGITS of them, and REST matches the others.
        "HASH": "?" * 64,
        "REST": "?" * (64 - tc.HASH_DIGITS),
        "PLACED": _PLACED,
    }
    files = toolchain.files_to_compile(sources, build)
    return render_script("on_host.sh", settings, files)


def _render_compilation(toolchain: tc.Toolchain, sources: tc.Sources) -> str:
    """Return the sh command that compiles the agent by two compilers side by side: in
    folder `0` all files but the timed ones, in folder `1` the timed ones.
    """
    cc = shlex.join((*toolchain.command, *toolchain.cflags))
    merged_files = [f"../{name}" for name in toolchain.merge_untimed_files(sources)]
    timed_files = [f"../{name}" for name in toolchain.list_timed_files(sources)]
    compile_merged = (
        f"(cd 0 && {cc} {tc.FAST_COMPILE_FLAG} -I.. -c {' '.join(merged_files)})"
    )
    compile_timed = f"(cd 1 && {cc} -I.. -c {' '.join(timed_files)})"
    # sh links only if both compilers succeeded: `one` is the process ID of the first,
    # `two` the exit code of the second
    start_both = f"{compile_merged} & one=$!; {compile_timed}; two=$?"
    have_both_succeeded = "wait $one && [ $two = 0 ]"
    return f"{start_both}; {have_both_succeeded} && {cc} -o agent [01]/*.o"


def render_script(
    script: str, settings: Mapping[str, str], sources: tc.Sources, head: str = ""
) -> bytes:
    """Return a script of this folder, which first sets the variables in `settings` and
    runs the command `head`, and later unpacks the sources where it says so.
    """
    text = Path(__file__).with_name(script).read_text(encoding="utf-8")
    text = text.replace(_UNPACKED_HERE, _render_unpacking(sources))
    return f"{assign_variables(settings)}\n{head}\n{text}".encode()


def _render_unpacking(sources: tc.Sources) -> str:
    """Return sh text that writes the sources into the current folder: `cat > FILE` with
    the content as a here-document, up to the line _END_OF_FILE.
    """
    lines = []
    folders = {str(PurePosixPath(name).parent) for name in sources} - {"."}
    if folders:
        lines.append(f"mkdir {shlex.join(sorted(folders))} || exit 1")
    for name, content in sources.items():
        lines.append(f"cat > {shlex.quote(name)} <<'{_END_OF_FILE}' || exit 1")
        lines.append(content.decode().rstrip("\n"))
        lines.append(_END_OF_FILE)
    return "\n".join(lines)


def send_built(connection: Connection, host: Host, facts: Facts, built: Built) -> Agent:
    """Send a finished agent, unless it is already there. Raises BuildError,
    DeployError.
    """
    check_fit(built.binary, host, facts, built.toolchain.name)
    path = _put_unless_present(connection, host, facts, built.binary, built.build)
    return Agent(path, built.build, facts.target, f"built with {built.toolchain.name}")


def read_prebuilt(host: Host, facts: Facts) -> bytes:
    """Read the prebuilt agent that the inventory names. Raises BuildError if the host
    cannot run it.
    """
    binary_path = host.toolchain.binary
    if binary_path is None:
        raise BuildError(
            f"{host.name}: `build: prebuilt` needs `toolchain: {{binary: PATH}}` in the"
            " inventory."
        )
    path = Path(binary_path).expanduser()
    try:
        require_regular(path, "a file")
        binary = path.read_bytes()
    except OSError as err:
        problem = f"cannot read the prebuilt agent {binary_path}: {err.strerror or err}"
        raise BuildError(f"{host.name}: {problem}.") from err
    check_fit(binary, host, facts, binary_path)
    release = major_version(facts.kernel or host.os_release)
    if why := elf.explain_wrong_release(elf.read_elf(binary), facts.target, release):
        raise BuildError(
            f"{host.name}: the prebuilt agent {binary_path} cannot run on this host:"
            f" {why}. Name one that was built for this release."
        )
    return binary


@dataclass(frozen=True, slots=True)
class Preview:
    """What `deploy` would do, in words. path: the agent already on the host."""

    description: str
    path: str | None = None


def preview_agent_on_host(facts: Facts, agent_name: str | None) -> Preview | None:
    """Return the preview for an agent in the host's workdir; None without one."""
    if not agent_name:
        return None
    return Preview("is already on the host", f"{facts.workdir}/{agent_name}")


def send_prebuilt(connection: Connection, host: Host, facts: Facts) -> Agent:
    """Send the inventory's binary and ask it for its build ID. Raises BuildError,
    DeployError.
    """
    binary = read_prebuilt(host, facts)
    binary_path = host.toolchain.binary
    path = _put_unless_present(connection, host, facts, binary, PREBUILT)
    completed = connection.run(f"{shlex.quote(path)} --build-id </dev/null")
    build = completed.stdout.decode("utf-8", "replace").strip()
    if completed.exit_code != 0 or not _BUILD_ID.fullmatch(build):
        raise DeployError(
            f"{host.name}: {binary_path} is not a fleet agent, or does not run there"
            f" (exit code {completed.exit_code}):"
            f" {last_lines(completed.stderr or completed.stdout)}"
        )
    return Agent(path, build, facts.target, place=f"prebuilt {binary_path}")


def _put_unless_present(
    connection: Connection, host: Host, facts: Facts, binary: bytes, build: str
) -> str:
    """Write the agent to the host unless it is there; return its path.

    An agent gets its name by a rename once it is complete. Where a rename is not
    atomic, as on QNX, a file of that name may be incomplete even so: it is written
    again. build: the agent's build ID, or PREBUILT.
    """
    name = tc.agent_file_name(build, binary)
    path = f"{facts.workdir}/{name}"
    is_present = name in facts.workdir_entries
    if is_present and SYSTEMS[facts.target.os].atomic_rename:
        return path
    done = connection.put(binary, path, mode=0o700, timeout_s=PUT_TIMEOUT_S)
    check_put(done, host, facts.workdir)
    return path


def check_fit(binary: bytes, host: Host, facts: Facts, origin: str) -> None:
    """Raise BuildError unless the binary can run on the host. origin: where the binary
    comes from, for the message.
    """
    try:
        problem = elf.explain_mismatch(elf.read_elf(binary), facts.target, facts.libc)
    except DataError as err:
        problem = str(err)
    if problem is not None:
        raise BuildError(
            f"{host.name}: the agent from {origin} cannot run on this host: {problem}."
            " Build on the host (`build: host`) or name a fitting toolchain or binary"
            " in the inventory."
        )


def check_put(done: Completed, host: Host, workdir: str) -> None:
    """Raise DeployError if writing into the workdir failed."""
    if done.exit_code == 0:
        return
    remedy = "See that cat, wc, chmod and mv work there on the host's PATH"
    # "Limit exceeded" or "limit exceeded", as the shell has it
    if b"imit exceeded" in done.stderr:
        remedy = "Allow this account larger files there (`ulimit -f`)"
    elif any(sign in done.stderr for sign in (b"No space", b"quota")):
        remedy = "Free some space there"
    raise DeployError(
        f"{host.name}: cannot write the agent into {workdir} (exit code"
        f" {done.exit_code}):\n      {last_lines(done.stderr)}\n{remedy}, or set"
        " another `workdir` for this host in the inventory."
    )
