"""Asks a host what it is: one probe, parsed by the module of its OS. Raises, never
guesses.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from fleet.errors import (
    DataError,
    DeployError,
    FleetError,
    LinkError,
    ProbeError,
    TimeLimitError,
)
from fleet.facts import probe, systems
from fleet.facts.systems import STEP_OS, SYSTEMS
from fleet.model import Facts, Host, Load, Usage
from fleet.model.client import shell_test_command
from fleet.remote.connection import Connection
from fleet.remote.output import Completed

PROBE_TIMEOUT_S = 30.0
LOAD_TIMEOUT_S = 20.0
COMPILER_TIMEOUT_S = 10.0
_COMPILERS = ("cc", "gcc", "clang", "qcc")  # that probes look for
# in a message about the workdir: the shell could keep nothing that mkdir said
_NO_REASON = re.compile("cannot be made: \n|the agent in:\nName")
_MIN_FILES = 20
_FEW_FILES = (
    " This account may open too few files there for a shell to work (`ulimit -n`):"
    " allow 64 or more."
)
_NO_PROCESSES = (
    " This account may start too few processes there (`ulimit -u`): allow 64 or more."
)
_LIMITS = {  # what a shell prints, and what to do
    ": 1: Invalid argument": _FEW_FILES,  # dash, with less than 11 files
    "Too many open files": _FEW_FILES,
    "Cannot fork": _NO_PROCESSES,
    "Resource temporarily unavailable": _NO_PROCESSES,
}
STEP_HEAD_BYTES = 8 << 20
_STEP_HEAD = '#!/bin/sh\ndate -u "+@fleet-step %Y-%m-%dT%H:%M:%SZ"'
STEP_BEGAN = re.compile(
    rb"@fleet-step (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)$", re.MULTILINE
)
_ADVICE_BY_SIGN = {  # what was done to a step's output, and how to undo it
    rb"\A(\x1f\x8b|\xfd7zXZ|\x28\xb5\x2f\xfd|BZh)": (
        "it is compressed: decompress it first."
    ),
    rb"(?m)^ *[0-9]+: .*@fleet-": (
        "it has labels of `srun -l`: `sed 's/^ *[0-9]*: //'` takes them off."
    ),
    rb"@fleet-step .*\r\n": (
        "it has Windows line ends: `sed 's/\\r$//'` takes them off."
    ),
}
_BYTE_ORDER_MARKS = (b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf")
_MAX_CHARACTERS = 240  # of an unusable answer that a message quotes
_MAX_PLACES = 8  # refused, in a message
_REMEDIES = {
    "symbolic link": "remove the link, or name the directory it points to",
    "another user": "name a directory of your own",
    "other users": "`chmod go-rwx` it, or name a directory of your own",
    "noexec": "name a directory on a file system mounted without noexec",
    "No space": "make room there, or name a directory elsewhere",
    "quota exceeded": "make room there, or name a directory elsewhere",
    "Read-only": "name a directory on a writable file system",
}


class StepHead(NamedTuple):
    """What a scheduler's step prints before its agent's lines. length: how many bytes
    that is.
    """

    started_utc: str
    facts: Facts
    length: int


def gather(connection: Connection, host: Host) -> Facts:
    """Gather a host's facts, and create its workdir. Raises ProbeError, DeployError,
    LinkError.
    """
    try:
        facts = parse_answer(run_probe(connection, host, read_only=False), host)
    except DeployError as err:
        # if the account may open few files, the shell cannot read why mkdir failed
        lacks_reason = _NO_REASON.search(str(err))
        if lacks_reason and _is_file_limit_low(connection):
            raise DeployError(f"{err}{_FEW_FILES}") from err
        raise
    sections = probe.split_sections(facts.probe)
    # a system with few tools tells where these are; else `path` is None
    path = SYSTEMS[facts.target.os].search_path(sections)
    if path is not None:
        connection.use_minimal_tools(path)
    return facts


def _is_file_limit_low(connection: Connection) -> bool:
    """Report whether the account may open too few files for a shell to work; False if
    unknown.
    """
    with suppress(FleetError):
        printed = connection.run("ulimit -n").stdout
        if limit := re.search(rb"(?:^|\s)([0-9]{1,9})\s*$", printed):
            return int(limit[1]) < _MIN_FILES
    return False


def parse_with_workdir_error(text: str, host: Host) -> tuple[Facts, DeployError | None]:
    """Return the facts in a read-only probe's answer, and the error if no workdir can
    be used, else None.
    """
    facts = _parse_without_workdir(text, host)
    try:
        return _add_workdir(facts, host), None
    except DeployError as err:
        return replace(facts, workdir_made=False), err


def parse_answer(text: str, host: Host) -> Facts:
    """Parse a whole answer, perhaps one stored with a run long ago. Pure; raises as
    `gather` does.
    """
    return _add_workdir(_parse_without_workdir(text, host), host)


def run_probe(connection: Connection, host: Host, *, read_only: bool) -> str:
    """Run the probe of each OS, the one that the inventory names first, until one fits
    the host; return its answer. If none fits, return the last answer, which has a
    section `other`. Raises ProbeError.
    """
    answer = ""
    own_os_first = sorted(SYSTEMS, key=lambda name: name != host.os)
    for name in own_os_first:
        script = probe.render_probe(
            SYSTEMS[name].probe,
            workdir=host.workdir,
            cc=host.toolchain.cc,
            read_only=read_only,
        )
        try:
            completed = connection.run(script.decode(), timeout_s=PROBE_TIMEOUT_S)
        except LinkError as err:
            _raise_if_compiler_hangs(connection, host, err)
            raise
        extracted = probe.extract_answer(completed.stdout)
        if extracted is None:
            raise ProbeError(_no_answer_message(host, completed))
        answer = extracted
        is_of_other_os = "other" in probe.split_sections(answer)
        if not is_of_other_os:
            break
    return answer


def _raise_if_compiler_hangs(
    connection: Connection, host: Host, why: LinkError
) -> None:
    """Raise ProbeError if the host answers, but one of the compilers that the probe
    asks does not within COMPILER_TIMEOUT_S.

    In any other case return: the caller then raises `why`, the error of the probe.
    """
    does_nothing = ":"  # a command that every shell has
    try:
        _ask_version(connection, does_nothing)
    except LinkError:
        return  # the host itself does not answer
    compilers = list(_COMPILERS)
    if host.toolchain.cc:
        compilers.insert(0, host.toolchain.cc)
    try:
        for compiler in compilers:
            _ask_version(connection, compiler)
    except TimeLimitError:
        raise ProbeError(
            f"{host.name}: the compiler there, {compiler!r}, never answers"
            " --version. Does it wait for a licence? Try it by hand, or give the"
            " host a PATH without it as `env:` in the inventory."
        ) from why
    except LinkError:
        return  # the link broke meanwhile


def _ask_version(connection: Connection, command: str) -> None:
    """Run `command --version`. Raises TimeLimitError after COMPILER_TIMEOUT_S."""
    connection.run(f"{command} --version >/dev/null 2>&1", timeout_s=COMPILER_TIMEOUT_S)


def _parse_without_workdir(text: str, host: Host) -> Facts:
    """Parse all facts but the workdir. Raises ProbeError, also if they contradict the
    inventory.
    """
    sections = probe.split_sections(text)
    system = systems.os_from_answer(sections)
    if system is None:
        raise ProbeError(_unknown_os_message(sections, host))
    try:
        facts = replace(system.parse(sections, host.arch), probe=text)
    except DataError as err:
        advice = "Check the host's address, or remove it from the inventory"
        if system.describe_answer(sections):
            advice += f"; `fleet check {host.name}` prints all it answered"
        raise ProbeError(f"{host.name}: {err}. {advice}.") from err
    _require_declared(host, "os", host.os, facts.target.os)
    _require_declared(host, "arch", host.arch, facts.arch)
    return facts


def _unknown_os_message(sections: probe.Sections, host: Host) -> str:
    """Return what to tell the user of a host whose OS no probe is for, or which has no
    program that names its OS.
    """
    uname = probe.find_value(sections, "uname_s")
    if not uname:
        path = probe.find_value(sections, "path")
        return (
            f"{host.name}: the host has no `uname` where its shell looks for programs:"
            f" PATH is {path[:200]!r} there. Correct the PATH that its sshd or login"
            " shell sets for commands."
        )
    titles = " and ".join(system.title for system in SYSTEMS.values())
    return (
        f"{host.name}: `uname -s` says {uname[:80]!r}, an operating system fleet"
        f" cannot measure; it knows {titles}. Remove the host from the inventory,"
        " or check its address."
    )


def _require_declared(
    host: Host, key: str, declared: str | None, actual: str | None
) -> None:
    """Raise ProbeError if the inventory declares another value of `key` than the
    host's.
    """
    if declared is not None and declared != actual:
        raise ProbeError(
            f"{host.name}: the inventory says `{key}: {declared}`, the host says"
            f" {actual}. Correct or remove the line ({host.origin or 'inventory'}),"
            " or check the address."
        )


def _add_workdir(facts: Facts, host: Host) -> Facts:
    """Add what the probe's section `workdir` says.

    It has a line `refused PLACE: why` for each place that cannot be used. Then come the
    line `chosen PATH` and the name of each file in the workdir, a line each; or, from a
    read-only probe, the line `planned PATH`, of the workdir that would be made. Raises
    DeployError if neither comes.
    """
    sections = probe.split_sections(facts.probe)
    refused = []
    lines = iter(sections.get("workdir", []))
    for line in lines:
        word, _, text = line.partition(" ")
        if word == "chosen":
            names_of_files = filter(None, lines)  # all lines that are left
            return replace(
                facts,
                workdir=text,
                workdir_entries=tuple(names_of_files),
                workdir_hashes=_parse_hashes(sections.get("hashes", [])),
            )
        if word == "planned":
            return replace(facts, workdir=text, workdir_made=False)
        if word == "refused":
            refused.append(text[:_MAX_CHARACTERS])
    raise DeployError(_no_workdir_message(host, refused))


def _parse_hashes(lines: Iterable[str]) -> Mapping[str, str]:
    """Return the SHA-256 of each file by its name, from lines of sha256sum."""
    digests = {}
    for line in lines:
        if match := re.fullmatch(r"([0-9a-f]{64}) [ *].*/([^/]+)", line):
            digest, name = match.groups()
            digests[name] = digest
    return MappingProxyType(digests)


def _no_workdir_message(host: Host, refused: Sequence[str]) -> str:
    """Return why no workdir can be used. refused: "PLACE: why" for each one tried."""
    if host.workdir is not None:
        reason = refused[0] if refused else f"{host.workdir}: cannot be used"
        remedies = (text for sign, text in _REMEDIES.items() if sign in reason)
        remedy = next(remedies, "name another directory")
        return f"{host.name}: the inventory's workdir {reason}. To do: {remedy}."
    reasons = "".join(f"\n  {reason}" for reason in refused[:_MAX_PLACES])
    return (
        f"{host.name}: found no directory to put the agent in:{reasons}\nName one that"
        " we may write to and run programs from, as `workdir:` for this host in the"
        " inventory."
    )


def render_scheduler_step() -> str:
    """Render a script for a Linux scheduler: print the time and probe's answer, then
    run the arguments.
    """
    probe_script = probe.render_probe(STEP_OS.probe, read_only=True).decode()
    return f'{_STEP_HEAD}\n(\n{probe_script})\nexec "$@" --format=jsonl </dev/null\n'


def parse_step_head(path: Path, head: bytes, host: Host) -> StepHead:
    """Parse what a scheduler's step printed before the agent's lines: the time when it
    started, and the probe's answer. Raises ProbeError.

    path: the file with what it printed. head: the beginning of this file, which may
    reach into the agent's lines.
    """
    # in UTF-16, a zero follows each letter of the mark, so it would not be found
    mark_in_utf16 = probe.MARK[:3].encode("utf-16-le")
    if head.startswith(_BYTE_ORDER_MARKS) or mark_in_utf16 in head:
        raise ProbeError(
            f"{path}: it is in UTF-16, or has a byte order mark; keep what the step"
            " prints as it is."
        )
    began = STEP_BEGAN.search(head)
    text = probe.extract_answer(head)
    if began is None or text is None:
        for sign, advice in _ADVICE_BY_SIGN.items():
            if re.search(sign, head):
                raise ProbeError(f"{path}: {advice}")
        raise ProbeError(
            f"{path}: does not hold what `fleet check --script` finds out, before the"
            " agent's lines. Start the agent by that script (docs/remote.md)."
        )
    # the agent has run already: whether there is a workdir does not matter
    facts, _workdir_error = parse_with_workdir_error(text, host)
    return StepHead(began[1].decode(), facts, length=_find_end_of_answer(head))


def _find_end_of_answer(head: bytes) -> int:
    """Return the offset behind the line that ends the probe's answer."""
    newline = b"\n"
    before_end = head.index(newline + f"{probe.MARK} end".encode())
    after_end = head.index(newline, before_end + len(newline))
    return after_end + len(newline)


def describe_answer(text: str) -> tuple[str, ...]:
    """Render a probe's answer as lines for people; empty for an OS whose facts
    suffice.
    """
    sections = probe.split_sections(text)
    system = systems.os_from_answer(sections)
    return system.describe_answer(sections) if system else ()


def ask_load(connection: Connection, facts: Facts) -> Load:
    """Ask how busy and hot the host is; return an empty Load if the OS does not publish
    that.
    """
    system = SYSTEMS[facts.target.os]
    script = probe.render_load_probe(system.load).decode()
    if not script:
        return Load()
    output = connection.run(script, timeout_s=LOAD_TIMEOUT_S).stdout
    return parse_load(output, facts)


def ask_usage(connection: Connection, facts: Facts) -> Usage | None:
    """Sample for a second which programs use the host's CPUs; None if the OS does not
    publish it.
    """
    system = SYSTEMS[facts.target.os]
    script = probe.render_load_probe(system.load, "usage_only").decode()
    if not script:
        return None
    output = connection.run(script, timeout_s=LOAD_TIMEOUT_S).stdout
    answer = probe.extract_answer(output) or ""
    sections = probe.split_sections(answer)
    online = sum(cpu.online for cpu in facts.cpus)
    return system.parse_usage(sections, online)


def parse_load(output: bytes, facts: Facts) -> Load:
    """Parse the load in a host's output; return an empty Load if it is missing."""
    answer = probe.extract_answer(output) or ""
    return SYSTEMS[facts.target.os].parse_load(probe.split_sections(answer))


def _no_answer_message(host: Host, completed: Completed) -> str:
    """Return what to tell the user if the probe printed no answer: the begin and the
    end of what came instead, and advice if that names a limit of the host, such as "Too
    many open files".
    """
    printed_bytes = completed.stderr.strip() or completed.stdout.strip()
    output = printed_bytes.decode("utf-8", "replace")
    excerpt = output
    if len(output) > _MAX_CHARACTERS:
        half = _MAX_CHARACTERS // 2
        excerpt = f"{output[:half]} … {output[-half:]}"
    advice = next((advice for sign, advice in _LIMITS.items() if sign in output), "")
    printed = f"it printed {excerpt!r}" if output else "it printed nothing"
    return (
        f"{host.name}: /bin/sh did not answer the probe (exit code"
        f" {completed.exit_code}; {printed}). fleet needs an account that may run"
        " commands, and whose login scripts leave stdin alone; try"
        f" `{shell_test_command(host)}`.{advice}"
    )
