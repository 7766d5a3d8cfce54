"""Compiles for QNX on a build host of the inventory, where the controller has no SDP; fetches the binary."""

import os
import shlex
from collections.abc import Mapping

from fleet.agent.build import toolchain as tc
from fleet.agent.build.on_controller import Connect, last_lines
from fleet.agent.build.on_host import unpack
from fleet.agent.build.qnx_sdp import CFLAGS, HOMES, HOST, TARGETS, VARIANTS
from fleet.errors import BuildError, FleetError
from fleet.model import Host, Target

BUILD_TIMEOUT_S = 300.0


def toolchain_on(there: Host, target: Target, release: int | None, extra: tuple[str, ...]) -> tc.Toolchain:
    """The qcc of a build host; only the build host knows which of its SDPs it belongs to."""
    name = f"qcc on the build host {there.name}" + (f" (QNX {release})" if release else "")
    command = ("qcc", f"-V{VARIANTS[target.arch]}")
    place = f"{release or ''}@{there.name}:{there.toolchain.sdp or ''}"
    return tc.Toolchain(name, command, (*CFLAGS, *extra), target, place)


def compile_there(
    connect: Connect,
    there: Host,
    toolchain: tc.Toolchain,
    release: int | None,
    sources: Mapping[str, bytes],
    build: str,
) -> bytes:
    """Compile on the build host over its own connection. Raises BuildError with the compiler's output."""
    mark = f"fleet-binary-{os.urandom(8).hex()}"
    script = build_script(there.toolchain.sdp, toolchain, release, sources, build, mark)
    try:
        with connect(there) as connection:
            done = connection.run("exec /bin/sh", stdin=script, timeout_s=BUILD_TIMEOUT_S)
    except FleetError as err:  # the target host is fine; `qnx` tries the next place
        raise BuildError(f"{toolchain.name}: {err}") from err
    _, found, binary = done.stdout.partition(f"{mark}\n".encode())
    if done.exit_code != 0 or not found:
        raise BuildError(f"{toolchain.name}: exit code {done.exit_code}: {last_lines(done.stderr)}")
    return binary


def build_script(
    sdp: str | None,
    toolchain: tc.Toolchain,
    release: int | None,
    sources: Mapping[str, bytes],
    build: str,
    mark: str,
) -> bytes:
    """The sh script that finds the SDP, compiles and prints mark and binary; it leaves nothing behind."""
    homes = [sdp] if sdp is not None else list(HOMES)
    names = [name for known, name in TARGETS.items() if release in (None, known)]
    variant = toolchain.command[1].removeprefix("-V")
    lines = [
        "umask 077",
        'fail() { echo "$1" >&2; exit 1; }',
        "looked=",
        f'fits() {{ [ -x "$1/usr/bin/qcc" ] && [ -d "$2" ] && case ${{2##*/}} in {"|".join(names)}) ;;'
        " *) false ;; esac && QNX_HOST=$1 QNX_TARGET=$2; }",
        "inside() {",
        f'  for name in {" ".join(names)}; do fits "$1/{HOST}" "$1/target/$name" && return 0; done',
        '  looked="$looked $1"; return 1',
        "}",
        *([] if sdp is not None else ['fits "${QNX_HOST:-}" "${QNX_TARGET:-}" ||']),
        *(f"inside {_path(home)} ||" for home in homes),
        f'fail "no SDP for QNX {release or "7 or 8"} there. Looked at'
        f'{"" if sdp is not None else " QNX_HOST and QNX_TARGET;"}$looked"',
        'export QNX_HOST QNX_TARGET PATH="$QNX_HOST/usr/bin:$PATH"',
        'export QNX_CONFIGURATION_EXCLUSIVE="${QNX_CONFIGURATION_EXCLUSIVE:-$HOME/.qnx}"',
        "listed=$(qcc -V 2>&1 </dev/null)",
        f'case $listed in *{variant}*) ;; *) fail "qcc -V does not list {variant}: $listed" ;; esac',
        'folder=$(mktemp -d "${TMPDIR:-/tmp}/fleet-build-XXXXXX") || exit 1',
        "trap 'cd / && rm -rf \"$folder\"' EXIT; trap 'exit 1' HUP INT PIPE TERM",
        'cd "$folder" || exit 1',
        *unpack(toolchain.sources(sources, build), "exit 1"),
        f"LC_ALL=C {shlex.join(toolchain.arguments(sources, 'agent'))} </dev/null >&2 || exit",
        f"echo {mark} && cat agent",
    ]
    return "\n".join(lines).encode() + b"\n"


def _path(home: str) -> str:
    """Quote a path for sh; a leading ~/ is the home there."""
    return f'"$HOME"/{shlex.quote(home[2:])}' if home.startswith("~/") else shlex.quote(home)
