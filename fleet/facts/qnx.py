"""Parses what `uname -a` and `pidin info` print on a QNX host, as model.Facts. Pure."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from fleet.facts.findings import make_finding
from fleet.facts.linux import parse_compilers
from fleet.facts.probe import Sections
from fleet.facts.topology import arm_core_name
from fleet.model import Cpu, Facts, Finding, Usage

STANDIN = "qnx-standin"  # the `os` of an imitation that the tests make out of Linux

_ARCHES = {"x86_64": "x86_64", "aarch64": "aarch64", "aarch64le": "aarch64"}
_NO_CPUS = "no `pidin info` on the host: how many CPUs it has is not known before the agent runs"
_UNITS = {"": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}
_UNAME = re.compile(r"QNX (?P<hostname>\S+) (?P<release>\S+) (?P<build>.+) (?P<board>\S+) (?P<arch>\S+)")
_PROCESSOR = re.compile(r"\s*Processor(\d+):\s+(\d+)\s+(.*?)\s+(\d+)MHz\b\s*(.*)")


class Processor(NamedTuple):
    """One CPU of `pidin info`. number: from 0. midr: on Arm, the register of that name."""

    number: int
    midr: int
    name: str
    mhz: int
    flags: tuple[str, ...]


class PidinInfo(NamedTuple):
    """The answer of `pidin info`, as far as it is used. What is missing is None or empty."""

    cpu: str | None
    release: str | None
    memory_bytes: int | None
    processors: tuple[Processor, ...]


def is_answer(sections: Sections) -> bool:
    """Report whether a QNX host gave the answer."""
    return "qnx" in sections


def find_noise(facts: Facts, _: Usage | None = None) -> Iterator[Finding]:
    """Return all findings; none of the usual settings is known of a QNX host."""
    if facts.os == STANDIN:
        yield make_finding("stand-in", facts)
    yield make_finding("untold", facts)


def parse_uname(line: str) -> dict[str, str]:
    """Parse "QNX NODE RELEASE BUILD… BOARD ARCH" by these names; "" gives none. Raises ValueError."""
    match = _UNAME.fullmatch(" ".join(line.split()))
    if match is None and line.split():
        raise ValueError(line)
    return match.groupdict() if match else {}


def parse_pidin(lines: Sequence[str]) -> PidinInfo:
    """Parse `pidin info`. MIDR is decimal, a name may hold blanks, a clock rate may be 0."""
    text = "\n".join(lines)
    matches = [match for line in lines if (match := _PROCESSOR.match(line))]
    cpu, release = (re.search(rf"\b{name}:\s*(\S+)", text) for name in ("CPU", "Release"))
    memory = re.search(r"\bFreeMem:\S*?/(\d+)([KMG]B|)", text, re.IGNORECASE)
    return PidinInfo(
        cpu=cpu[1] if cpu else None,
        release=release[1] if release else None,
        memory_bytes=int(memory[1]) * _UNITS[memory[2].upper()] if memory else None,
        processors=tuple(
            Processor(int(number) - 1, int(midr), name, int(mhz), tuple(flags.split()))
            for number, midr, name, mhz, flags in (match.groups() for match in matches)
        ),
    )


def parse(sections: Sections, declared_arch: str | None = None) -> Facts:
    """Return the facts of a QNX host, without the directory. Raises ValueError for an impossible answer.

    declared_arch: the inventory's architecture, used if the host names none.
    """
    system = parse_values(sections)
    uname_line, pidin_line = system.get("uname", ""), next(iter(sections.get("pidin", [])), "")
    try:
        uname = parse_uname(uname_line)
    except ValueError as err:
        raise ValueError(f"`uname -a` says {str(err)[:200]!r}, which is not the format of QNX") from err
    pidin = parse_pidin(sections.get("pidin", []))
    named = _require_known_arch(uname.get("arch"), uname_line), _require_known_arch(pidin.cpu, pidin_line)
    arch = _require_agreement("architecture", *named, uname_line, pidin_line) or declared_arch
    if arch is None:
        raise ValueError("neither `uname -a` nor `pidin info` names an architecture: name it as `arch:`")
    release = _require_agreement("release", uname.get("release"), pidin.release, uname_line, pidin_line)
    cpus = []
    for number, midr, name, mhz, _ in pidin.processors:
        core = arm_core_name(f"{midr >> 24:#x}", f"{midr >> 4 & 0xFFF:#x}") if arch == "aarch64" else None
        cpus.append(Cpu(cpu=number, model=name or core, max_khz=mhz * 1000 or None))
    first = pidin.processors[0] if pidin.processors else None
    facts = Facts(
        os=STANDIN if "standin" in system else "qnx",
        arch=arch,
        hostname=uname.get("hostname"),
        kernel=release,
        kernel_version=uname.get("build"),
        board=uname.get("board"),
        cpu_model=" + ".join(dict.fromkeys(cpu.model for cpu in cpus if cpu.model)) or None,
        cpu_flags=first.flags if first else (),
        memory_bytes=pidin.memory_bytes,
        cpus=tuple(cpus),
        user=system.get("user") or None,
        compilers=parse_compilers(sections.get("compilers", [])),
        notes=() if cpus else (_NO_CPUS,),
    )
    if first is None or arch != "aarch64":
        return facts
    midr = first.midr  # MIDR_EL1, whose fields Linux writes so
    vendor, part = f"0x{midr >> 24:02x}", f"0x{midr >> 4 & 0xFFF:03x}"
    stepping = f"r{midr >> 20 & 0xF}p{midr & 0xF}"
    return replace(facts, cpu_vendor=vendor, cpu_model_number=part, cpu_stepping=stepping)


def parse_values(sections: Sections) -> dict[str, str]:
    """Return the section `qnx` by name, without the `tool` lines."""
    lines = (line.partition(" ") for line in sections.get("qnx", []))
    return {name: value for name, _, value in lines if name != "tool"}


def parse_search_path(sections: Sections) -> str:
    """Return the PATH in which every later command must look for programs."""
    return parse_values(sections).get("path", "")


def describe_answer(sections: Sections) -> tuple[str, ...]:
    """Return the whole answer in lines, for whoever has to find out why it was misread."""
    system = parse_values(sections)
    tools = [line.split(" ", 2) for line in sections.get("qnx", []) if line.startswith("tool ")]
    paths = {name: "" if path == "-" else path for _, name, path in tools}
    return (
        f"uname -a      {system.get('uname') or 'not there'}",
        *_align_column("pidin info", sections.get("pidin", [])),
        f"PATH          {system.get('path_given', '')}",
        f"  by profile  {system.get('path_profile') or '(no /etc/profile)'}",
        f"  as used     {system.get('path', '')}",
        f"HOME, user    {system.get('home') or '(none)'}, {system.get('user', '')}",
        f"programs      {', '.join(path for path in paths.values() if path) or 'none'}",
        f"not there     {', '.join(name for name, path in paths.items() if not path) or 'none'}",
        *_align_column("compilers", [line.replace("\t", ": ") for line in sections.get("compilers", [])]),
        *_align_column("directories", sections.get("workdir", [])),
        f"shell         {next(iter(_report_values(sections, 'shell')), 'unknown')}",
        *_align_column("ls -ld", _report_values(sections, "place")),
        *_align_column("pidin rmasks", sections.get("rmasks", [])),
        *_align_column("pidin qtime", sections.get("qtime", [])),
    )


def _report_values(sections: Sections, name: str) -> list[str]:
    lines = (line.partition(" ") for line in sections.get("report", []))
    return [value for key, _, value in lines if key == name]


def _align_column(title: str, lines: Sequence[str]) -> list[str]:
    titles = [title, *[""] * len(lines)]
    return [f"{head:<13} {line}" for head, line in zip(titles, lines or ["none"], strict=False)]


def _require_known_arch(word: str | None, line: str) -> str | None:
    arch = _ARCHES.get((word or "").lower())
    if word and arch is None:
        raise ValueError(f"{line[:200]!r} names {word[:40]!r}, an architecture fleet has no QNX agent for")
    return arch


def _require_agreement(
    property_name: str, by_uname: str | None, by_pidin: str | None, uname_line: str, pidin_line: str
) -> str | None:
    if by_uname is not None and by_pidin is not None and by_uname != by_pidin:
        raise ValueError(
            f"its {property_name} is {by_uname[:200]} by `uname -a` ({uname_line[:200]!r}), "
            f"but {by_pidin[:200]} by `pidin info` ({pidin_line[:200]!r})"
        )
    return by_uname or by_pidin
