"""Ask a host what it is: a question for everything, read by the module of its OS. Raises, never guesses."""

import re
from dataclasses import replace
from types import MappingProxyType

from fleet.errors import DeployError, ProbeError
from fleet.facts import linux, probe, qnx
from fleet.model import Facts, Host, Load
from fleet.remote.connection import Completed, Connection

PROBE_TIMEOUT_S = 30.0
LOAD_TIMEOUT_S = 20.0
_REMEDIES = {
    "symbolic link": "remove the link, or name the directory it points to",
    "another user": "name a directory of your own",
    "other users": "`chmod go-rwx` it, or name a directory of your own",
    "noexec": "name a directory on a file system mounted without noexec",
    "No space": "make room there, or name a directory elsewhere",
    "Read-only": "name a directory on a writable file system",
}


def gather(connection: Connection, host: Host) -> Facts:
    """Find out what `host` is and choose the directory for our files; one question, or two on QNX.

    Makes that directory if it is not there, and leaves nothing else behind. Raises ProbeError for an
    answer, OS or architecture we do not understand and where the inventory says otherwise, DeployError if
    no directory can be used, LinkError from the connection. The connection to a QNX host is told what it
    has to make do with there.
    """
    facts = read(_ask(connection, host, read_only=False), host)
    if facts.target.os == qnx.OS:
        connection.make_do(qnx.search_path(probe.sections(facts.probe)))
    return facts


def look(connection: Connection, host: Host) -> str:
    """Ask the same without having anything made or written; the whole answer, to be read by `survey`."""
    return _ask(connection, host, read_only=True)


def survey(text: str, host: Host) -> tuple[Facts, DeployError | None]:
    """The facts in an answer to `look`; whether programs may run on the host is not known from that.

    A host without a usable directory still has its facts: the error stands beside them.
    """
    facts = _understood(text, host)
    try:
        return _with_workdir(facts, host), None
    except DeployError as err:
        return replace(facts, workdir_made=False), err


def read(text: str, host: Host) -> Facts:
    """The facts in a whole answer, also in one kept with a run years ago. Pure; raises as `gather` does."""
    return _with_workdir(_understood(text, host), host)


def _ask(connection: Connection, host: Host, *, read_only: bool) -> str:
    """The whole answer to the question for Linux, or for QNX where the inventory or the host says so."""
    told_qnx = host.os == qnx.OS
    text = _ask_as(connection, host, read_only=read_only, of_qnx=told_qnx)
    if probe.is_other(text):
        text = _ask_as(connection, host, read_only=read_only, of_qnx=not told_qnx)
    return text


def _ask_as(connection: Connection, host: Host, *, read_only: bool, of_qnx: bool) -> str:
    question = probe.script(workdir=host.workdir, cc=host.toolchain.cc, read_only=read_only, of_qnx=of_qnx)
    completed = connection.run(question.decode(), timeout_s=PROBE_TIMEOUT_S)
    text = probe.answer(completed.stdout)
    if text is None:
        raise ProbeError(_no_answer(host, completed))
    return text


def _understood(text: str, host: Host) -> Facts:
    """All facts but the directory, held against what the inventory says."""
    facts = replace(_by_os(probe.sections(text), host), probe=text)
    for name, told, found in (("os", host.os, facts.target.os), ("arch", host.arch, facts.arch)):
        if told is not None and told != found:
            raise ProbeError(
                f"{host.name}: the inventory says `{name}: {told}`, the host says {found}. "
                f"Correct or remove the line ({host.origin or 'inventory'}), or check the address."
            )
    return facts


def _with_workdir(facts: Facts, host: Host) -> Facts:
    sections = probe.sections(facts.probe)
    lines = sections.get("workdir", [])
    refused = []
    for index, line in enumerate(lines):
        word, _, rest = line.partition(" ")
        if word == "chosen":
            entries = tuple(name for name in lines[index + 1 :] if name)
            hashes = MappingProxyType(_hashes(sections.get("hashes", [])))
            return replace(facts, workdir=rest, workdir_entries=entries, workdir_hashes=hashes)
        if word == "planned":
            return replace(facts, workdir=rest, workdir_made=False)
        if word == "refused":
            refused.append(rest)
    raise DeployError(_no_workdir(refused, host))


def _hashes(lines: list[str]) -> dict[str, str]:
    """SHA-256 by file name, as sha256sum prints them; lines of another kind are skipped."""
    found = (re.fullmatch(r"([0-9a-f]{64}) [ *].*/([^/]+)", line) for line in lines)
    return {match[2]: match[1] for match in found if match}


def as_told(text: str) -> tuple[str, ...]:
    """What a QNX host said of itself, in lines for people; empty for other hosts. Raises nothing."""
    sections = probe.sections(text)
    return qnx.as_told(sections) if "qnx" in sections else ()


def reread_load(connection: Connection) -> Load:
    """How busy and warm the host is now; one question. A host that does not say gives an empty Load."""
    return read_load(connection.run(load_question(), timeout_s=LOAD_TIMEOUT_S).stdout)


def load_question() -> str:
    """The sh text that asks for the load; it leaves only functions behind in the shell that runs it."""
    return probe.load_script().decode()


def read_load(output: bytes) -> Load:
    """The load in what the host printed; empty if it does not say. Pure."""
    return linux.parse_load(probe.sections(probe.answer(output) or ""))


def _by_os(sections: probe.Sections, host: Host) -> Facts:
    if "qnx" in sections:
        return _of_qnx(sections, host)
    system = linux.parse_system(sections)
    name = system.get("uname_s", "")
    if not name:
        raise ProbeError(
            f"{host.name}: the host has no `uname` where its shell looks for programs. "
            f"Mend the PATH that its sshd or login shell gives to commands."
        )
    if name != "Linux":
        raise ProbeError(
            f"{host.name}: `uname -s` says {name[:80]!r}, an operating system fleet cannot measure yet; "
            f"it knows Linux and QNX. Remove the host from the inventory, or check its address."
        )
    try:
        return linux.parse(sections)
    except ValueError as err:
        raise ProbeError(
            f"{host.name}: `uname -m` says {str(err)[:80]!r}, an architecture fleet has no agent for. "
            f"Remove the host from the inventory, or check its address."
        ) from err


def _of_qnx(sections: probe.Sections, host: Host) -> Facts:
    try:
        return qnx.parse(sections, host.arch)
    except ValueError as err:
        raise ProbeError(
            f"{host.name}: {err}. fleet knows QNX on x86_64 and aarch64; see what else the host says with "
            f"`fleet check {host.name}`, and check its address."
        ) from err


def _no_workdir(refused: list[str], host: Host) -> str:
    if host.workdir is not None:
        reason = refused[0] if refused else f"{host.workdir}: cannot be used"
        return f"{host.name}: the inventory's workdir {reason}. To do: {_remedy(reason)}."
    listed = "".join(f"\n  {reason}" for reason in refused)
    return (
        f"{host.name}: found no directory to put the agent in:{listed}\n"
        f"Name one that we may write to and run programs from, as `workdir:` for this host in the inventory."
    )


def _remedy(reason: str) -> str:
    return next((remedy for sign, remedy in _REMEDIES.items() if sign in reason), "name another directory")


def _no_answer(host: Host, completed: Completed) -> str:
    heard = (completed.stderr.strip() or completed.stdout.strip())[-200:].decode("utf-8", "replace")
    said = f"it said {heard!r}" if heard else "it said nothing"
    return (
        f"{host.name}: /bin/sh did not answer the probe (exit code {completed.exit_code}; {said}). "
        f"fleet needs an account that may run commands; try `ssh {host.address} /bin/sh -c uname`."
    )
