"""Compiles the agent on the host itself, by one sh script on its stdin. `deploy` and `qnx` choose it."""

import shlex
from collections.abc import Mapping
from dataclasses import replace

from fleet.agent import toolchain as tc
from fleet.agent.sending import check_put, said
from fleet.errors import BuildError
from fleet.model import Agent, Facts, Host
from fleet.remote.connection import Connection

BUILD_TIMEOUT_S = 300.0  # small boards need a while
_END_OF_FILE = "fleet-end-of-file"
_BUILD_FAILED = 93


def build_on_host(
    connection: Connection, host: Host, facts: Facts, sources: Mapping[str, bytes], command: str
) -> Agent:
    """Build with `command` there, unless that build lies there already. Raises BuildError, DeployError."""
    toolchain = tc.on_host(command, facts.target, host.toolchain.cflags)
    build = tc.build_id(sources, toolchain)
    name = tc.file_name(build)
    version = next((c.version for c in facts.compilers if c.command == command), command)
    agent = Agent(
        path=f"{facts.workdir}/{name}",
        build=build,
        target=facts.target,
        place=f"built on the host with {version}",
        compiler=version,
        cflags=" ".join(toolchain.cflags),
    )
    if name in facts.workdir_entries:
        return replace(agent, place="already on the host")
    script = build_script(toolchain, sources, build, facts.workdir)
    done = connection.run("exec /bin/sh", stdin=script, timeout_s=BUILD_TIMEOUT_S)
    if done.exit_code == _BUILD_FAILED:
        raise BuildError(
            f"{host.name}: {command} on the host could not build the agent:\n      {said(done)}\n"
            f"Mend the compiler there, name another (`toolchain: {{cc: …}}`), or set `build: controller`."
        )
    check_put(done, host, facts.workdir)
    return agent


def build_script(toolchain: tc.Toolchain, sources: Mapping[str, bytes], build: str, workdir: str) -> bytes:
    """Write the sh script that unpacks the sources, compiles them and moves the binary into place.

    Runs on `sh` and `cat` alone, no tar. Exit code 93 means the compiler failed, its words on stderr.
    """
    scratch = f"build-{build}-$$"
    units = [name for name in sources if name.endswith(".c")]
    lines = [
        "umask 077",
        f"cd {shlex.quote(workdir)} && mkdir {scratch} && cd {scratch} && mkdir native || exit 1",
        'leave() { cd ..; rm -rf "$1"; exit "$2"; }',
    ]
    lines += unpack(sources, f"leave {scratch} 1")
    lines += [
        f"LC_ALL=C {toolchain.command_line(units, build, 'agent')} </dev/null"
        f" && [ -f agent ] || leave {scratch} {_BUILD_FAILED}",
        f"mv -f agent ../{tc.file_name(build)} || leave {scratch} 1",
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
