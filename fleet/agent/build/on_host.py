"""Compiles the agent on the host itself, by one sh script on its stdin. Used by `deploy` and `qnx`."""

import shlex
import time
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from fleet.agent.build import toolchain as tc
from fleet.agent.build.on_controller import last_lines
from fleet.agent.build.upload import check_put
from fleet.errors import BuildError, DeployError, LinkError
from fleet.model import Agent, Compiler, Facts, Host
from fleet.model.frozen import replace
from fleet.remote.cancellation import Cancellation
from fleet.remote.connection import Connection
from fleet.remote.output import Completed

BUILD_TIMEOUT_S = 300.0  # small boards need a while
VERSIONS_TIMEOUT_S = 30.0
_END_OF_FILE = "fleet-end-of-file"
_BUILD_FAILED = 93
_NEXT = "fleet-next-compiler"
_PLACED = "fleet-agent-placed "

# Runs the compiler, $1, until it ends or nobody listens any more, and stdin ends. With `setsid` it has a
# group of its own and $2 is 0, which ends all of it from within. Its number could not be used safely: some
# versions of `kill` read -1234 as -1, every process there is. Without `setsid` what compiles ends by itself.
_COMPILE = """\
(eval "$1") </dev/null >&2 3<&- & cc=$!
{ read -r end <&3; kill -9 ${2:-$cc}; } & watch=$!
wait $cc; code=$?
kill $watch 2>/dev/null
exit $code"""


def build_on_host(
    connection: Connection,
    host: Host,
    facts: Facts,
    sources: Mapping[str, bytes],
    command: str,
    cancellation: Cancellation,
) -> Agent:
    """Build there with `command`, unless it is there; leaves nothing. Raises BuildError, DeployError."""
    toolchain = tc.on_host(command, facts.target, host.toolchain.cflags)
    build = tc.build_id(sources, toolchain)

    def agent(name: str, place: str) -> Agent:
        return Agent(f"{facts.workdir}/{name}", build, facts.target, place)

    if there := tc.found(build, facts.workdir_entries):
        return agent(there, "already on the host")
    script = build_script(toolchain, sources, build, facts.workdir)
    done = _run(connection, host, command, script, cancellation)
    if done.exit_code == _BUILD_FAILED:
        raise BuildError(
            f"{host.name}: {command} on the host could not build the agent:\n"
            f"      {last_lines(done.stderr)}\n"
            f"Repair the compiler there, name another (`toolchain: {{cc: …}}`), or set `build: controller`."
        )
    check_put(done, host, facts.workdir)
    version = next((c.version for c in facts.compilers if c.command == command), "") or command
    return agent(_placed(host, done, build), f"built on the host with {version}")


def _run(
    connection: Connection, host: Host, command: str, script: bytes, cancellation: Cancellation
) -> Completed:
    """Have the host build for as long as we listen. Raises BuildError when that is too long, Cancelled."""
    limit_s = BUILD_TIMEOUT_S
    ends = time.monotonic() + limit_s
    try:
        with connection.stream(
            "exec /bin/sh", idle_timeout_s=limit_s, limit_s=limit_s, stdin=script
        ) as stream:
            cancellation.stop_on_request(stream)
            lines = list(stream)
    except LinkError as err:
        if time.monotonic() < ends:
            raise
        raise BuildError(
            f"{host.name}: {command} on the host did not build the agent within {limit_s:g} s and was ended. "
            "Set `build: controller`, `build: prebuilt`, or use a wheel with finished agents (`make wheel`): "
            "nothing is compiled there then. Or free the host from other work and run again."
        ) from err
    cancellation.check()
    return Completed(stream.exit_code or 0, b"\n".join(lines), stream.stderr)


def _placed(host: Host, done: Completed, build: str) -> str:
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
    """The sh script that unpacks, compiles and places, with `sh` and `cat` alone; 93: the compiler failed."""
    scratch = f"build-{build}-$$"
    cc = shlex.join((*toolchain.command, *toolchain.cflags))
    units = [shlex.quote(f"../{name}") for name in sources if name.endswith(".c")]
    halves = [f"(cd {i} && {cc} -I.. -c {' '.join(units[i::2])})" for i in (0, 1)]  # two compilers at once
    compiler = (
        f"{halves[0]} & one=$!; {halves[1]}; two=$?; wait $one && [ $two = 0 ] && {cc} -o agent [01]/*.o"
    )
    lines = [
        "umask 077",
        f"cd {shlex.quote(workdir)} && mkdir {scratch} && cd {scratch} || exit 1",
        f'trap "cd .. && rm -rf {scratch}" 0; trap "exit 1" HUP INT PIPE TERM',
        *unpack(toolchain.sources(sources, build), "exit 1"),
        "LC_ALL=C TMPDIR=$PWD; export LC_ALL TMPDIR",
        "build() {",  # read to its end before stdin is the watch's
        "mkdir 0 1 || exit 1",
        f"set -- {shlex.quote(_COMPILE)} sh {shlex.quote(compiler)}",
        'if command -v setsid >/dev/null; then setsid /bin/sh -c "$@" 0; else /bin/sh -c "$@"; fi 3<&0 &&'
        f" [ -f agent ] || exit {_BUILD_FAILED}",
        "set -- $(sha256sum agent 2>/dev/null)",  # not everywhere; the rest of sh only
        f"name={tc.file_name(build)}",
        f"case $1 in {'?' * 64}) name=$name-${{1%{'?' * (64 - tc.HASH_DIGITS)}}} ;; esac",
        "mv -f agent ../$name || exit 1",
        f'echo; echo "{_PLACED}$name"',
        "exit 0",
        "}",
        "build",
    ]
    return "\n".join(lines).encode() + b"\n"


def unpack(sources: Mapping[str, bytes], on_failure: str) -> list[str]:
    """Lines of sh that write the sources into the current folder, with `mkdir` and `cat` alone."""
    folders = sorted({str(PurePosixPath(name).parent) for name in sources} - {"."})
    lines = [f"mkdir {shlex.join(folders)} || {on_failure}"] if folders else []
    for name, text in sources.items():
        lines.append(f"cat > {shlex.quote(name)} <<'{_END_OF_FILE}' || {on_failure}")
        lines.append(text.decode().rstrip("\n"))
        lines.append(_END_OF_FILE)
    return lines
