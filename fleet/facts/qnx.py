"""What `uname -a` and `pidin info`, where they are there, say about a QNX host, as model.Facts. Pure."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from fleet.facts.findings import finding
from fleet.facts.linux import parse_compilers
from fleet.facts.probe import Sections
from fleet.facts.topology import core_name
from fleet.model import Cpu, Facts, Finding, Load

STANDIN = "qnx-standin"
"""The `os` of an imitation that the tests make out of Linux: its numbers are not those of QNX."""

_ARCHES = {"x86_64": "x86_64", "aarch64": "aarch64", "aarch64le": "aarch64"}
_NO_CPUS = "no `pidin info` on the host: how many CPUs it has is not known before the agent runs"
_UNITS = {"": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}
_UNAME = re.compile(r"QNX (?P<hostname>\S+) (?P<release>\S+) (?P<build>.+) (?P<board>\S+) (?P<arch>\S+)")
_PROCESSOR = re.compile(r"\s*Processor(\d+):\s+(\d+)\s+(.*?)\s+(\d+)MHz\b\s*(.*)")


@dataclass(frozen=True, slots=True)
class Processor:
    """One CPU as `pidin info` has it. number: from 0. midr: on Arm, the register of that name."""

    number: int
    midr: int
    name: str
    mhz: int
    flags: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PidinInfo:
    """The answer of `pidin info`, as far as we use it. What is missing there is None or empty."""

    cpu: str | None
    release: str | None
    memory_bytes: int | None
    processors: tuple[Processor, ...]


def is_answer(sections: Sections) -> bool:
    """Return whether a QNX host gave the answer."""
    return "qnx" in sections


def findings(facts: Facts, _: Load | None = None) -> Iterator[Finding]:
    """All findings; nothing that could disturb a measurement is known of a QNX host."""
    if facts.os == STANDIN:
        yield finding("stand-in", facts)
    yield finding("untold", facts)


def parse_uname(line: str) -> dict[str, str]:
    """Read "QNX NODE RELEASE BUILD… BOARD ARCH" by these names; "" has none. ValueError: any other line."""
    found = _UNAME.fullmatch(" ".join(line.split()))
    if found is None and line.split():
        raise ValueError(line)
    return found.groupdict() if found else {}


def parse_pidin(lines: Sequence[str]) -> PidinInfo:
    """Read `pidin info`: MIDR is decimal, a name may hold blanks, a clock rate be 0; others are skipped."""
    text = "\n".join(lines)
    found = [match for line in lines if (match := _PROCESSOR.match(line))]
    return PidinInfo(
        cpu=_value(text, r"\bCPU:\s*(\S+)"),
        release=_value(text, r"\bRelease:\s*(\S+)"),
        memory_bytes=_bytes(re.search(r"\bFreeMem:\S*?/(\d+)([KMG]B|)", text, re.IGNORECASE)),
        processors=tuple(
            Processor(int(number) - 1, int(midr), name, int(mhz), tuple(flags.split()))
            for number, midr, name, mhz, flags in (match.groups() for match in found)
        ),
    )


def parse(sections: Sections, declared_arch: str | None = None) -> Facts:
    """Facts of a QNX host, but for our directory; declared_arch if it names none. Raises ValueError."""
    system = values(sections)
    uname_line, pidin_line = system.get("uname", ""), next(iter(sections.get("pidin", [])), "")
    try:
        uname = parse_uname(uname_line)
    except ValueError as err:
        raise ValueError(f"`uname -a` says {str(err)[:200]!r}, which is not the format of QNX") from err
    pidin = parse_pidin(sections.get("pidin", []))
    named = _known(uname.get("arch"), uname_line), _known(pidin.cpu, pidin_line)
    arch = _agreed("architecture", *named, uname_line, pidin_line) or declared_arch
    if arch is None:
        raise ValueError("neither `uname -a` nor `pidin info` names an architecture: name it as `arch:`")
    release = _agreed("release", uname.get("release"), pidin.release, uname_line, pidin_line)
    cpus = tuple(_cpu(processor, arch) for processor in pidin.processors)
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
        cpus=cpus,
        user=system.get("user") or None,
        compilers=parse_compilers(sections.get("compilers", [])),
        notes=() if cpus else (_NO_CPUS,),
    )
    if first is None or arch != "aarch64":
        return facts
    midr = first.midr  # MIDR_EL1, whose fields Linux writes so
    vendor, number = f"0x{midr >> 24:02x}", f"0x{midr >> 4 & 0xFFF:03x}"
    stepping = f"r{midr >> 20 & 0xF}p{midr & 0xF}"
    return replace(facts, cpu_vendor=vendor, cpu_model_number=number, cpu_stepping=stepping)


def values(sections: Sections) -> dict[str, str]:
    """The section `qnx` as name to value; `tool` lines are in `tools`."""
    lines = (line.partition(" ") for line in sections.get("qnx", []))
    return {name: value for name, _, value in lines if name != "tool"}


def tools(sections: Sections) -> dict[str, str]:
    """The programs looked for, and where they were found; empty where they were not."""
    words = (line.split(" ", 2) for line in sections.get("qnx", []) if line.startswith("tool "))
    return {name: "" if path == "-" else path for _, name, path in words}


def search_path(sections: Sections) -> str:
    """Where every later command must look for programs."""
    return values(sections).get("path", "")


def raw_lines(sections: Sections) -> tuple[str, ...]:
    """Return the whole answer in lines, for whoever has to find out why it was misread."""
    system, found = values(sections), tools(sections)
    return (
        f"uname -a      {system.get('uname') or 'not there'}",
        *_column("pidin info", sections.get("pidin", [])),
        f"PATH          {system.get('path_given', '')}",
        f"  by profile  {system.get('path_profile') or '(no /etc/profile)'}",
        f"  as used     {system.get('path', '')}",
        f"HOME, user    {system.get('home') or '(none)'}, {system.get('user', '')}",
        f"programs      {', '.join(path for path in found.values() if path) or 'none'}",
        f"not there     {', '.join(name for name, path in found.items() if not path) or 'none'}",
        *_column("compilers", [line.replace("\t", ": ") for line in sections.get("compilers", [])]),
        *_column("directories", sections.get("workdir", [])),
        f"shell         {next(iter(_report(sections, 'shell')), 'unknown')}",
        *_column("ls -ld", _report(sections, "place")),
        *_column("pidin rmasks", sections.get("rmasks", [])),
        *_column("pidin qtime", sections.get("qtime", [])),
    )


def _report(sections: Sections, name: str) -> list[str]:
    lines = (line.partition(" ") for line in sections.get("report", []))
    return [value for key, _, value in lines if key == name]


def _column(title: str, lines: Sequence[str]) -> list[str]:
    titles = [title, *[""] * len(lines)]
    return [f"{head:<13} {line}" for head, line in zip(titles, lines or ["none"], strict=False)]


def _known(word: str | None, line: str) -> str | None:
    arch = _ARCHES.get((word or "").lower())
    if word and arch is None:
        raise ValueError(f"{line[:200]!r} names {word[:40]!r}, an architecture fleet has no QNX agent for")
    return arch


def _agreed(
    what: str, by_uname: str | None, by_pidin: str | None, uname_line: str, pidin_line: str
) -> str | None:
    if by_uname is not None and by_pidin is not None and by_uname != by_pidin:
        raise ValueError(
            f"its {what} is {by_uname[:200]} by `uname -a` ({uname_line[:200]!r}), "
            f"but {by_pidin[:200]} by `pidin info` ({pidin_line[:200]!r})"
        )
    return by_uname or by_pidin


def _cpu(processor: Processor, arch: str) -> Cpu:
    name = processor.name or None
    if name is None and arch == "aarch64":
        name = core_name(f"{processor.midr >> 24:#x}", f"{processor.midr >> 4 & 0xFFF:#x}")
    return Cpu(cpu=processor.number, model=name, max_khz=processor.mhz * 1000 or None)


def _value(text: str, pattern: str) -> str | None:
    found = re.search(pattern, text)
    return found[1] if found else None


def _bytes(found: re.Match[str] | None) -> int | None:
    return int(found[1]) * _UNITS[found[2].upper()] if found else None
