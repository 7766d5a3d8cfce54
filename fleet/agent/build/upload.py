"""Sends a finished agent to a host: only one that fits, never over another. Used by `deploy` and `qnx`."""

import re
import shlex
from pathlib import Path

from fleet.agent.build import elf
from fleet.agent.build import toolchain as tc
from fleet.agent.build.on_controller import Built
from fleet.agent.build.systems import SYSTEMS, major_version
from fleet.errors import BuildError, DeployError
from fleet.model import Agent, Facts, Host
from fleet.remote.connection import Connection
from fleet.remote.output import Completed
from fleet.text import last_lines

PUT_TIMEOUT_S = 120.0
PREBUILT = "0" * 16  # stands in a file's name for the build id that only the binary itself can tell
_BUILD = re.compile(r"[!-~]{1,64}")


def send_built(connection: Connection, host: Host, facts: Facts, built: Built) -> Agent:
    """Send a finished agent, unless it is already there. Raises BuildError, DeployError."""
    check_fit(built.binary, host, facts, built.toolchain.name)
    path = f"{facts.workdir}/{tc.agent_file_name(built.build, built.binary)}"
    _put_unless_present(connection, host, facts, built.binary, path)
    return Agent(path, built.build, facts.target, f"built with {built.toolchain.name}")


def read_prebuilt(host: Host, facts: Facts) -> tuple[str, bytes]:
    """Return the inventory's binary: its path as written, and its bytes. Raises BuildError if it is unfit."""
    binary_path = host.toolchain.binary
    if binary_path is None:
        raise BuildError(
            f"{host.name}: `build: prebuilt` needs `toolchain: {{binary: PATH}}` in the inventory."
        )
    path = Path(binary_path).expanduser()
    try:
        if path.exists() and not path.is_file():
            raise BuildError(f"{host.name}: the prebuilt agent {binary_path} is not a file.")
        binary = path.read_bytes()
    except OSError as err:
        raise BuildError(
            f"{host.name}: cannot read the prebuilt agent {binary_path}: {err.strerror}."
        ) from err
    check_fit(binary, host, facts, binary_path)
    release = major_version(facts.kernel or host.os_release)
    if why := elf.why_wrong_release(elf.read_elf(binary), facts.target, release):
        raise BuildError(
            f"{host.name}: the prebuilt agent {binary_path} cannot run on this host: {why}. Name one "
            "that was built for this release."
        )
    return binary_path, binary


def send_prebuilt(connection: Connection, host: Host, facts: Facts) -> Agent:
    """Send the inventory's binary and ask it for its build ID. Raises BuildError, DeployError."""
    binary_path, binary = read_prebuilt(host, facts)
    path = f"{facts.workdir}/{tc.agent_file_name(PREBUILT, binary)}"
    _put_unless_present(connection, host, facts, binary, path)
    completed = connection.run(f"{shlex.quote(path)} --build-id </dev/null")
    build = completed.stdout.decode("utf-8", "replace").strip()
    if completed.exit_code != 0 or not _BUILD.fullmatch(build):
        raise DeployError(
            f"{host.name}: {binary_path} is not a fleet agent, or does not run there "
            f"(exit code {completed.exit_code}): {last_lines(completed.stderr or completed.stdout)}"
        )
    return Agent(path, build, facts.target, place=f"prebuilt {binary_path}")


def _put_unless_present(connection: Connection, host: Host, facts: Facts, binary: bytes, path: str) -> None:
    """Put the file there, unless a complete one is there, which only an atomic rename guarantees."""
    atomic_rename = SYSTEMS[facts.target.os].atomic_rename
    if not atomic_rename or path.rpartition("/")[2] not in facts.workdir_entries:
        done = connection.put(binary, path, mode=0o700, timeout_s=PUT_TIMEOUT_S)
        check_put(done, host, facts.workdir)


def check_fit(binary: bytes, host: Host, facts: Facts, origin: str) -> None:
    """Raise BuildError unless the binary can run on the host."""
    try:
        problem = elf.why_unfit(elf.read_elf(binary), facts.target, facts.libc)
    except ValueError as err:
        problem = str(err)
    if problem is not None:
        raise BuildError(
            f"{host.name}: the agent from {origin} cannot run on this host: {problem}. "
            "Build on the host (`build: host`) or name a fitting toolchain or binary in the inventory."
        )


def check_put(done: Completed, host: Host, workdir: str) -> None:
    """Raise DeployError if writing into the workdir failed."""
    if done.exit_code != 0:
        raise DeployError(
            f"{host.name}: cannot write the agent into {workdir} (exit code {done.exit_code}):\n"
            f"      {last_lines(done.stderr)}\n"
            f"{_put_remedy(done)}, or set another `workdir` for this host in the inventory."
        )


def _put_remedy(done: Completed) -> str:
    if b"imit exceeded" in done.stderr:
        return "Allow this account larger files there (`ulimit -f`)"
    full = any(sign in done.stderr for sign in (b"No space", b"quota"))
    return "Free some space there" if full else "See that cat, wc, chmod and mv work there on the host's PATH"
