"""Parses what `uname -a` and `pidin info` print on a QNX host, as model.Facts. Pure."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from fleet.errors import DataError
from fleet.facts.findings import make_finding
from fleet.facts.linux import parse_compilers
from fleet.facts.probe import Sections
from fleet.facts.topology import arm_core_name
from fleet.model import Cpu, Facts, Finding, Usage

# the `os` of a stand-in, an imitation of QNX that the tests make out of Linux
STANDIN = "qnx-standin"

_ARCHES = {"x86_64": "x86_64", "aarch64": "aarch64", "aarch64le": "aarch64"}
_NO_CPUS = (
    "no `pidin info` on the host: how many CPUs it has is not known before the agent"
    " runs"
)
_UNITS = {"": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}
_UNAME = re.compile(
    r"QNX (?P<hostname>\S+) (?P<release>\S+) (?P<build>.+) (?P<board>\S+) (?P<arch>\S+)"
)
_PROCESSOR = re.compile(
    r"\s*Processor(\d{1,9}):\s+(\d{1,18})\s+(.*?)\s+(\d{1,9})MHz\b\s*(.*)"
)


def is_answer(sections: Sections) -> bool:
    """Report whether a QNX host gave the answer."""
    return "qnx" in sections


def find_noise(facts: Facts, _: Usage | None = None) -> Iterator[Finding]:
    """Yield a finding if the host is a stand-in, then one that QNX does not show the
    usual settings.
    """
    if facts.os == STANDIN:
        yield make_finding("stand-in", facts)
    yield make_finding("untold", facts)


def parse(sections: Sections, declared_arch: str | None = None) -> Facts:
    """Return the facts of a QNX host, without the workdir, which `gather` adds. Raises
    DataError for an unusable answer.

    Two programs tell of the host, `uname -a` and `pidin info`; either may be missing.
    What both tell must agree. declared_arch: the inventory's, if it has one.
    """
    system = parse_values(sections)
    pidin = sections.get("pidin", [])
    text = "\n".join(pidin)
    uname_line = system.get("uname", "")
    pidin_line = pidin[0] if pidin else ""
    uname = _parse_uname(uname_line)
    cpu = re.search(r"\bCPU:\s*(\S+)", text)
    arch = _find_arch(
        by_uname=_Told(uname.get("arch"), uname_line),
        by_pidin=_Told(cpu and cpu[1], pidin_line),
    )
    arch = arch or declared_arch
    if arch is None:
        raise DataError(
            "neither `uname -a` nor `pidin info` names an architecture: name it as"
            " `arch:`"
        )
    release = re.search(r"\bRelease:\s*(\S+)", text)
    kernel = _require_agreement(
        "release",
        by_uname=_Told(uname.get("release"), uname_line),
        by_pidin=_Told(release and release[1], pidin_line),
    )
    facts = Facts(
        # a stand-in is an imitation of QNX, for tests
        os=STANDIN if "standin" in system else "qnx",
        arch=arch,
        hostname=uname.get("hostname"),
        kernel=kernel,
        kernel_version=uname.get("build"),
        board=uname.get("board"),
        memory_bytes=_parse_memory_bytes(text),
        user=system.get("user") or None,
        compilers=parse_compilers(sections.get("compilers", [])),
    )
    processors = [match for match in map(_PROCESSOR.match, pidin) if match]
    if not processors:
        return replace(facts, notes=(_NO_CPUS,))
    return _add_cpus(facts, processors)


def _add_cpus(facts: Facts, processors: Sequence[re.Match[str]]) -> Facts:
    """Add the CPUs of the lines of `pidin info` that match _PROCESSOR. A line has a
    CPU's number, a register (MIDR on Arm), the name of the core, MHz and flags.
    """
    cpus = tuple(_make_cpu(processor, facts.arch) for processor in processors)
    models = dict.fromkeys(cpu.model for cpu in cpus if cpu.model)
    # the host has the flags, and on Arm the numbers, of its first CPU
    _, midr, _, _, flags = processors[0].groups()
    facts = replace(
        facts,
        cpus=cpus,
        cpu_model=" + ".join(models) or None,
        cpu_flags=tuple(flags.split()),
    )
    if facts.arch != "aarch64":
        return facts
    vendor, model_number, stepping = _read_midr(midr)
    return replace(
        facts,
        cpu_vendor=vendor,
        cpu_model_number=model_number,
        cpu_stepping=stepping,
    )


def _make_cpu(processor: re.Match[str], arch: str) -> Cpu:
    """Return the CPU of a line of `pidin info` that matches _PROCESSOR. The line need
    not name the core: on Arm, its register MIDR then tells.
    """
    number, midr, name, mhz, _ = processor.groups()
    model: str | None = name
    if not name and arch == "aarch64":
        implementer, part, _ = _read_midr(midr)
        model = arm_core_name(implementer, part)
    cpu = int(number) - 1  # pidin counts from 1
    max_khz = 1000 * int(mhz)
    return Cpu(cpu, model=model or None, max_khz=max_khz or None)


def _parse_uname(line: str) -> dict[str, str]:
    """Return the words of `uname -a`, by the names in _UNAME; {} of an empty line.
    Raises DataError.
    """
    words = line.split()
    if not words:
        return {}
    match = _UNAME.fullmatch(" ".join(words))
    if match is None:
        raise DataError(
            f"`uname -a` says {line[:200]!r}, which is not the format of QNX"
        )
    return match.groupdict()


def _parse_memory_bytes(pidin: str) -> int | None:
    match = re.search(r"\bFreeMem:\S*?/(\d{1,12})([KMG]B|)", pidin, re.IGNORECASE)
    if match is None:
        return None
    number, unit = match.groups()
    return int(number) * _UNITS[unit.upper()]


def _read_midr(register: str) -> tuple[str, str, str]:
    """Return implementer, part and revision of a decimal MIDR_EL1 as Linux writes them:
    "1091555505" -> ("0x41", "0xd0b", "r0p1").

    From its upper bits on, the register has: implementer (8 bits), variant (4),
    architecture (4), part (12) and revision (4). "r0p1" is variant 0, revision 1.
    """
    midr = int(register)
    implementer = midr >> 24
    variant = midr >> 20 & 0xF
    part = midr >> 4 & 0xFFF
    revision = midr & 0xF
    return f"0x{implementer:02x}", f"0x{part:03x}", f"r{variant}p{revision}"


def parse_values(sections: Sections) -> dict[str, str]:
    """Return the values in section `qnx` by name, without the `tool` lines."""
    values = {}
    for line in sections.get("qnx", []):
        name, _, value = line.partition(" ")
        if name != "tool":
            values[name] = value
    return values


def describe_answer(sections: Sections) -> tuple[str, ...]:
    """Return the whole answer in lines, for whoever has to find out why it was
    misread.
    """
    system = parse_values(sections)
    installed, missing = _list_installed_and_missing_tools(sections)
    compilers = [line.replace("\t", ": ") for line in sections.get("compilers", [])]
    shells = _find_report_values(sections, "shell") or ["unknown"]
    return (
        f"uname -a      {system.get('uname') or 'not there'}",
        *_align_column("pidin info", sections.get("pidin", [])),
        f"PATH          {system.get('path_given', '')}",
        f"  by profile  {system.get('path_profile') or '(no /etc/profile)'}",
        f"  as used     {system.get('path', '')}",
        f"HOME, user    {system.get('home') or '(none)'}, {system.get('user', '')}",
        f"programs      {', '.join(installed) or 'none'}",
        f"not there     {', '.join(missing) or 'none'}",
        *_align_column("compilers", compilers),
        *_align_column("directories", sections.get("workdir", [])),
        f"shell         {shells[0]}",
        *_align_column("ls -ld", _find_report_values(sections, "place")),
        *_align_column("pidin rmasks", sections.get("rmasks", [])),
        *_align_column("pidin qtime", sections.get("qtime", [])),
    )


def _list_installed_and_missing_tools(
    sections: Sections,
) -> tuple[list[str], list[str]]:
    """Return the paths of the programs that the host has, and the names of those that
    it lacks, from the lines "tool NAME PATH".
    """
    installed = []
    missing = []
    for line in sections.get("qnx", []):
        if line.startswith("tool "):
            name, _, path = line.removeprefix("tool ").partition(" ")
            if path in ("", "-"):
                missing.append(name)
            else:
                installed.append(path)
    return installed, missing


def _find_report_values(sections: Sections, name: str) -> list[str]:
    """Return the values of all lines "NAME VALUE" in section `report` with this
    name.
    """
    values = []
    for line in sections.get("report", []):
        key, _, value = line.partition(" ")
        if key == name:
            values.append(value)
    return values


def _align_column(title: str, lines: Sequence[str]) -> list[str]:
    """Return a line per cell, with the title before the first; "none" without cells."""
    first, *others = lines or ["none"]
    return [f"{title:<13} {first}", *[f"{'':<13} {cell}" for cell in others]]


class _Told(NamedTuple):
    """A value, None if a program did not tell it, and the line in which it did."""

    value: str | None
    line: str


def _find_arch(by_uname: _Told, by_pidin: _Told) -> str | None:
    """Return the architecture that the words of the two programs name; None if neither
    names one. Raises DataError if they contradict each other, or if fleet has no agent
    for that architecture.
    """
    return _require_agreement(
        "architecture",
        by_uname=_require_known_arch(by_uname),
        by_pidin=_require_known_arch(by_pidin),
    )


def _require_known_arch(told: _Told) -> _Told:
    """Return what was told with the architecture in place of the word that names it.
    Raises DataError if fleet has no agent for that architecture.
    """
    word = told.value
    arch = _ARCHES.get((word or "").lower())
    if word and arch is None:
        raise DataError(
            f"{told.line[:200]!r} names {word[:40]!r}, an architecture fleet has no QNX"
            " agent for"
        )
    return _Told(arch, told.line)


def _require_agreement(name: str, by_uname: _Told, by_pidin: _Told) -> str | None:
    """Return the value that `uname -a`, `pidin info` or both tell; None if neither
    tells it. Raises DataError if the two contradict each other. name: what the value
    is, such as "architecture".
    """
    one = by_uname.value
    other = by_pidin.value
    if one is not None and other is not None and one != other:
        raise DataError(
            f"its {name} is {one[:200]} by `uname -a` ({by_uname.line[:200]!r}), "
            f"but {other[:200]} by `pidin info` ({by_pidin.line[:200]!r})"
        )
    return one or other
