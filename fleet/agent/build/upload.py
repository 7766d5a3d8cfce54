"""Sends a finished agent to a host: only one that fits, never over another. Used by `deploy` and `qnx`."""

import re
import shlex
from pathlib import Path

from fleet.agent.build import elf
from fleet.agent.build import toolchain as tc
from fleet.agent.build.on_controller import Built
from fleet.agent.build.qnx_sdp import major
from fleet.agent.build.systems import SYSTEMS
from fleet.errors import BuildError, DeployError
from fleet.model import Agent, Facts, Host
from fleet.remote.connection import Connection
from fleet.remote.output import Completed
from fleet.text import last_lines

PUT_TIMEOUT_S = 120.0
PREBUILT = "0" * 16  # stands in a file's name for the build id that only the binary itself can tell
_BUILD = re.compile(r"[!-~]{1,64}")


def send_built(connection: Connection, host: Host, facts: Facts, built: Built) -> Agent:
    """Send what was built elsewhere, unless it is there already. Raises BuildError, DeployError."""
    check_fit(built.binary, host, facts, built.toolchain.name)
    path = f"{facts.workdir}/{tc.file_name(built.build, built.binary)}"
    _send(connection, host, facts, built.binary, path)
    return Agent(path, built.build, facts.target, f"built with {built.toolchain.name}")


def prebuilt(host: Host, facts: Facts) -> tuple[str, bytes]:
    """The binary the inventory names, as written there, and its bytes, which fit the host."""
    given = host.toolchain.binary
    if given is None:
        raise BuildError(
            f"{host.name}: `build: prebuilt` needs `toolchain: {{binary: PATH}}` in the inventory."
        )
    path = Path(given).expanduser()
    try:
        if path.exists() and not path.is_file():
            raise BuildError(f"{host.name}: the prebuilt agent {given} is not a file.")
        binary = path.read_bytes()
    except OSError as err:
        raise BuildError(f"{host.name}: cannot read the prebuilt agent {given}: {err.strerror}.") from err
    check_fit(binary, host, facts, given)
    release = major(facts.kernel or host.os_release)
    if why := elf.wrong_release(elf.read_elf(binary), facts.target, release):
        raise BuildError(
            f"{host.name}: the prebuilt agent {given} cannot run on this host: {why}. Name one that was "
            "built for this release."
        )
    return given, binary


def send_prebuilt(connection: Connection, host: Host, facts: Facts) -> Agent:
    """Send the binary the inventory names and ask it for its build id. Raises BuildError, DeployError."""
    given, binary = prebuilt(host, facts)
    path = f"{facts.workdir}/{tc.file_name(PREBUILT, binary)}"
    _send(connection, host, facts, binary, path)
    asked = connection.run(f"{shlex.quote(path)} --build-id </dev/null")
    build = asked.stdout.decode("utf-8", "replace").strip()
    if asked.exit_code != 0 or not _BUILD.fullmatch(build):
        raise DeployError(
            f"{host.name}: {given} is no fleet agent, or does not run there (exit code {asked.exit_code}): "
            f"{last_lines(asked.stderr or asked.stdout)}"
        )
    return Agent(path, build, facts.target, place=f"prebuilt {given}")


def _send(connection: Connection, host: Host, facts: Facts, binary: bytes, path: str) -> None:
    """Put the file there, unless it is there. Without an atomic rename it may be incomplete; `put` checks."""
    whole = SYSTEMS[facts.target.os].atomic_rename
    if not whole or path.rpartition("/")[2] not in facts.workdir_entries:
        done = connection.put(binary, path, mode=0o700, timeout_s=PUT_TIMEOUT_S)
        check_put(done, host, facts.workdir)


def check_fit(binary: bytes, host: Host, facts: Facts, what: str) -> None:
    """Raise BuildError unless the binary can run on the host."""
    try:
        why = elf.misfit(elf.read_elf(binary), facts.target, facts.libc)
    except ValueError as err:
        why = str(err)
    if why is not None:
        raise BuildError(
            f"{host.name}: the agent from {what} cannot run on this host: {why}. "
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
