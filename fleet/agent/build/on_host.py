"""Compiles the agent on the host itself, by one sh script on its stdin. Used by `deploy` and `qnx`."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace

from fleet.agent.build import toolchain as tc
from fleet.agent.build.upload import check_put, stderr_end
from fleet.errors import BuildError, DeployError
from fleet.model import Agent, Compiler, Facts, Host
from fleet.remote.connection import Completed, Connection

BUILD_TIMEOUT_S = 300.0  # small boards need a while
VERSIONS_TIMEOUT_S = 30.0
_END_OF_FILE = "fleet-end-of-file"
_BUILD_FAILED = 93
_NEXT = "fleet-next-compiler"
_PLACED = "fleet-agent-placed "


def build_on_host(
    connection: Connection, host: Host, facts: Facts, sources: Mapping[str, bytes], command: str
) -> Agent:
    """Build with `command` there, unless that build is there already. Raises BuildError, DeployError."""
    toolchain = tc.on_host(command, facts.target, host.toolchain.cflags)
    build = tc.build_id(sources, toolchain)

    def agent(name: str, place: str, compiler: str | None = None) -> Agent:
        cflags = " ".join(toolchain.cflags)
        return Agent(f"{facts.workdir}/{name}", build, facts.target, place, compiler, cflags)

    if there := tc.found(build, facts.workdir_entries):
        return agent(there, "already on the host")
    script = build_script(toolchain, sources, build, facts.workdir)
    done = connection.run("exec /bin/sh", stdin=script, timeout_s=BUILD_TIMEOUT_S)
    if done.exit_code == _BUILD_FAILED:
        raise BuildError(
            f"{host.name}: {command} on the host could not build the agent:\n      {stderr_end(done)}\n"
            f"Repair the compiler there, name another (`toolchain: {{cc: …}}`), or set `build: controller`."
        )
    check_put(done, host, facts.workdir)
    version = next((c.version for c in facts.compilers if c.command == command), "") or command
    return agent(_placed(host, done, build), f"built on the host with {version}", version)


def _placed(host: Host, done: Completed, build: str) -> str:
    """The agent's file name as the host reports it."""
    name = tc.found(build, [done.stdout.decode("utf-8", "replace").rpartition(_PLACED)[2].strip()])
    if name is None:
        raise DeployError(f"{host.name}: the host built the agent, but did not report its path.")
    return name


def answering(connection: Connection, compilers: Sequence[Compiler]) -> tuple[Compiler, ...]:
    """The compilers that answer --version, with the first line of the answer; one round trip."""
    lines = ["LC_ALL=C; export LC_ALL"]
    lines += [
        f"({shlex.join(c.command.split())} --version </dev/null 2>/dev/null | head -n 1); echo {_NEXT}"
        for c in compilers
    ]
    done = connection.run("\n".join(lines), timeout_s=VERSIONS_TIMEOUT_S)
    versions = [version.strip() for version in done.stdout.decode("utf-8", "replace").split(_NEXT)]
    return tuple(
        replace(compiler, version=version)
        for compiler, version in zip(compilers, versions, strict=False)
        if version
    )


def build_script(toolchain: tc.Toolchain, sources: Mapping[str, bytes], build: str, workdir: str) -> bytes:
    """Write the sh script that unpacks the sources, compiles them and moves the binary into place.

    Runs on `sh` and `cat` alone, no tar. Exit code 93: the compiler failed; its output is on stderr.
    """
    scratch = f"build-{build}-$$"
    lines = [
        "umask 077",
        f"cd {shlex.quote(workdir)} && mkdir {scratch} && cd {scratch} && mkdir native || exit 1",
        'leave() { cd ..; rm -rf "$1"; exit "$2"; }',
    ]
    lines += unpack(toolchain.sources(sources, build), f"leave {scratch} 1")
    lines += [
        f"LC_ALL=C {toolchain.command_line(sources, 'agent')} </dev/null"
        f" && [ -f agent ] || leave {scratch} {_BUILD_FAILED}",
        "set -- $(sha256sum agent 2>/dev/null)",  # not everywhere; the rest of sh only
        f"name={tc.file_name(build)}",
        f"case $1 in {'?' * 64}) name=$name-${{1%{'?' * (64 - tc.HASH_DIGITS)}}} ;; esac",
        f"mv -f agent ../$name || leave {scratch} 1",
        f'echo; echo "{_PLACED}$name"',
        f"leave {scratch} 0",
    ]
    return "\n".join(lines).encode() + b"\n"


def unpack(sources: Mapping[str, bytes], on_failure: str) -> list[str]:
    """Lines of sh that write the sources into the current folder, which has `native`, with `cat` alone."""
    lines = []
    for name, text in sources.items():
        lines.append(f"cat > {shlex.quote(name)} <<'{_END_OF_FILE}' || {on_failure}")
        lines.append(text.decode().rstrip("\n"))
        lines.append(_END_OF_FILE)
    return lines
